// Goal: a replay has the same result if a process dies while a question is open, or a request
// arrives right after a recovery.
// Method: the first process is cut off from its store during a tool call; another one takes over;
// all segments are replayed.

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
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

interface Life {
  /** Calls that begin in the first life never end. */
  isFirst: boolean;
}

const NEVER = new Promise<never>(() => undefined);

/** Returns an agent that works, with a background subagent that asks, or works as long. */
function lead(life: Life, { isAsking }: { readonly isAsking: boolean }): AgentRole {
  const slow = async (): Promise<string> => (life.isFirst ? await NEVER : "worked");
  const asker = defineAgent({
    name: "other",
    description: "Asks, or works",
    instructions: "You do it.",
    model: thinker("other", ({ results }) =>
      results.length === 0 ? { calls: [["pay", { thing: "bill" }]] } : { text: results.join() },
    ),
    tools: [
      countedTool(new Map(), "pay", isAsking ? undefined : slow, { needsApproval: isAsking }),
    ],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: [["work", { thing: "x" }], spawnCall("other", "t", { background: true })] }
        : { text: results.join() },
    ),
    delegation: { background: true },
    subagents: [asker],
    tools: [countedTool(new Map(), "work", slow)],
  });
}

interface Second {
  readonly run: Run;
  readonly store: Store;
  readonly role: AgentRole;
  readonly clock: ManualClock;
}

/**
 * Returns the run of another process that takes over while the calls of the first are in flight.
 */
async function secondLife(isAsking: boolean): Promise<Second> {
  const clock = new ManualClock();
  const life: Life = { isFirst: true };
  const store = memoryStore({ clock });
  const role = lead(life, { isAsking });
  const cutOff: Store = forwarding(store, {
    append: async (...given) => await (life.isFirst ? store.append(...given) : NEVER),
    heartbeat: () => Promise.resolve(),
  });
  const first = new Orchestrator({ store: cutOff, clock, roles: [role] }).start(role, "Go.");
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  life.isFirst = false;
  const next = new Orchestrator({ store, clock, roles: [role] });
  return { run: await next.resume(first.runId, { takeOver: true }), store, role, clock };
}

test("replays a question that stays open after the death of its process", async () => {
  const { run, store, role, clock } = await secondLife(true);
  const result = await run.result;
  expect([result.status, result.questions.length]).toEqual(["paused", 1]);
  const recording = await loadRecording(store, run.runId);
  await replaysToTheSame({ role }, { recording, result });
  const answers = result.questions.map((question) => approve(question));
  const last = await new Orchestrator({ store, clock, roles: [role] }).resume(run.runId, {
    answers,
  });
  const ended = await last.result;
  expect(ended.text).toContain("worked");
  await replaysToTheSame(
    { role },
    { recording: await loadRecording(store, run.runId), result: ended },
  );
});

for (const turns of [0, 1, 2, 3, 4, 5, 6, 8, 12, 20])
  test(`replays a pause that is requested ${turns} turns after a recovery`, async () => {
    const { run, store, role } = await secondLife(false);
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    run.requestPause();
    const result = await run.result;
    expect(result.status).toBe("paused");
    await replaysToTheSame({ role }, { recording: await loadRecording(store, run.runId), result });
  });
