// Goal: a subtask queue survives a pause: completed subtasks stay completed, open ones continue,
// and none is lost beside a question.
// Method: subtasks and calls that need an approval; the run resumes in a fresh process.

import { expect, test } from "vitest";

import { transform, type Hook } from "../../../src/hooks/hook.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { heard, onward, rests } from "../../support/life-agents.ts";
import { callers, heading, help, planner, report } from "../../support/subtask-stories.ts";
import {
  byTask,
  calls,
  listens,
  part,
  receivedTexts,
  spawn,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

proves(
  ["R13"],
  "a subtask whose child pauses pauses the run, and completed work is not repeated after it",
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
        code: "input_required",
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

test("a subtask queued beside a call that waits for an approval survives the pause", async () => {
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

test("a run that stops while a subtask is paused ends its child as well", async () => {
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

/**
 * A supervisor that queues three subtasks: the first pauses, the second ends, the third follows the
 * script. It continues once.
 */
function interruptedQueue(
  third: Parameters<typeof byTask>[0][string],
  hooks: readonly Hook[] = [],
) {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const helper = part(
    "helper",
    byTask({ "Pay.": [calls(use("pay"))], "Look.": [says("Found.")], "Ask.": third }),
    { tools: [pay, listens("listen")] },
  );
  const lead = part("lead", [calls(use("plan")), says("Led.")], {
    tools: [planner(help("Pay."), help("Look."), help("Ask."))],
    subagents: [helper.role],
    hooks,
  });
  const root = part(
    "root",
    [calls(spawn("lead")), calls(onward("lead#1", "Go on.")), says("Done.")],
    {
      subagents: [lead.role],
    },
  );
  return { root, lead };
}

const readByLead = (lead: Part): readonly string[] => heard(lead.model.requests[1], "subtask");

proves(
  ["D726"],
  "an agent that fails beside a paused subtask reads the other results when it continues",
  async () => {
    let isBroken = true;
    const breaksOnce = transform("subagentStart", ({ task }) => {
      if (task !== "Ask." || !isBroken) return;
      isBroken = false;
      throw new Error("broken");
    });
    const { root, lead } = interruptedQueue([says("Asked.")], [breaksOnce]);
    const result = await newFixture().run(root.role);
    expect(readByLead(lead)).toEqual([
      report("Look.", "helper#2", "Found."),
      report("Ask.", "helper#3", "Asked."),
    ]);
    expect(rests(result)).toEqual({
      root: "completed",
      "root/lead#1": "completed",
      "root/lead#1/helper#1": "cancelled (cancelled)",
      "root/lead#1/helper#2": "completed",
      "root/lead#1/helper#3": "completed",
    });
  },
);

proves(
  ["D726"],
  "an agent that is cancelled beside a paused subtask reads the other results when it continues",
  async () => {
    const { root, lead } = interruptedQueue([calls(use("listen"))]);
    const fixture = newFixture();
    const run = fixture.start(root.role);
    await until(
      () =>
        fixture.sink.ofType("agent.paused").length +
          fixture.sink.ofType("tool.started").filter(({ toolName }) => toolName === "listen")
            .length ===
        2,
    );
    const leadId = fixture.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("no lead");
    run.cancelAgent(leadId);
    const result = await fixture.outcome(run);
    expect(readByLead(lead)).toEqual([
      report("Look.", "helper#2", "Found."),
      expect.stringContaining(
        '"outcome":"cancelled","reason":"cancelled","steps":1,"subagent":"helper#3"',
      ),
    ]);
    expect(rests(result)).toEqual({
      root: "completed",
      "root/lead#1": "completed",
      "root/lead#1/helper#1": "cancelled (cancelled)",
      "root/lead#1/helper#2": "completed",
      "root/lead#1/helper#3": "cancelled (cancelled)",
    });
  },
);

proves(
  ["D726"],
  "a fork of a run that was stopped beside a paused subtask contains the other results",
  async () => {
    const { lead } = interruptedQueue([calls(use("listen"))]);
    const fixture = newFixture();
    const run = fixture.start(lead.role);
    await until(() => fixture.sink.ofType("agent.paused").length === 1);
    run.requestStop("Enough.");
    await fixture.outcome(run);
    const forked = await fixture.outcome(fixture.fork(lead.role, run.snapshot()));
    expect([forked.status, readByLead(lead)]).toEqual([
      "completed",
      [
        report("Look.", "helper#2", "Found."),
        expect.stringContaining(
          '"outcome":"no_output","reason":"stop_requested","steps":1,"subagent":"helper#3"',
        ),
      ],
    ]);
  },
);
