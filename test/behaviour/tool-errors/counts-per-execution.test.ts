// Goal: an execution starts with empty failure counts, whatever the previous one had.
// Method: two executions, each with the maximum number of failures for one execution; one more in
// either stops it.

import { describe, expect } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { ToolError, ToolRetryError } from "../../../src/tools/tool-error.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { onward, rested } from "../../support/life-agents.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const breaks = spyTool("break", () => {
  throw new ToolError("It broke.");
});
const retrying = (maxRetries: number): ReturnType<typeof spyTool> =>
  spyTool(
    "again",
    () => {
      throw new ToolRetryError("Say it otherwise.");
    },
    { maxRetries },
  );
const works = spyTool("work");

interface Count {
  readonly more: Partial<AgentDefinition>;
  /** Steps that use up the allowance of one execution. */
  readonly full: readonly ScriptStep[];
  readonly oneMore: ScriptStep;
  readonly reason: string;
}

const COUNTS: Readonly<Record<string, Count>> = {
  "retries of a tool": {
    more: { tools: [retrying(2)] },
    full: [calls(use("again")), calls(use("again"))],
    oneMore: calls(use("again")),
    reason: "retry_limit",
  },
  "failed calls in all": {
    more: { tools: [breaks, works], errorBudget: { maxToolErrors: 2 } },
    full: [calls(use("break")), calls(use("work")), calls(use("break")), calls(use("work"))],
    oneMore: calls(use("break")),
    reason: "error_budget",
  },
  "failed calls in a row": {
    more: { tools: [breaks], errorBudget: { maxConsecutiveErrors: 2 } },
    full: [calls(use("break")), calls(use("break"))],
    oneMore: calls(use("break")),
    reason: "error_budget",
  },
  "corrected calls": {
    more: { tools: [retrying(9)], errorBudget: { maxRetryErrors: 2 } },
    full: [calls(use("again")), calls(use("again"))],
    oneMore: calls(use("again")),
    reason: "error_budget",
  },
};

describe("a new execution resets the count of", () => {
  for (const [what, { more, full, oneMore, reason }] of Object.entries(COUNTS)) {
    proves(["S7.30", "R158"], `${what} in a continued subagent`, async () => {
      const script = [...full, says("One."), ...full, says("Two."), ...full, oneMore, says("No.")];
      const worker = part("worker", script, more);
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "First.")),
          calls(onward("worker#1", "Second.")),
          calls(onward("worker#1", "Third.")),
          says("Done."),
        ],
        { subagents: [worker.role] },
      );
      const s = newFixture();
      await s.run(lead.role);
      const ends = s.sink
        .ofType("subagent.ended")
        .map((event) => [event.status, event.reason.code]);
      expect(ends).toEqual([
        ["completed", "completed"],
        ["completed", "completed"],
        ["stopped", reason],
      ]);
    });

    proves(["S7.30", "R158"], `${what} in a run that a limit had stopped`, async () => {
      const script = [...full, ...full, says("Done.")];
      const lead = part("lead", script, more);
      const s = newFixture();
      const budget = { steps: full.length };
      const stopped = await rested(s, s.start(lead.role, "Do it.", { budget }));
      expect(stopped.result.reason.code).toBe("step_limit");
      const grants = [{ budget: { steps: full.length + 1 }, by: "Ann" }];
      const result = await s.outcome(s.grantOn(lead.role, stopped.snapshot, grants));
      expect([result.status, result.text]).toEqual(["completed", "Done."]);
    });
  }
});
