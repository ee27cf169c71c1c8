// Goal: elapsed and paused time of a continued agent are those of its execution, in every life of a
// run.
// Method: a story with a subagent that was idle for a minute and a pause, killed at every append
// and replayed; see crash-play.ts.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { approve } from "../../../src/protocol/question.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { killedEverywhere, type Play, type Story } from "../../support/journal/crash-play.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

/**
 * Returns a worker that works, is idle for a minute, and continues: it works, has to ask, and
 * answers.
 */
function continuedStory(clock: () => ManualClock): Play {
  const counts = new Map<string, number>();
  const spending = (name: string, ms: number, more: object = {}) =>
    countedTool(counts, name, ({ thing }) => (clock().advance(ms), thing), more);
  const worker = defineAgent({
    name: "worker",
    description: "Works.",
    instructions: "You work.",
    model: thinker("small", ({ results, heard }) => {
      const [done, isContinued] = [results.length, heard.length > 0];
      if (done === 0) return { calls: [["work", { thing: "first" }]] };
      if (!isContinued) return { text: "One." };
      if (done === 1) return { calls: [["work", { thing: "second" }]] };
      if (done === 2) return { calls: [["pay", { thing: "bill" }]] };
      return { text: "Two." };
    }),
    tools: [spending("work", 100), spending("pay", 10, { needsApproval: true })],
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("large", ({ results }) => {
      const next = [
        spawnCall("worker", "Begin."),
        ["idle", { thing: "minute" }] as const,
        spawnCall("worker", "More.", { continue: "worker#1" }),
      ][results.length];
      return next === undefined ? { text: "Done." } : { calls: [next] };
    }),
    tools: [spending("idle", 60_000)],
    subagents: [worker],
  });
  return { role: lead, calls: counts, answer: approve };
}

for (const goesOnBy of ["recover", "resume"] as const)
  proves(
    ["D728"],
    `counts only an execution's own time, after ${goesOnBy}, after a crash at any append, and from the store`,
    async () => {
      let clock = new ManualClock();
      const worked = ({ kept }: Story): unknown =>
        kept.agents.map(({ agentPath, durationMs, pausedMs, steps }) => ({
          agentPath,
          workedMs: durationMs - pausedMs,
          elapsedMs: steps.map(({ telemetry }) => telemetry.elapsedMs),
        }));
      const plain = await killedEverywhere(
        () => ({ ...continuedStory(() => clock), goesOnBy }),
        (story) => {
          expect(worked(story)).toEqual([
            {
              agentPath: "lead",
              workedMs: 60_210,
              elapsedMs: [100, 60_100, 60_210, 60_210],
            },
            { agentPath: "lead/worker#1", workedMs: 110, elapsedMs: [100, 110, 110] },
          ]);
        },
        { newClock: (startMs) => (clock = new ManualClock(startMs)) },
      );
      expect(plain.kept.agents.map(({ pausedMs }) => pausedMs)).toEqual([1_000, 1_000]);
    },
  );
