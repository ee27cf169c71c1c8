// A chat server: each conversation is a session, each message a run, and answers are server-sent
// events.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

import { defineAgent, memoryStore, Orchestrator, toSse, type Run, type Session } from "espalier";
import { latch, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

const held = latch();
const both = latch();
let together = 0;
const guide = defineAgent({
  name: "guide",
  instructions: "You know gardens.",
  // In your program: openai("gpt-5-mini").
  model: new ScriptedModel(
    ({ messages }) => {
      const times = messages.filter(({ role }) => role === "user").length;
      const reply = says(`You have asked me ${times} times.`);
      if (times === 3 && ++together === 2) both.open();
      const after = times === 2 ? held.opened : both.opened;
      return times === 1 ? reply : { ...reply, after };
    },
    { price: { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2 } },
  ),
});

// In your program a store that outlives the process: sqliteStore("chats.db"), or postgresStore.
const orchestrator = new Orchestrator({ store: memoryStore() });

const SSE_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-store",
};

/** POST /chats/<id>: streams the answer to the message. */
async function post(req: IncomingMessage, res: ServerResponse, chat: string) {
  const session = await orchestrator.openSession(chat, {
    retention: { maxMessages: 60 }, // for the model
  });
  const run = orchestrator.start(guide, await text(req), {
    session,
    budget: { costUsd: 0.05, totalTokens: 20_000, timeMs: 60_000 }, // per run
  });
  res.writeHead(200, SSE_HEADERS);
  const stream = pipeline(toSse(run), res); // rejects if the page is closed
  await Promise.all([stream, mergeConflict(run, session)]);
}

/** Saves the messages of a run if another run was saved since it started. */
async function mergeConflict(run: Run, session: Session): Promise<void> {
  const result = await run.result;
  if (result.session?.status === "conflict") await session.merge(result);
}

/** GET /chats/<id>: returns the messages of the ended runs. */
async function history(res: ServerResponse, chat: string) {
  const { executions } = await orchestrator.openSession(chat);
  const runIds = new Set(executions.map(({ runId }) => runId));
  const ended = [...runIds].filter((id) => !orchestrator.findActiveRun(id));
  const runs = await Promise.all(ended.map((id) => orchestrator.getResult(id)));
  const messages = runs
    .flatMap(({ newMessages }) => newMessages)
    .filter(({ role }) => role === "user" || role === "assistant")
    .filter((message) => message.role !== "user" || message.origin === "task");
  res.end(JSON.stringify(messages.map(({ role, text }) => ({ role, text }))));
}

/** GET /chats/<id>/answer: streams the active run from its first event. */
async function follow(req: IncomingMessage, res: ServerResponse, chat: string) {
  const runs = orchestrator.activeRuns();
  const run = runs.find(({ sessionId }) => sessionId === chat);
  if (run === undefined) return void res.writeHead(204).end(); // no retry
  const lastEventId = req.headers["last-event-id"]?.toString();
  res.writeHead(200, SSE_HEADERS);
  await pipeline(toSse(run, { from: 1, lastEventId }), res);
}

const server = createServer((request, response) => {
  const [, , chat = "", what] = (request.url ?? "").split("/");
  const isNew = request.method === "POST";
  const get = () => (what === "answer" ? follow(request, response, chat) : history(response, chat));
  const answer = isNew ? post(request, response, chat) : get();
  answer.catch(() => {
    if (response.headersSent) return void response.destroy();
    response.writeHead(400).end();
  });
});

// The page: one text per step, in the order of arrival.
const texts = new Map<string, string>();
const PartSchema = z.looseObject({
  type: z.string(),
  stepId: z.string(),
  text: z.string().optional(),
});

const EventSchema = z.looseObject({
  type: z.string(),
  depth: z.number(),
  task: z.string().optional(),
});

async function send(url: string, message: string): Promise<void> {
  await show(await fetch(url, { method: "POST", body: message }), texts);
}

const MESSAGE = /^event: (.*)\ndata: (.*)$/m;

/** Returns the question, if the stream has it. */
async function show({ body }: Response, on: Map<string, string>): Promise<string | undefined> {
  let question: string | undefined;
  let unread = "";
  for await (const more of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const messages = (unread + more).split("\n\n");
    unread = messages.pop() ?? "";
    for (const message of messages) {
      const [, name, data = ""] = MESSAGE.exec(message) ?? [];
      if (name === "part") take(data, on);
      if (name === "event") question ??= questionIn(data);
    }
  }
  return question;
}

function take(data: string, on: Map<string, string>): void {
  const { type, stepId, text: more = "" } = PartSchema.parse(JSON.parse(data));
  if (type === "text") on.set(stepId, (on.get(stepId) ?? "") + more);
  if (type === "reset") on.delete(stepId); // the reply starts again
}

function questionIn(data: string): string | undefined {
  const { type, depth, task } = EventSchema.parse(JSON.parse(data));
  return type === "agent.started" && depth === 0 ? task : undefined;
}

await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = server.address();
assert.ok(typeof address === "object" && address !== null);
const url = `http://127.0.0.1:${address.port}/chats/ann`;
await send(url, "What grows along a wall?");
const second = send(url, "And in the shade?");

// Meanwhile the page is opened anew.
const opened = new Map<string, string>();
let answer = await fetch(`${url}/answer`);
while (answer.status === 204) answer = await fetch(`${url}/answer`); // the message is on its way
const reading = show(answer, opened);
held.open();
const [question] = await Promise.all([reading, second]);
const said: unknown = await (await fetch(url)).json();

// Two messages at once: both are saved.
await Promise.all([send(url, "Do figs grow here?"), send(url, "And kiwis?")]);
let { executionCount } = await orchestrator.openSession("ann");
while (executionCount < 4) ({ executionCount } = await orchestrator.openSession("ann"));
server.close();

console.log([...texts.values()].join("\n"));
assert.equal(question, "And in the shade?");
assert.deepEqual([...opened.values()], ["You have asked me 2 times."]);
assert.deepEqual(
  [...texts.values()],
  [
    "You have asked me 1 times.",
    "You have asked me 2 times.",
    "You have asked me 3 times.",
    "You have asked me 3 times.",
  ],
);
assert.deepEqual(said, [
  { role: "user", text: "What grows along a wall?" },
  { role: "assistant", text: "You have asked me 1 times." },
  { role: "user", text: "And in the shade?" },
  { role: "assistant", text: "You have asked me 2 times." },
]);
