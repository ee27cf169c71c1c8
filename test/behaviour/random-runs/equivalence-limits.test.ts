// Goal: a limit that is reached during a pause does not stop what was admitted before, since the
// run without the pause would not have been stopped there (R28). Found by the equivalence property;
// see equivalence.property.test.ts.
// Method: one subagent spends the rest of its parent's budget while another call of the same reply
// waits.

import { expect, test } from "vitest";
import { z } from "zod";

import { approve, provideResult } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, ends, part, spawn, use } from "../../harness/scripted-agents.ts";

// The root's reply and the child's have five output tokens each.
const SPENT_BY_THE_CHILD = { outputTokens: 10 };

test("accepts a requested external result although a subagent spent the budget meanwhile", async () => {
  const fetch = defineTool({ name: "fetch", description: "Fetches.", inputSchema: z.object({}) });
  const child = part("child", [says("Found.")]);
  const root = part("root", [calls(use("fetch"), spawn("child"))], {
    tools: [fetch],
    subagents: [child.role],
    budget: SPENT_BY_THE_CHILD,
  });
  const fixture = newFixture();
  const paused = await fixture.run(root.role);
  const answers = paused.questions.map((question) => provideResult(question, "fetched"));
  const result = await fixture.outcome(fixture.resume(root.role, paused.pausedRun, answers));
  const executions = result.steps[0]?.tools.executions.map(({ type }) => type);
  expect([result.reason.code, executions]).toEqual(["token_limit", ["succeeded", "succeeded"]]);
});

test("runs an approved call after a resumption as it does with an immediate approver", async () => {
  const atOnce = await approvedEnding(true);
  expect(atOnce).toEqual([["stopped", "completed"], "token_limit", 1, ["succeeded", "succeeded"]]);
  expect(await approvedEnding(false)).toEqual(atOnce);
});

async function approvedEnding(isAskedAtOnce: boolean): Promise<unknown> {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const child = part("child", [says("Found.")]);
  const root = part("root", [calls(use("pay"), spawn("child"))], {
    tools: [pay],
    subagents: [child.role],
    budget: SPENT_BY_THE_CHILD,
  });
  const fixture = newFixture(isAskedAtOnce ? { approver: (question) => approve(question) } : {});
  const first = await fixture.run(root.role);
  const last = isAskedAtOnce
    ? first
    : await fixture.outcome(
        fixture.resume(
          root.role,
          first.pausedRun,
          first.questions.map((one) => approve(one)),
        ),
      );
  return [
    ends(last),
    last.reason.code,
    pay.calls.length,
    last.steps[0]?.tools.executions.map(({ type }) => type),
  ];
}

test("returns the answer of a paused subagent although that answer spent its parent's budget", async () => {
  const whole = await pausedEnding(false);
  expect(whole).toEqual([
    ["stopped", "token_limit", ""],
    ["completed", "completed", "Found."],
  ]);
  expect(await pausedEnding(true)).toEqual(whole);
});

async function pausedEnding(pauses: boolean): Promise<unknown> {
  const child = part("child", [says("Found.")]);
  const root = part("root", [calls(spawn("child"))], {
    subagents: [child.role],
    budget: SPENT_BY_THE_CHILD,
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  if (pauses) {
    for await (const event of run.events())
      if (event.type === "model.replied" && event.depth === 1) run.requestPause();
  }
  const first = await fixture.outcome(run);
  expect(first.status).toBe(pauses ? "paused" : "stopped");
  const last = pauses ? await fixture.outcome(fixture.resume(root.role, first.pausedRun)) : first;
  return last.agents.map(({ status, reason, text }) => [status, reason.code, text]);
}
