// The viewer in a program and in your own HTTP server. A request answers the question of a run, as
// the page would.

import assert from "node:assert/strict";
import { createServer } from "node:http";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";
import { startViewer } from "espalier/viewer";

const pay = defineTool({
  name: "pay",
  description: "Pays a bill.",
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: ({ eur }) => `Paid ${eur} EUR.`,
});
const buyer = defineAgent({
  name: "buyer",
  instructions: "Buy what is asked for.",
  model: new ScriptedModel([asks("pay", { eur: 400 }), says("The pears are paid.")]),
  tools: [pay],
});

const view = await startViewer();
const orchestrator = new Orchestrator({
  roles: [buyer],
  store: view.store,
  sinks: [view.sink],
  approver: view.approver,
});
view.attach(orchestrator);
console.log(view.url);

const run = orchestrator.start(buyer, "Order the pears.");

// What the page does when a person approves.
const { origin, hash } = new URL(view.url);
const headers = { authorization: `Bearer ${hash.slice("#token=".length)}` };
const api = async (path: string, init: RequestInit = {}): Promise<unknown> => {
  const response = await fetch(`${origin}/api/v1/${path}`, { headers, ...init });
  assert.ok(response.ok, `${path}: ${response.status}`);
  return await response.json();
};
const InboxSchema = z.object({
  questions: z.array(z.object({ questionId: z.string(), argumentsHash: z.string() })),
});
let inbox = InboxSchema.parse(await api("questions"));
while (inbox.questions.length === 0) inbox = InboxSchema.parse(await api("questions"));
const answers = inbox.questions.map((question) => ({ type: "approved", ...question }));
await api(`runs/${run.runId}/actions`, {
  method: "POST",
  headers: { ...headers, origin, "content-type": "application/json" },
  body: JSON.stringify({ key: "1", type: "answer", answers }),
});

const { text } = await run.result;
assert.equal(text, "The pears are paid.");
await view.close();

const own = await startViewer({
  store: view.store,
  port: null,
  // A proxy in front of this server sets the header.
  authorize: ({ headers }) => headers["x-signed-in-user"] !== undefined,
});
const server = createServer(own.handler("/espalier"));

await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = server.address();
assert.ok(typeof address === "object" && address !== null);
const list = `http://127.0.0.1:${address.port}/espalier/api/v1/runs`;
assert.equal((await fetch(list)).status, 401);
const seen = await fetch(list, { headers: { "x-signed-in-user": "eve" } });
const RunsSchema = z.object({ runs: z.array(z.object({ title: z.string(), status: z.string() })) });
assert.deepEqual(RunsSchema.parse(await seen.json()).runs, [
  { title: "buyer: Order the pears.", status: "completed" },
]);
server.close();
await own.close();
