// Goal: both OpenAI interfaces send the schema of a typed result in its own field, beside tools and
// settings, and force the last step. The server decides which models enforce a schema.
// Method: runs over the real client against a server that records every request; whole bodies are
// compared, typed by `openai`.

import type { ChatCompletionCreateParamsNonStreaming } from "openai/resources/chat/completions";
import type { ResponseCreateParamsNonStreaming } from "openai/resources/responses/responses";
import { afterEach, expect, test, vi } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { functionCall, message } from "../../fixtures/streams/response-events.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { API_KEY, modelAt } from "../../support/openai-calls.ts";
import { calls, OpenAiServer, says, type Handler } from "../../support/openai-server.ts";
import { responds } from "../../support/responses-replies.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

const output = z.object({ name: z.string(), note: z.string().optional() });
const SCHEMA = {
  type: "object",
  properties: { name: { type: "string" }, note: { anyOf: [{ type: "string" }, { type: "null" }] } },
  required: ["name", "note"],
  additionalProperties: false,
};
const LOOSE = z.object({ counts: z.record(z.string(), z.int()) });
const WRITTEN = '{"name":"oak","note":null}';
const LAST =
  "This is your last step: you cannot use tools any more. Give your result now, with what you have.";
const FORCED =
  "This is your last step: call Finish now with what you have. You cannot use other tools any more.";

/** Responds with a call of `look`, then with the result. */
const respond: Handler = (request, count) =>
  responds(request, [count === 1 ? functionCall("call_1", "look", "{}") : message(WRITTEN)]);
const finishAtOnce: Handler = (request, count) =>
  responds(request, [
    count === 1 ? functionCall("call_1", "look", "{}") : functionCall("call_2", "Finish", WRITTEN),
  ]);
const chat: Handler = (_request, count) => (count === 1 ? calls(["look", {}]) : says(WRITTEN));

interface Asked {
  readonly output: unknown;
  readonly bodies: readonly unknown[];
}

/** Runs two steps, of which the second is announced as the last. */
async function run(
  handler: Handler,
  options: OpenAiOptions,
  abilities: Partial<Model>,
): Promise<Asked> {
  await using server = await OpenAiServer.start(handler);
  const model = { ...modelAt(server, options), ...abilities };
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    tools: [spyTool("look", () => "An oak.")],
    output,
    budget: { steps: 2 },
    wrapUp: true,
    maxOutputTokens: 100,
  });
  const result = await newFixture().run(role);
  return { output: result.output, bodies: server.requests.map(({ body }) => body) };
}

const PARAMETERS = { type: "object", properties: {}, additionalProperties: {} };

proves(
  ["M55", "M57"],
  "sends the format in every request over Responses, with all tools listed",
  async () => {
    const options = {
      api: "responses",
      supportsStructuredOutputs: true,
      verbosity: "low",
      promptCacheKey: false,
    } as const;
    const { bodies, output: given } = await run(respond, options, { supportsToolChoice: true });
    expect(given).toEqual({ name: "oak" });
    const body = {
      model: "test-model",
      tools: [
        {
          type: "function",
          name: "look",
          description: "Does look.",
          parameters: PARAMETERS,
          strict: false,
        },
      ],
      max_output_tokens: 100,
      text: {
        verbosity: "low",
        format: { type: "json_schema", name: "result", strict: true, schema: SCHEMA },
      },
      store: false,
      include: ["reasoning.encrypted_content"],
    } satisfies ResponseCreateParamsNonStreaming;
    const begin = [
      { role: "developer", content: "Work." },
      { role: "user", content: "Do it." },
    ];
    expect(bodies).toEqual([
      { ...body, input: begin },
      {
        ...body,
        tool_choice: "none",
        input: [
          ...begin,
          { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
          { type: "function_call_output", call_id: "call_1", output: "An oak." },
          { role: "user", content: LAST },
        ],
      },
    ]);
  },
);

proves(
  ["M55", "M57"],
  "sends the format in every request over Chat Completions, with all tools listed",
  async () => {
    const { bodies, output: given } = await run(
      chat,
      { supportsStructuredOutputs: true },
      { supportsToolChoice: true },
    );
    expect(given).toEqual({ name: "oak" });
    const body = {
      model: "test-model",
      tools: [
        {
          type: "function",
          function: { name: "look", description: "Does look.", parameters: PARAMETERS },
        },
      ],
      max_tokens: 100,
      response_format: {
        type: "json_schema",
        json_schema: { name: "result", strict: true, schema: SCHEMA },
      },
    } satisfies Omit<ChatCompletionCreateParamsNonStreaming, "messages">;
    const begin = [
      { role: "system", content: "Work." },
      { role: "user", content: "Do it." },
    ];
    const call = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } };
    expect(bodies).toEqual([
      { ...body, messages: begin },
      {
        ...body,
        tool_choice: "none",
        messages: [
          ...begin,
          { role: "assistant", content: null, tool_calls: [call] },
          { role: "tool", tool_call_id: "call_1", content: "An oak." },
          { role: "user", content: LAST },
        ],
      },
    ]);
  },
);

