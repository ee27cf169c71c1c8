// Goal: what releases kept before replies had parts is read, and continues like anything that is kept today.
// Method: journals, a paused run and a session as such a release wrote them; what models are asked next is compared whole.

import { readFileSync } from "node:fs";

import { expect } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { fingerprint } from "../../src/orchestrator/durability/in-flight.ts";
import { readPausedRun } from "../../src/orchestrator/durability/paused-run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { CallIdSchema, RunIdSchema } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import { approve } from "../../src/protocol/question.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { Fakes } from "../journals/fakes.ts";
import { keptRecording } from "../journals/recordings.ts";
import { gist, replayed } from "../journals/play.ts";
import { stories } from "../journals/roles.ts";
import { newSessionFixture } from "../sessions/session-fixture.ts";
import { result, thinks, thought } from "../support/thoughtful-replies.ts";

function kept(name: string): string {
  return readFileSync(new URL(`../journals/v1-last/${name}`, import.meta.url), "utf8").trimEnd();
}

const parallel = stories["parallel"]?.build ?? expect.fail("no story");

proves(["M9"], "a journal is replayed, and has the same result as one of today", async () => {
  const [then, now] = [kept("parallel.jsonl"), keptRecording("parallel")];
  expect([then, now].map((text) => /"version":\d/u.exec(text)?.[0])).toEqual([
    '"version":1',
    '"version":3',
  ]);
  const [first, second] = [await replayed(parallel, then), await replayed(parallel, now)];
  expect(gist(first.result)).toEqual(gist(second.result));
});

/** The end of a run of which so much was kept when its process died. */
async function recovered(journal: string, share: number): Promise<RunResult> {
  const clock = new ManualClock(1_000);
  const store = memoryStore({ clock });
  const runId = RunIdSchema.parse("run_1");
  const dead = await store.create(runId, "lead", { token: "t", hostname: "h", processId: 1 });
  const lines = journal.trimEnd().split("\n");
  const records = lines.slice(0, Math.round(lines.length * share));
  await store.append(dead, { firstNumber: 1, records });
  const { role } = parallel(new Fakes({ isAlive: true, clock }));
  const orchestrator = new Orchestrator({ clock, store, roles: [role] });
  const run = await orchestrator.recover(runId, { takeOver: true });
  const result = await run.settled;
  const { text, usage } = await new Orchestrator({ store }).resultOf(runId);
  expect({ text, usage }, "what follows is of today's version").toEqual({
    text: result.text,
    usage: result.usage,
  });
  return result;
}

proves(["M9"], "a run whose process died is recovered from its journal", async () => {
  for (const share of [0.2, 0.5, 0.8]) {
    const then = await recovered(kept("parallel.jsonl"), share);
    const now = await recovered(keptRecording("parallel", "v2"), share);
    expect(then.status).toBe("completed");
    expect([then.text, then.usage]).toEqual([now.text, now.usage]);
  }
});

const CALLED: readonly Message[] = [
  { role: "system", text: "Work.", origin: "instructions" },
  { role: "user", text: "Do it.", origin: "task" },
  {
    role: "assistant",
    text: "Let me look.",
    toolCalls: [
      { callId: CallIdSchema.parse("call_1"), toolName: "look", argumentsText: '{"at":1}' },
    ],
  },
  result("call_1"),
];
const OWN = "scripted/scripted";

proves(
  ["M9"],
  "a paused run is resumed, and is of today's version when it pauses again",
  async () => {
    const text = kept("paused-run.txt");
    expect(text).toMatch(/^\{"version":1,/u);
    const paused = readPausedRun(text);
    const tools = [spyTool("look", undefined, { needsApproval: true })];
    const { role, model } = soloist([thinks("c2"), says("Done.")], { tools });
    const orchestrator = new Orchestrator({ clock: new ManualClock(1_000), roles: [role] });
    const [asked = expect.fail("nothing was asked")] = paused.questions;
    const again = await orchestrator.resume(text, [approve(asked)]).settled;
    expect(model.requests[0]?.messages).toEqual(CALLED);
    expect([again.status, again.pausedRun?.version]).toEqual(["paused", 2]);
    const answers = again.questions.map((question) => approve(question));
    const done = await orchestrator.resume(JSON.stringify(again.pausedRun), answers).settled;
    expect(done.text).toBe("Done.");
    expect(model.requests[1]?.messages).toEqual([...CALLED, thought(OWN, "c2"), result("c2")]);
  },
);

proves(["M9"], "a session is continued, and kept in today's version", async () => {
  const body = kept("session.txt");
  expect(body).toMatch(/^\{"version":1,/u);
  const s = newSessionFixture();
  s.shelf.shelf.set("talk", { version: 1, body });
  const { role, model } = soloist([thinks("c2"), says("Done.")], { tools: [spyTool("look")] });
  const session = await s.session("talk");
  await s.outcome(s.start(role, "More.", { session }));
  const done: Message = { role: "assistant", text: "Done.", toolCalls: [] };
  expect(model.requests[1]?.messages).toEqual([
    ...CALLED,
    done,
    { role: "user", text: "More.", origin: "task" },
    thought(OWN, "c2"),
    result("c2"),
  ]);
  expect(s.shelf.bodyOf("talk")).toMatch(/^\{"version":2,/u);
  expect((await s.elsewhere("talk")).messages).toEqual(session.messages);
});

proves(
  ["M9"],
  "a veto that an earlier release recorded under another name is known when it comes again",
  () => {
    const veto = (field: string): string =>
      fingerprint({
        type: "hook.applied",
        point: "stop",
        changedBy: [{ hook: "stop#1", fields: [field] }],
      });
    expect(veto("goOn")).toBe(veto("continueWith"));
    expect(veto("refuse")).not.toBe(veto("continueWith"));
  },
);
