// A model of your own, over a server that no other has an adapter for: it says what is asked, what came back, and how it failed. What
// the server seals, it gets back with the next request; no other does.

import assert from "node:assert/strict";
import { createServer } from "node:http";

import { defineAgent, defineTool, Orchestrator, ModelError, type Model } from "espalier";
import { toCallId, buildReplyMessage, getReplyPieces } from "espalier/extend";
import { z } from "zod";

// The server: it thinks, calls a tool, and wants its thought back with the result.
const asked: string[] = [];
const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (text: string) => (body += text));
  request.on("end", () => {
    asked.push(body);
    const isFirst = asked.length === 1;
    const call = { id: "call_1", tool: "weather", input: '{"city":"Berlin"}' };
    const first = { thought: "It asks for Berlin.", seal: "c2VjcmV0", call };
    const reply = isFirst ? first : { text: "It is warm." };
    response.end(JSON.stringify({ ...reply, tokens: { in: 20, out: 9 } }));
  });
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const address = server.address();
assert(typeof address === "object" && address !== null);
const url = `http://127.0.0.1:${address.port}`;

const ReplySchema = z.object({
  text: z.string().default(""),
  thought: z.string().optional(),
  seal: z.string().optional(),
  call: z.object({ id: z.string(), tool: z.string(), input: z.string() }).optional(),
  tokens: z.object({ in: z.int(), out: z.int() }),
});

const oracle: Model = {
  provider: "oracle",
  id: "oracle-2",
  generate: async ({ messages, tools, maxOutputTokens }, { signal }) => {
    const said = messages.map((message) =>
      message.role === "assistant" ? getReplyPieces(message) : message,
    );
    const body = JSON.stringify({ said, tools, most: maxOutputTokens });
    const response = await fetch(url, { method: "POST", body, signal });
    if (!response.ok) {
      const message = `Expected a reply from the oracle, got status ${response.status}.`;
      throw new ModelError({ code: "model_unavailable", message });
    }
    const { text, thought, seal, call, tokens } = ReplySchema.parse(await response.json());
    const data = seal === undefined ? undefined : { oracle: { seal } };
    const message = buildReplyMessage([
      ...(thought === undefined ? [] : [{ type: "reasoning" as const, text: thought, data }]),
      { type: "text", text },
      ...(call === undefined
        ? []
        : [
            {
              type: "call" as const,
              callId: toCallId(call.id),
              toolName: call.tool,
              argumentsText: call.input,
            },
          ]),
    ]);
    return {
      message,
      finishReason: call === undefined ? "stop" : "tool_calls",
      usage: {
        inputTokens: tokens.in,
        cachedInputTokens: 0,
        outputTokens: tokens.out,
        reasoningTokens: 0,
      },
    };
  },
};

const weather = defineTool({
  name: "weather",
  description: "Says what the weather is in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => `Warm in ${city}.`,
});
const role = defineAgent({
  name: "guide",
  instructions: "Answer in a sentence.",
  model: oracle,
  tools: [weather],
});

const budget = { totalTokens: 50_000 };
const { text } = await new Orchestrator().start(role, "How is Berlin?", { budget }).result;
server.close();

assert.equal(text, "It is warm.");
assert.equal(asked.length, 2);
assert.ok(asked[1]?.includes("c2VjcmV0"));
console.log(text);
