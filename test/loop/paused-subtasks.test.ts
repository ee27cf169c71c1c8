// Goal: a queue survives a pause: what is done stays done, what is open continues, and nothing is lost beside a question.
// Method: subtasks and calls that need an approval; the run continues in a fresh process.

import { expect, test } from "vitest";

import { approve } from "../../src/protocol/question.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";
import { callers, heading, help, planner, report } from "../support/subtask-stories.ts";
import { byTask, calls, part, receivedTexts, use } from "../tree/scripted-agents.ts";

proves(
  ["R13"],
  "a subtask whose child pauses pauses the run; after it nothing that is done is done again",
  async () => {
    const pay = spyTool("pay", () => "paid", { needsApproval: true });
    const helper = part(
      "helper",
      byTask({ "Pay.": [calls(use("pay")), says("Paid.")], "Look.": [says("Found.")] }),
      { tools: [pay] },
    );
    const plan = planner(help("Pay."), help("Look."));
    const lead = part("lead", [calls(use("plan")), says("Done.")], {
      tools: [plan],
      subagents: [helper.role],
    });
    const fixture = newFixture();
    const paused = await fixture.run(lead.role);
    expect([
      paused.reason,
      paused.agents.map(({ status }) => status),
      paused.questions.map(({ agentPath, toolName }) => [agentPath, toolName]),
    ]).toEqual([
      {
        code: "answers_needed",
        message: "Waits for approval of pay (lead/helper#1).",
        data: { questions: 1, pausedSubagents: 1 },
      },
      ["paused", "paused", "completed"],
      [["lead/helper#1", "pay"]],
    ]);
    const [question] = paused.questions;
    if (question === undefined) expect.fail("no question");
    const result = await fixture.outcome(
      fixture.resume(lead.role, paused.pausedRun, [approve(question)]),
    );
    expect([result.status, plan.calls.length, pay.calls.length, result.steps.length]).toEqual([
      "completed",
      1,
      1,
      2,
    ]);
    expect(callers(fixture)).toEqual([
      "lead",
      "lead/helper#1",
      "lead/helper#2",
      "lead/helper#1",
      "lead",
    ]);
    expect(receivedTexts(lead.model.requests[1]).slice(1)).toEqual([
      `${heading("Pay.")}{"outcome":"completed","steps":2,"subagent":"helper#1","text":"Paid.","totalTokens":30}`,
      report("Look.", "helper#2", "Found."),
    ]);
  },
);

test("what was queued beside a call that waits for an approval survives the pause", async () => {
  const helper = part("helper", [says("Found.")]);
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const lead = part("lead", [calls(use("plan"), use("pay")), says("Done.")], {
    tools: [planner(help("Look.")), pay],
    subagents: [helper.role],
  });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  expect(helper.model.requests).toHaveLength(0);
  const [question] = paused.questions;
  if (question === undefined) expect.fail("no question");
  await fixture.outcome(fixture.resume(lead.role, paused.pausedRun, [approve(question)]));
  expect(receivedTexts(lead.model.requests[1])).toEqual([
    "planned",
    "paid",
    report("Look.", "helper#1", "Found."),
  ]);
});

test("a run that stops while a subtask is paused ends its child, too", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const helper = part("helper", [calls(use("pay"))], { tools: [pay] });
  const lead = part("lead", [calls(use("plan"))], {
    tools: [planner(help("Pay."))],
    subagents: [helper.role],
  });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  const [question] = paused.questions;
  if (question === undefined) expect.fail("no question");
  const run = fixture.resume(lead.role, paused.pausedRun, [approve(question)]);
  run.requestStop("Enough.");
  const result = await fixture.outcome(run);
  expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual([
    ["stopped", "stop_requested"],
    ["stopped", "stop_requested"],
  ]);
  expect(pay.calls).toHaveLength(0);
});