proves(
  ["M53", "M57"],
  "uses Finish without forcing it if the abilities of the server are unknown",
  async () => {
    const last = calls(["Finish", { name: "oak" }]);
    const { bodies, output: given } = await run(
      (_request, count) => (count === 1 ? calls(["look", {}]) : last),
      {},
      {},
    );
    expect(given).toEqual({ name: "oak" });
    expect(bodies).toMatchObject([
      { tools: [{ function: { name: "look" } }, { function: { name: "Finish" } }] },
      { tools: [{ function: { name: "Finish" } }] },
    ]);
    for (const body of bodies) {
      expect(body).not.toHaveProperty("response_format");
      expect(body).not.toHaveProperty("tool_choice");
    }
  },
);

proves(["M57"], "forces Finish by name in the last step, with all tools listed", async () => {
  const options = { api: "responses" } as const;
  const { bodies, output: given } = await run(finishAtOnce, options, { supportsToolChoice: true });
  expect(given).toEqual({ name: "oak" });
  const tools = [{ name: "look" }, { name: "Finish" }];
  expect(bodies).toMatchObject([
    { tools },
    { tools, tool_choice: { type: "function", name: "Finish" } },
  ]);
  expect(JSON.stringify(bodies[1])).toContain(FORCED);
});

proves(["M55"], "sends a schema without a strict form unchanged and not as strict", async () => {
  const sent = async (options: OpenAiOptions, handler: Handler): Promise<unknown> => {
    await using server = await OpenAiServer.start(handler);
    const model = modelAt(server, { supportsStructuredOutputs: true, ...options });
    await newFixture().run(
      defineAgent({ name: "solo", instructions: "Work.", model, output: LOOSE }),
    );
    const { text, response_format: format } = server.request(1).body;
    return text ?? format;
  };
  const counts = '{"counts":{"oak":3}}';
  const loose = { name: "result", strict: false, schema: { required: ["counts"] } };
  expect([
    await sent({ api: "responses" }, (request) => responds(request, [message(counts)])),
    await sent({}, () => says(counts)),
  ]).toMatchObject([
    { format: { type: "json_schema", ...loose } },
    { type: "json_schema", json_schema: loose },
  ]);
});

proves(
  ["M53"],
  "supports structured outputs over Responses at OpenAI and Azure, and elsewhere by the option",
  () => {
    vi.stubEnv("OPENAI_BASE_URL", undefined);
    const azure = "https://mine.openai.azure.com/openai/v1";
    const local = "http://127.0.0.1:11434/v1";
    const abilities = (options: OpenAiOptions): unknown => {
      const {
        supportsStructuredOutputs: native,
        supportsToolChoice,
        apiType,
      } = openai("m", { apiKey: API_KEY, ...options });
      return [native, supportsToolChoice, apiType];
    };
    expect({
      openai: abilities({}),
      region: abilities({ baseUrl: "https://eu.api.openai.com/v1" }),
      chat: abilities({ api: "chat_completions" }),
      azure: abilities({ baseUrl: azure }),
      azureTold: abilities({ baseUrl: azure, api: "responses" }),
      foundry: abilities({ baseUrl: "https://mine.services.ai.azure.com/openai/v1" }),
      services: abilities({ baseUrl: "https://mine.cognitiveservices.azure.com/openai/v1/" }),
      otherApi: abilities({ baseUrl: "https://mine.services.ai.azure.com/models" }),
      proxy: abilities({ baseUrl: "https://proxy.example/api.openai.com/v1" }),
      local: abilities({ baseUrl: local }),
      localTold: abilities({ baseUrl: local, api: "responses" }),
      localNative: abilities({ baseUrl: local, supportsStructuredOutputs: true }),
      openaiNot: abilities({ supportsStructuredOutputs: false }),
    }).toEqual({
      openai: [true, true, "responses"],
      region: [true, true, "responses"],
      chat: [false, true, "chat_completions"],
      azure: [false, true, "chat_completions"],
      azureTold: [true, true, "responses"],
      foundry: [false, true, "chat_completions"],
      services: [false, true, "chat_completions"],
      otherApi: [false, false, "chat_completions"],
      proxy: [false, false, "chat_completions"],
      local: [false, false, "chat_completions"],
      localTold: [false, false, "responses"],
      localNative: [true, false, "chat_completions"],
      openaiNot: [false, true, "responses"],
    });
  },
);

test("follows changes of the environment until the model is used", () => {
  vi.stubEnv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1");
  const model = openai("m");
  expect(model.supportsStructuredOutputs).toBe(false);
  vi.stubEnv("OPENAI_BASE_URL", undefined);
  expect(model.supportsStructuredOutputs).toBe(true);
});
