// Goal: over the providers of the AI SDK the schema of a typed result is sent in the form of each
// provider, beside tools. A choice that a provider refuses is not forced. The abilities of a model
// follow from its provider.
// Method: the providers themselves over a scripted network; the relevant parts of their requests.

import type { JSONObject } from "@ai-sdk/provider";
import { describe, expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { aiSdkModel, type AiSdkOptions } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { ModelRequest, OutputSchema } from "../../../src/model/model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { ask, fakeModel, finish, saying, streamOf, text } from "../../support/ai-sdk/fake-model.ts";
import {
  ANTHROPIC_OK,
  FakeNetwork,
  PROVIDERS,
  streaming,
  type Body,
  type ProviderName,
} from "../../support/ai-sdk/provider-fixture.ts";

const schema = {
  type: "object",
  properties: { name: { type: "string" }, note: { anyOf: [{ type: "string" }, { type: "null" }] } },
  required: ["name", "note"],
  additionalProperties: false,
};
const OUTPUT: OutputSchema = { name: "result", schema, strict: true };
const LOOSE: OutputSchema = { ...OUTPUT, strict: false };
const TOOLS = ["look", "Finish"].map((name) => ({
  name,
  description: "Does it.",
  inputSchema: { type: "object", properties: {} },
}));

/** Returns the body that a provider sends. Its answer does not matter. */
async function sent(
  provider: ProviderName,
  request: Partial<ModelRequest>,
  options: AiSdkOptions = {},
  id?: string,
): Promise<Body | undefined> {
  const network = new FakeNetwork(() => new Response("{}", { status: 400 }));
  const model = aiSdkModel(PROVIDERS[provider](network.fetch, id), options);
  await rejectionOf(ask(model, { maxOutputTokens: 3_000, ...request }));
  return network.bodies[0];
}

const FORMS: Partial<Record<ProviderName, object>> = {
  anthropic: { output_config: { format: { type: "json_schema", schema } } },
  google: {
    generationConfig: { responseMimeType: "application/json", responseJsonSchema: schema },
  },
  openai: { text: { format: { type: "json_schema", strict: true, name: "result", schema } } },
  chat: {
    response_format: { type: "json_schema", json_schema: { strict: true, name: "result", schema } },
  },
  openrouter: {
    response_format: { type: "json_schema", json_schema: { strict: true, name: "result", schema } },
  },
};

for (const provider of ["anthropic", "google", "openai", "chat", "openrouter"] as const)
  proves(["M55"], `sends the schema beside tools over ${provider}`, async () => {
    const body = await sent(provider, { tools: TOOLS.slice(0, 1), output: OUTPUT });
    expect(body).toMatchObject({ ...FORMS[provider] });
    expect(JSON.stringify(body?.["tools"])).toContain("look");
    expect(body).not.toHaveProperty("tool_choice", { type: "any" });
  });

proves(["M55"], "does not declare a schema as strict to OpenAI that is not strict", async () => {
  expect(await sent("openai", { output: LOOSE })).toMatchObject({
    text: { format: { strict: false } },
  });
  const given: AiSdkOptions = { providerOptions: { openai: { strictJsonSchema: true } } };
  expect(await sent("chat", { output: LOOSE }, given)).toMatchObject({
    response_format: { json_schema: { strict: true } },
  });
});

proves(
  ["M53"],
  "supports structured outputs if its provider does, unless the option says otherwise",
  () => {
    const network = new FakeNetwork();
    const abilities = (provider: ProviderName, options?: AiSdkOptions): unknown => {
      const {
        supportsStructuredOutputs: native,
        supportsToolChoice,
        apiType,
      } = aiSdkModel(PROVIDERS[provider](network.fetch), options);
      return [native, supportsToolChoice, apiType];
    };
    expect({
      anthropic: abilities("anthropic"),
      google: abilities("google"),
      openai: abilities("openai"),
      chat: abilities("chat"),
      compatible: abilities("compatible"),
      compatibleTold: abilities("compatible", { supportsStructuredOutputs: true }),
      openrouter: abilities("openrouter"),
      openrouterNot: abilities("openrouter", { supportsStructuredOutputs: false }),
    }).toEqual({
      anthropic: [true, true, undefined],
      google: [true, true, undefined],
      openai: [true, true, "responses"],
      chat: [true, true, "chat_completions"],
      compatible: [false, false, undefined],
      compatibleTold: [true, false, undefined],
      openrouter: [true, false, undefined],
      openrouterNot: [false, false, undefined],
    });
  },
);

describe("Claude", () => {
  const forced: Partial<ModelRequest> = { tools: TOOLS, toolChoice: { toolName: "Finish" } };
  const namesIn = (body: Body | undefined): unknown[] =>
    z
      .array(z.looseObject({ name: z.string() }))
      .parse(body?.["tools"])
      .map(({ name }) => name);

  proves(["M57"], "is forced to call a tool without reasoning, with all tools listed", async () => {
    const body = await sent("anthropic", forced, {}, "claude-sonnet-4-5");
    expect([namesIn(body), body?.["tool_choice"]]).toEqual([
      ["look", "Finish"],
      { type: "tool", name: "Finish" },
    ]);
  });

  const thinking: JSONObject = { type: "enabled", budgetTokens: 1_024 };
  const reasoning: Readonly<Record<string, [Partial<ModelRequest>, AiSdkOptions]>> = {
    "by its options": [{}, { providerOptions: { anthropic: { thinking } } }],
    "by the option reasoning": [{}, { reasoning: "low" }],
    "by its role": [{ settings: { reasoning: { effort: "low" } } }, {}],
  };
  for (const [how, [request, options]] of Object.entries(reasoning))
    proves(
      ["M57"],
      `is not forced but offered one tool alone, if reasoning is set ${how}`,
      async () => {
        const body = await sent(
          "anthropic",
          { ...forced, ...request },
          options,
          "claude-sonnet-4-5",
        );
        expect(body).toHaveProperty("thinking.type", "enabled");
        expect([namesIn(body), body?.["tool_choice"]]).toEqual([["Finish"], { type: "auto" }]);
      },
    );
});

const output = z.object({ name: z.string(), note: z.string().optional() });
const WRITTEN = '{"name":"oak","note":null}';

proves(
  ["M53", "M55"],
  "returns the typed result of a run over Claude from a text that matches the schema",
  async () => {
    const network = new FakeNetwork(
      streaming(ANTHROPIC_OK.replace('"ok"', JSON.stringify(WRITTEN))),
    );
    const model = aiSdkModel(PROVIDERS.anthropic(network.fetch));
    const tools = [spyTool("look", () => "An oak.")];
    const role = defineAgent({ name: "solo", instructions: "Work.", model, tools, output });
    const result = await newFixture().run(role);
    expect([result.status, result.output, network.bodies.length]).toEqual([
      "completed",
      { name: "oak" },
      1,
    ]);
    expect(network.bodies[0]).toMatchObject({
      tools: [{ name: "look" }],
      output_config: { format: { type: "json_schema" } },
    });
  },
);

proves(
  ["M55"],
  "passes the schema with its name to the AI SDK as the response format",
  async () => {
    const model = saying([...text("ok"), finish()]);
    await ask(aiSdkModel(model), { output: OUTPUT });
    await ask(aiSdkModel(model));
    expect(model.asked.map(({ responseFormat }) => responseFormat)).toEqual([
      { type: "json", name: "result", schema },
      undefined,
    ]);
  },
);

proves(
  ["M59"],
  "reads the service tier of a reply from the metadata of OpenAI's models",
  async () => {
    const tier = async (metadata: Record<string, JSONObject>): Promise<unknown> => {
      const parts = [...text("ok"), { ...finish(), providerMetadata: metadata }];
      const reply = await ask(aiSdkModel(fakeModel(() => ({ stream: streamOf(parts) }))));
      return reply.usage?.serviceTier;
    };
    expect([
      await tier({ openai: { serviceTier: "flex" } }),
      await tier({ azure: { serviceTier: "default" } }),
      await tier({ openai: { serviceTier: 3 } }),
      await tier({}),
    ]).toEqual(["flex", "default", undefined, undefined]);
  },
);
