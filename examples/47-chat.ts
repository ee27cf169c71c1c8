// The server of a chat: each conversation is a session, each message starts a run on it, and the answer comes as server-sent events.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

import { defineAgent, memoryStore, Orchestrator, toSse } from "espalier";
import { says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

const guide = defineAgent({
  name: "guide",
  instructions: "You know gardens.",
  // In your program: openai("gpt-5-mini").
  model: new ScriptedModel(
    ({ messages }) =>
      says(`You have asked me ${messages.filter(({ role }) => role === "user").length} times.`),
    { price: { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2 } },
  ),
});

// In your program a store that outlives the process: sqliteStore("chats.db"), or postgresStore.
const orchestrator = new Orchestrator({ store: memoryStore() });

/** POST /chats/<conversation> with the message: the answer, while it is said. */
async function say(request: IncomingMessage, response: ServerResponse, chat: string) {
  const session = await orchestrator.session(chat, {
    retention: { maxMessages: 60, summarizeOld: true },
  });
  const run = orchestrator.start(guide, await text(request), {
    session,
    budget: { costUsd: 0.05, totalTokens: 20_000, wallTimeMs: 60_000 }, // of one answer
  });
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  await pipeline(toSse(run), response);
}

/** GET /chats/<conversation>: what was said so far, for a page that is opened anew. */
async function history(response: ServerResponse, chat: string) {
  const { messages } = await orchestrator.session(chat);
  const said = messages.filter(({ role }) => role === "user" || role === "assistant");
  response.end(JSON.stringify(said.map(({ role, text }) => ({ role, text }))));
}

const server = createServer((request, response) => {
  const [, , chat = ""] = (request.url ?? "").split("/");
  const answer = request.method === "POST" ? say(request, response, chat) : history(response, chat);
  answer.catch(() => {
    if (response.headersSent) return void response.destroy();
    response.writeHead(400).end();
  });
});

// The page: one text for each step, in the order in which they came. Whatever draws them draws `texts`.
const texts = new Map<string, string>();
const PieceSchema = z.looseObject({
  type: z.string(),
  stepId: z.string(),
  text: z.string().optional(),
});

async function send(url: string, message: string): Promise<void> {
  const { body } = await fetch(url, { method: "POST", body: message });
  let unread = "";
  for await (const more of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const messages = (unread + more).split("\n\n");
    unread = messages.pop() ?? "";
    for (const message of messages) {
      const [, data] = /^event: piece\ndata: (.*)$/m.exec(message) ?? [];
      if (data !== undefined) show(data);
    }
  }
}

function show(data: string): void {
  const { type, stepId, text: more = "" } = PieceSchema.parse(JSON.parse(data));
  if (type === "text") texts.set(stepId, (texts.get(stepId) ?? "") + more);
  if (type === "reset") texts.delete(stepId); // it is said anew
}

await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = server.address();
assert.ok(typeof address === "object" && address !== null);
const url = `http://127.0.0.1:${address.port}/chats/ann`;
await send(url, "What grows along a wall?");
await send(url, "And in the shade?");
const said: unknown = await (await fetch(url)).json();
server.close();

console.log([...texts.values()].join("\n"));
assert.deepEqual([...texts.values()], ["You have asked me 1 times.", "You have asked me 2 times."]);
assert.deepEqual(said, [
  { role: "user", text: "What grows along a wall?" },
  { role: "assistant", text: "You have asked me 1 times." },
  { role: "user", text: "And in the shade?" },
  { role: "assistant", text: "You have asked me 2 times." },
]);
