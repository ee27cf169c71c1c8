// An OpenAI model over the Responses API, with encrypted reasoning and strict tool schemas. A local
// server replaces the provider.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

import { defineAgent, defineTool, openai, Orchestrator } from "espalier";
import { z } from "zod";

// Responses at OpenAI itself, and where you say so; Chat Completions anywhere else.
const model = openai("gpt-5.6", {
  reasoning: { effort: "low", summary: "auto" },
});
const azure = openai("my-deployment", {
  baseUrl: "https://mine.openai.azure.com/openai/v1",
  api: "responses",
});
const local = openai("qwen3", { baseUrl: "http://127.0.0.1:11434/v1" });
assert.deepEqual(
  [model, azure, local].map(({ provider }) => provider),
  ["openai", "azure.ai.openai", "openai"],
);

const outputs = [
  [
    {
      type: "reasoning",
      id: "rs_1",
      summary: [{ type: "summary_text", text: "I have to look." }],
      encrypted_content: "sealed-by-openai",
    },
    {
      type: "function_call",
      id: "fc_1",
      call_id: "call_1",
      name: "look_up",
      arguments: '{"word":"espalier","language":null}',
    },
  ],
  [
    {
      type: "message",
      id: "msg_1",
      role: "assistant",
      content: [{ type: "output_text", text: "A tree trained on a frame.", annotations: [] }],
    },
  ],
];
const requests: string[] = [];
const server = createServer((request, response) => {
  void text(request).then((body) => {
    const output = outputs[requests.length] ?? [];
    requests.push(body);
    const usage = { input_tokens: 100, output_tokens: 40 };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ object: "response", status: "completed", output, usage }));
  });
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const address = server.address();
assert(typeof address === "object" && address !== null);

const lookUp = defineTool({
  name: "look_up",
  description: "Looks a word up.",
  inputSchema: z.object({ word: z.string(), language: z.string().default("English") }),
  strictSchema: true, // the provider holds the model to the schema
  execute: ({ word, language }) => `${word} (${language}): a tree trained to grow flat`,
});
const role = defineAgent({
  name: "gardener",
  instructions: "Answer in a sentence.",
  model: openai("gpt-5.6", {
    baseUrl: `http://127.0.0.1:${address.port}/v1`,
    api: "responses",
  }),
  modelSettings: { reasoning: { effort: "low", summary: "auto" } },
  tools: [lookUp],
});
const result = await new Orchestrator().start(role, "What is an espalier?").result;
server.close();

console.log(result.text);
assert.deepEqual([result.status, result.text], ["completed", "A tree trained on a frame."]);
const { input, store, tools, reasoning } = z
  .object({
    input: z.array(z.unknown()),
    store: z.boolean(),
    tools: z.array(z.looseObject({ strict: z.boolean() })),
    reasoning: z.unknown(),
  })
  .parse(JSON.parse(requests[1] ?? ""));
assert.deepEqual(input.slice(2), [
  {
    type: "reasoning",
    summary: [{ type: "summary_text", text: "I have to look." }],
    encrypted_content: "sealed-by-openai",
  },
  {
    type: "function_call",
    call_id: "call_1",
    name: "look_up",
    arguments: '{"word":"espalier"}', // without the null that stands for what was left out
  },
  {
    type: "function_call_output",
    call_id: "call_1",
    output: "espalier (English): a tree trained to grow flat",
  },
]);
assert.deepEqual(
  [store, tools[0]?.strict, reasoning],
  [false, true, { effort: "low", summary: "auto" }],
);
