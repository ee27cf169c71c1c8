// Claude through the AI SDK. Its signed reasoning returns to it with the tool result. A local
// server replaces the provider.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

import { createAnthropic } from "@ai-sdk/anthropic";
import { defineAgent, defineTool, Orchestrator } from "espalier";
import { aiSdkModel, sameOriginFetch } from "espalier/ai-sdk";
import { z } from "zod";

const thinks = [
  {
    start: { type: "thinking", thinking: "", signature: "" },
    deltas: [
      { type: "thinking_delta", thinking: "I have to look." },
      { type: "signature_delta", signature: "sealed-by-claude" },
    ],
  },
  {
    start: { type: "tool_use", id: "toolu_1", name: "look_up", input: {} },
    deltas: [{ type: "input_json_delta", partial_json: '{"word":"espalier"}' }],
  },
];
const answers = [
  {
    start: { type: "text", text: "" },
    deltas: [{ type: "text_delta", text: "A tree trained on a frame." }],
  },
];

// As Anthropic streams it; you leave this out, and `baseURL` below.
function streamed(blocks: typeof thinks | typeof answers, stop_reason: string): string {
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-5" };
  const events = [
    {
      type: "message_start",
      message: { ...message, content: [], usage: { input_tokens: 100, output_tokens: 1 } },
    },
    ...blocks.flatMap(({ start, deltas }, index) => [
      { type: "content_block_start", index, content_block: start },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason }, usage: { output_tokens: 40 } },
    { type: "message_stop" },
  ];
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
}
const requests: string[] = [];
const server = createServer((request, response) => {
  void text(request).then((body) => {
    requests.push(body);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(
      requests.length === 1 ? streamed(thinks, "tool_use") : streamed(answers, "end_turn"),
    );
  });
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const address = server.address();
assert(typeof address === "object" && address !== null);
const baseURL = `http://127.0.0.1:${address.port}/v1`;

const anthropic = createAnthropic({
  apiKey: "key",
  baseURL,
  fetch: sameOriginFetch, // keeps the key and the prompt on this server
});
const claude = aiSdkModel(anthropic("claude-sonnet-5"), {
  reasoning: "medium",
  price: {
    inputUsdPerMillion: 3,
    cachedInputUsdPerMillion: 0.3,
    outputUsdPerMillion: 15,
  },
});
const role = defineAgent({
  name: "gardener",
  instructions: "Answer in a sentence.",
  model: claude,
  tools: [
    defineTool({
      name: "look_up",
      description: "Looks a word up.",
      inputSchema: z.object({ word: z.string() }),
      execute: ({ word }) => `${word}: a tree trained to grow flat`,
    }),
  ],
  maxOutputTokens: 4_000,
});
const run = new Orchestrator().start(role, "What is an espalier?", { budget: { costUsd: 0.5 } });
const result = await run.result;
server.close();

console.log(result.text);
assert.deepEqual([result.status, result.text], ["completed", "A tree trained on a frame."]);
assert.match(requests[1] ?? "", /"thinking":"I have to look.","signature":"sealed-by-claude"/);
assert.equal(result.usage.total.costUsd, 0.0018);
for (const body of requests) assert.match(body, /"max_tokens":4000\b/);
