// Live output of a tree: a page follows two agents, discards a failed attempt and continues after a
// reload.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { pipeline } from "node:stream/promises";

import { defineAgent, memoryStore, Orchestrator, toSse, ModelError, type Model } from "espalier";
import { buildReplyMessage, toCallId } from "espalier/extend";

// In your program: openai("gpt-5-mini"). This one delegates once, and breaks off in the middle of its last answer.
let asked = 0;
const model: Model = {
  provider: "example",
  id: "speaker",
  generate: async ({ messages }, { onDelta }) => {
    asked += 1;
    const isLead = messages.some(({ text }) => text === "You lead.");
    if (isLead && asked === 1) {
      const argumentsText = '{"role":"gardener","task":"What grows along a wall?"}';
      const callId = toCallId("call_1");
      const call = { type: "call", callId, toolName: "SpawnSubagent", argumentsText } as const;
      return { message: buildReplyMessage([call]), finishReason: "tool_calls" };
    }
    const text = isLead ? "An espalier grows along a wall." : "Espaliers do.";
    for (const word of text.split(/(?<= )/)) {
      onDelta?.({ type: "text", text: word });
      if (asked === 3 && word === "grows ")
        throw new ModelError({ code: "model_unavailable", message: "The connection is gone." });
    }
    return { message: buildReplyMessage([{ type: "text", text }]), finishReason: "stop" };
  },
};
const gardener = defineAgent({
  name: "gardener",
  description: "Knows plants",
  instructions: "You know plants.",
  model,
});
const lead = defineAgent({ name: "lead", instructions: "You lead.", model, subagents: [gardener] });
const orchestrator = new Orchestrator({ store: memoryStore() });

const run = orchestrator.start(lead, "What grows along a wall?");

const texts = new Map<string, string>();
const resets: string[] = [];

for await (const part of run.stream()) {
  const text = texts.get(part.stepId) ?? "";
  if (part.type === "text") texts.set(part.stepId, text + part.text);
  if (part.type === "call") {
    console.log(`${part.agentPath} calls ${part.toolName}`);
  }
  if (part.type === "result") console.log(`${part.toolName}: ${part.text}`);
  if (part.type === "reset") {
    texts.set(part.stepId, ""); // the reply starts again
    resets.push(part.reason);
  }
}

const { text } = await run.result;
assert.deepEqual([...texts.values()], ["Espaliers do.", text]);
assert.deepEqual(resets, ["retry"]);

const { rootAgentId: agentId } = run;
for await (const part of run.stream({ agentId }))
  if (part.type === "text") process.stdout.write(part.text);

// Over HTTP: a page opens `new EventSource("/run")`, and comes back with `Last-Event-ID` whenever its connection breaks.
const server = createServer((request, response) => {
  const lastEventId = request.headers["last-event-id"]?.toString();
  response.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
  });
  const body = toSse(run, { from: 1, lastEventId });
  pipeline(body, response).catch(() => response.destroy());
});

await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = server.address();
assert.ok(typeof address === "object" && address !== null);
const url = `http://127.0.0.1:${address.port}/run`;
const whole = await (await fetch(url)).text();
const rest = await (await fetch(url, { headers: { "last-event-id": "5" } })).text();
server.close();
// The rest of the events, and again all that was said.
const idsOf = (stream: string) => [...stream.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
assert.deepEqual([idsOf(whole)[0], idsOf(rest)[0]], [1, 6]);
for (const stream of [whole, rest]) {
  assert.match(stream, /"type":"text","text":"Espaliers do\."/);
  assert.match(stream, /event: result\ndata: .*"status":"completed"/);
}
