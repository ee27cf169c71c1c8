// Goal: a provider is asked to enforce a tool's schema if the tool or the model requests it. The
// tool never sees the nulls that a strict schema adds.
// Method: tools created by defineTool; requests over both interfaces to a server that records them
// and answers with nulls.

import { expect, test } from "vitest";
import { z } from "zod";

import type { OpenAiOptions } from "../../src/model/openai/openai-model.ts";
import type { ModelReply, ToolSpec } from "../../src/model/model.ts";
import { defineTool, type ToolDefinition } from "../../src/tools/define-tool.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";
import { buildToolSet } from "../../src/tools/tool-set.ts";
import { prefixTools } from "../../src/tools/toolsets.ts";
import { withRetries } from "../../src/tools/wrappers/with-retries.ts";
import { proves } from "../harness/proves.ts";
import { modelAt, never, QUESTION } from "../support/openai-calls.ts";
import { calls, OpenAiServer, type ServerReply } from "../support/openai-server.ts";
import { thrownBy } from "../support/thrown.ts";

const input = z.object({ city: z.string(), days: z.int().max(9).optional() });

function tool(
  name: string,
  more: Partial<ToolDefinition<typeof input>> = {},
): ReturnType<typeof defineTool<typeof input>> {
  return defineTool({
    name,
    description: "Does it.",
    inputSchema: input,
    execute: () => "ok",
    ...more,
  });
}

const STRICT = {
  type: "object",
  properties: {
    city: { type: "string" },
    days: {
      anyOf: [{ type: "integer", minimum: -9007199254740991, maximum: 9 }, { type: "null" }],
    },
  },
  required: ["city", "days"],
  additionalProperties: false,
};

const open = defineTool({
  name: "open",
  description: "Does it.",
  inputSchema: z.object({ any: z.record(z.string(), z.string()) }),
  execute: () => "ok",
});
const { specs } = buildToolSet("test", [
  tool("asks", { strictSchema: true }),
  tool("says_nothing"),
  tool("declines", { strictSchema: false }),
  open,
]);

/** Returns which tools are strict, and whether they are sent in strict form. */
function heldIn(tools: unknown): unknown {
  const list = z.array(z.record(z.string(), z.unknown())).parse(tools);
  return list.map((one) => {
    const face = z
      .looseObject({ name: z.string(), strict: z.boolean().optional(), parameters: z.unknown() })
      .parse(one["function"] ?? one);
    return [face.name, face.strict, JSON.stringify(face.parameters) === JSON.stringify(STRICT)];
  });
}

async function sentWith(options: OpenAiOptions = {}): Promise<unknown> {
  await using server = await OpenAiServer.start(() => calls(["asks", { city: "Rome" }]));
  const request = { ...QUESTION, tools: specs };
  await modelAt(server, options)
    .generate(request, { signal: never() })
    .catch(() => undefined); // The server answers in the format of Chat Completions.
  return heldIn(server.request(1).body["tools"]);
}

proves(
  ["M19"],
  "sends a tool as strict if the tool requests it, else if the model does, where its schema allows it",
  async () => {
    expect(await sentWith({ api: "responses" })).toEqual([
      ["asks", true, true],
      ["says_nothing", false, false],
      ["declines", false, false],
      ["open", false, false],
    ]);
    expect(await sentWith({ api: "responses", strictTools: true })).toEqual([
      ["asks", true, true],
      ["says_nothing", true, true],
      ["declines", false, false],
      ["open", false, false],
    ]);
    expect(await sentWith()).toEqual([
      ["asks", true, true],
      ["says_nothing", undefined, false],
      ["declines", undefined, false],
      ["open", undefined, false],
    ]);
    expect(await sentWith({ strictTools: true })).toEqual([
      ["asks", true, true],
      ["says_nothing", true, true],
      ["declines", undefined, false],
      ["open", undefined, false],
    ]);
  },
);

async function argumentsOf(
  answer: ServerReply,
  api: "responses" | "chat_completions",
): Promise<readonly string[]> {
  await using server = await OpenAiServer.start(() => answer);
  const request = { ...QUESTION, tools: specs };
  const options = { signal: never(), onDelta: () => undefined };
  const { message }: ModelReply = await modelAt(server, { api }).generate(request, options);
  return message.toolCalls.map(({ argumentsText }) => argumentsText);
}

proves(["M19"], "removes only the nulls that the strict schema added to a reply", async () => {
  const wanted = [
    ["asks", '{"city": "Rome", "days": null}'],
    ["asks", '{"city": "Rome", "days": 3}'],
    ["asks", '{"city": null'],
    ["says_nothing", '{"city": "Rome", "days": null}'],
    ["unheard_of", '{"days": null}'],
  ] as const;
  const output = wanted.map(([name, args], index) => ({
    type: "function_call",
    call_id: `call_${index}`,
    name,
    arguments: args,
  }));
  const completed = { type: "response.completed", response: { output } };
  const expected = ['{"city":"Rome"}', ...wanted.slice(1).map(([, args]) => args)];
  expect(await argumentsOf({ type: "events", data: [completed] }, "responses")).toEqual(expected);
  expect(await argumentsOf(calls(...wanted), "chat_completions")).toEqual(expected);
});

const refusalOf = (definition: object): unknown =>
  thrownBy(() => {
    Reflect.apply(defineTool, undefined, [{ name: "go", description: "Goes.", ...definition }]);
  }).message;

proves(
  ["M19"],
  "rejects `strictSchema` for a schema without a strict form and names the path",
  () => {
    const strictSchema = true;
    expect([
      refusalOf({ inputSchema: z.object({ m: z.record(z.string(), z.string()) }), strictSchema }),
      refusalOf({ inputSchema: jsonSchema({ type: "object" }), strictSchema }),
      refusalOf({ inputSchema: input, strictSchema: "yes" }),
    ]).toEqual([
      "Expected go.strictSchema to be false for an input without a strict form (.m: a record of any keys), got true. Declare its fields, or leave strictSchema out.",
      "Expected go.strictSchema to be false for an input without a strict form (.: a record of any keys), got true. Declare its fields, or leave strictSchema out.",
      'Expected go.strictSchema to be true or false, got "yes". Set true or false.',
    ]);
  },
);

test("preserves `strictSchema` when a tool is wrapped or renamed", () => {
  const asks = tool("asks", { strictSchema: true });
  const wrapped = [withRetries(asks), ...prefixTools([asks], "my_")];
  const specOf = ({ name, strictSchema }: ToolSpec): unknown => [name, strictSchema];
  expect(buildToolSet("test", wrapped).specs.map(specOf)).toEqual([
    ["asks", true],
    ["my_asks", true],
  ]);
});
