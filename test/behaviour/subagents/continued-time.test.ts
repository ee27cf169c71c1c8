// Goal: idle time of a subagent counts neither against its time limit nor in its next execution.
// Method: a manual clock that advances while the subagent works and while it is idle; the end of
// each execution compared in full.

import { describe, expect } from "vitest";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { onward, rests, settlements } from "../../support/life-agents.ts";
import { calls, part, quiet, spawn, tool, until, use } from "../../harness/scripted-agents.ts";

describe("the time limit of a subagent", () => {
  proves(
    ["X10", "X16"],
    "counts its working time over several executions, and not its idle time",
    async () => {
      const worker = part(
        "worker",
        [
          calls(use("spend")),
          says("One."),
          calls(use("spend")),
          says("Two."),
          calls(use("spend")),
          says("Never."),
        ],
        {
          tools: [
            tool("spend", () => {
              s.clock.advance(400);
              return "spent";
            }),
          ],
          budget: { timeMs: 1_000 },
        },
      );
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "1")),
          calls(use("idle")),
          calls(onward("worker#1", "2")),
          calls(use("idle")),
          calls(onward("worker#1", "3")),
          says("Done."),
        ],
        {
          subagents: [worker.role],
          tools: [
            tool("idle", () => {
              s.clock.advance(10_000);
              return "idled";
            }),
          ],
        },
      );
      const s = newFixture();
      const result = await s.run(lead.role);
      expect([
        result.status,
        settlements(s).map((text) => text.split(" ")[1]),
        rests(result)["lead/worker#1"],
      ]).toEqual([
        "completed",
        ["completed", "completed", expect.stringMatching(/partial|no_output/)],
        "stopped (time_limit)",
      ]);
    },
  );
});

describe("an execution that follows another one", () => {
  proves(
    ["D728"],
    "is stopped by a condition on its elapsed time, and reports the same times in a fork",
    async () => {
      const spend = tool("spend", () => {
        s.clock.advance(10_000);
        return "spent";
      });
      const script = [says("One."), calls(use("spend")), calls(use("spend")), says("Never.")];
      const worker = part("worker", script, {
        tools: [spend],
        stopWhen: [
          ({ elapsedMs }) =>
            elapsedMs < 20_000
              ? undefined
              : { code: "late", message: "Late.", data: { elapsedMs } },
        ],
      });
      const idle = tool("idle", () => {
        s.clock.advance(60_000);
        return "idled";
      });
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "1")),
          calls(use("idle")),
          calls(onward("worker#1", "2")),
          says("Done."),
          says("Forked."),
        ],
        { subagents: [worker.role], tools: [idle] },
      );
      const s = newFixture();
      const run = s.start(lead.role);
      const result = await s.outcome(run);
      const expected = [{ code: "late", message: "Late.", data: { elapsedMs: 20_000 } }, 20_000, 0];
      const facts = ({ agents: [, report] }: RunResult): unknown => [
        report?.reason,
        report?.durationMs,
        report?.pausedMs,
      ];
      expect(facts(result)).toEqual(expected);
      const fork = s.fork(lead.role, run.snapshot(), { message: "More." });
      expect(facts(await s.outcome(fork))).toEqual(expected);
    },
  );
});

proves(["D728"], "a run that waited for a slot reports only its working time", async () => {
  const s = newFixture({ maxConcurrentRuns: 1 });
  const held = latch();
  const first = s.start(part("first", [says("First.", { after: held.opened })]).role);
  const work = tool("work", () => {
    s.clock.advance(2_000);
    return "worked";
  });
  const second = s.start(
    part("second", [calls(use("work")), says("Second.")], { tools: [work] }).role,
  );
  await until(() => s.sink.ofType("agent.started").length === 1);
  s.clock.advance(5_000);
  await quiet();
  held.open();
  await s.outcome(first);
  const [agent] = (await s.outcome(second)).agents;
  const elapsedMs = agent?.steps.map(({ telemetry }) => telemetry.elapsedMs);
  expect([elapsedMs, agent?.durationMs, agent?.pausedMs]).toEqual([[2_000, 2_000], 2_000, 0]);
});
