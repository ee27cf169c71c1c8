// Goal: the status of a run's session is the same in its replay: saved, open, conflict or failed.
// Method: several runs on one session in an in-memory store, or in a failing one; each is recorded
// and replayed.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";

function payer(isAsking: boolean): AgentRole {
  return defineAgent({
    name: "payer",
    instructions: "You pay.",
    model: thinker("payer", ({ results, heard }) =>
      results.length <= heard.length
        ? { calls: [["pay", { thing: "bill" }]] }
        : { text: results.join() },
    ),
    tools: [countedTool(new Map(), "pay", undefined, { needsApproval: isAsking })],
  });
}

/** Replays the records of a run so far. Returns the status of its session. */
async function replayedSession(store: Store, role: AgentRole, run: Run): Promise<unknown> {
  const result = await run.result;
  const again = await replaysToTheSame(
    { role },
    { recording: await loadRecording(store, run.runId), result },
  );
  const { status, version, error } = again.session ?? {};
  return [again.status, status, version, error?.code];
}

function setUp(store: Store, role: AgentRole): Orchestrator {
  return new Orchestrator({ store, roles: [role], clock: new ManualClock() });
}

test("replays later runs on a session, and one with a conflict", async () => {
  const store = memoryStore({ clock: new ManualClock() });
  const role = payer(false);
  const orchestrator = setUp(store, role);
  const session = await orchestrator.openSession("talk");
  const late = await orchestrator.openSession("talk");
  const seen: unknown[] = [];
  for (const handle of [session, session, session, late])
    seen.push(
      await replayedSession(store, role, orchestrator.start(role, "Go.", { session: handle })),
    );
  expect(seen).toEqual([
    ["completed", "saved", 1, undefined],
    ["completed", "saved", 2, undefined],
    ["completed", "saved", 3, undefined],
    ["completed", "conflict", 0, "session_conflict"],
  ]);
});

for (const goesOnBy of ["resume", "recover"] as const)
  test(`replays a session over a pause that ends by ${goesOnBy}, and a conflict with another process`, async () => {
    const store = memoryStore({ clock: new ManualClock() });
    const role = payer(true);
    const orchestrator = setUp(store, role);
    const seen: unknown[] = [];
    for (const isDisturbed of [false, false, true]) {
      const session = await orchestrator.openSession("talk");
      const run = orchestrator.start(role, "Go.", { session });
      const { pausedRun = "", questions } = await run.result;
      seen.push(await replayedSession(store, role, run));
      const answers = questions.map((question) => approve(question));
      const next =
        goesOnBy === "resume"
          ? orchestrator.resume(readPausedRun(pausedRun), { answers })
          : await orchestrator.resume(run.runId, { answers });
      if (isDisturbed) await (await orchestrator.openSession("talk")).clear();
      seen.push(await replayedSession(store, role, next));
    }
    expect(seen).toEqual([
      ["paused", "open", 0, undefined],
      ["completed", "saved", 1, undefined],
      ["paused", "open", 1, undefined],
      ["completed", "saved", 2, undefined],
      ["paused", "open", 2, undefined],
      ["completed", "conflict", 2, "session_conflict"],
    ]);
  });

test("replays a session whose store failed", async () => {
  const kept = memoryStore({ clock: new ManualClock() });
  const store: Store = forwarding(kept, {
    writeSession: () => Promise.reject(new Error("the disk is full")),
  });
  const role = payer(false);
  const orchestrator = setUp(store, role);
  const run = orchestrator.start(role, "Go.", { session: await orchestrator.openSession("talk") });
  expect(await replayedSession(store, role, run)).toEqual([
    "completed",
    "failed",
    0,
    "store_failed",
  ]);
});
