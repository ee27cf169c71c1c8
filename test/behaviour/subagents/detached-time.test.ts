// Goal: a detached subagent ends exactly when its own time limit or one above it is reached.
// Method: a manual clock, a grant to the root that has ended, and an approver that takes longer
// than the limit.

import { expect } from "vitest";

import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Latch } from "../../harness/run-scripted.ts";
import { beside, rests } from "../../support/life-agents.ts";
import { payTool } from "../../support/pause-stories.ts";
import { calls, part, quiet } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 1 } };

/** A lead that detaches a subagent, which pays once approved and answers when `held` is opened. */
function leaving(held: Latch, budget: Budget = {}) {
  const slow = part("slow", [calls(PAY), says("Slow.", { after: held.opened })], {
    tools: [payTool()],
    budget,
  });
  return part("lead", [calls(beside("slow")), says("Done.")], {
    delegation: { background: true, parentEndPolicy: "detach" },
    subagents: [slow.role],
  }).role;
}

proves(
  ["D273"],
  "a time grant to an ended root extends the time of its detached subagents",
  async () => {
    const held = latch();
    const s = newFixture({ approver: (question) => Promise.resolve(approve(question)) });
    const run = s.start(leaving(held), "Do it.", { budget: { timeMs: 100 } });
    await run.result;
    expect(run.grant({ timeMs: 50 }, { by: "Ada" })).toBe(true);
    s.clock.advance(149);
    await quiet();
    expect(s.sink.ofType("agent.ended").map(({ agentPath }) => agentPath)).toEqual(["lead"]);
    s.clock.advance(1);
    expect(rests(await s.outcome(run))).toEqual({
      lead: "completed",
      "lead/slow#1": "stopped (time_limit)",
    });
  },
);

for (const [workedMs, end] of [
  [99, "completed"],
  [100, "stopped (time_limit)"],
] as const)
  proves(
    ["D273"],
    `the clock of a detached agent pauses while its approver takes an hour: ${workedMs} of 100 ms of work, ${end}`,
    async () => {
      const [asked, held] = [latch(), latch()];
      const approver = async (question: Parameters<typeof approve>[0]) => {
        await asked.opened;
        return approve(question);
      };
      const s = newFixture({ approver });
      const run = s.start(leaving(held, { timeMs: 100 }));
      await run.result;
      await quiet();
      s.clock.advance(3_600_000);
      asked.open();
      await quiet();
      s.clock.advance(workedMs);
      held.open();
      expect(rests(await s.outcome(run))).toEqual({ lead: "completed", "lead/slow#1": end });
    },
  );
