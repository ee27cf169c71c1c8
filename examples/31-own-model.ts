// A model of your own, over a server that no adapter supports: the request, the reply and the errors.
// Sealed data of the server returns to it, and to no other model, with the next request.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";

import { defineAgent, defineTool, Orchestrator, ModelError, type Model } from "espalier";
import { toCallId, buildReplyMessage, getReplyPieces, type ReplyPiece } from "espalier/extend";
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

type Reply = z.infer<typeof ReplySchema>;

const oracle: Model = {
  provider: "oracle",
  id: "oracle-2",
  generate: async ({ messages, tools, maxOutputTokens }, { signal }) => {
    const parts = messages.map((message) =>
      message.role === "assistant" ? getReplyPieces(message) : message,
    );
    const body = JSON.stringify({ parts, tools, maxOutputTokens });
    const sent = fetch(url, { method: "POST", body, signal });
    const response = await sent.catch((cause: unknown) => {
      const message = "The server cannot be reached.";
      throw new ModelError({ code: "model_unavailable", message, cause });
    });
    if (!response.ok) {
      const message = `Expected a reply, got status ${response.status}.`;
      throw new ModelError({ code: "model_unavailable", message });
    }
    const reply = ReplySchema.parse(await response.json());
    return {
      message: buildReplyMessage(toPieces(reply)),
      finishReason: reply.call === undefined ? "stop" : "tool_calls",
      usage: {
        inputTokens: reply.tokens.in,
        cachedInputTokens: 0,
        outputTokens: reply.tokens.out,
        reasoningTokens: 0,
      },
    };
  },
};

function toPieces({ text, thought, seal, call }: Reply): ReplyPiece[] {
  const pieces: ReplyPiece[] = [];
  if (thought !== undefined) {
    const data = seal === undefined ? undefined : { oracle: { seal } };
    pieces.push({ type: "reasoning", text: thought, data });
  }
  pieces.push({ type: "text", text });
  if (call !== undefined) {
    const callId = toCallId(call.id);
    const { tool: toolName, input: argumentsText } = call;
    pieces.push({ type: "call", callId, toolName, argumentsText });
  }
  return pieces;
}

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
await once(server, "close");
const retryPolicy = { maxAttempts: 1 };
const lost = await new Orchestrator({ retryPolicy }).start(role, "How is Berlin?").result;

assert.equal(text, "It is warm.");
assert.equal(asked.length, 2);
assert.equal(lost.reason.data?.["error"], "model_unavailable");
assert.ok(asked[1]?.includes("c2VjcmV0"));
console.log(text);
