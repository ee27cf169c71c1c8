// Goal: a resumed run is the same run: ids, numbers, usage, budget and limits continue from before
// the pause.

import { expect, test } from "vitest";

import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending, payTool } from "../../support/pause-stories.ts";
import { calls, ends, part, spawn, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

proves(
  ["R28"],
  "run, executions, step numbers, events and leases continue, and one request contains the results",
  async () => {
    const pay = payTool();
    const plain = spyTool("plain");
    const script = [
      calls(use("plain")),
      calls(PAY, use("plain")),
      calls(use("plain")),
      says("done"),
    ];
    const { role, model } = soloist(script, { tools: [pay, plain] });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const before = fixture.sink.events.length;
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    const [first] = fixture.sink.events.slice(before);
    expect([first?.type, first?.seq, result.runId]).toEqual([
      "run.resumed",
      before + 1,
      paused.runId,
    ]);
    expect(new Set(fixture.sink.events.map(({ executionId }) => executionId))).toEqual(
      new Set([null, "execution_1"]),
    );
    expect(
      fixture.sink.ofType("step.started").map(({ stepId, number }) => [stepId, number]),
    ).toEqual([1, 2, 3, 4].map((number) => [`execution_1.${number}`, number]));
    const leases = fixture.sink.ofType("budget.reserved").map(({ leaseId }) => leaseId);
    expect(new Set(leases).size).toBe(4);
    expect([model.requests.length, plain.calls.length, pay.paid]).toEqual([4, 3, [3]]);
    expect(model.requests[2]?.messages.map(({ role: who, text }) => [who, text])).toEqual([
      ["system", "Work."],
      ["user", "Do it."],
      ["assistant", ""],
      ["tool", "plain done"],
      ["assistant", ""],
      ["tool", "paid 3"],
      ["tool", "plain done"],
    ]);
    expect(result.usage.total).toMatchObject({ steps: 4, toolCalls: 4, totalTokens: 60 });
  },
);

/** Plays the same script with or without pauses. */
async function play(needsApproval: boolean) {
  const pay = payTool(needsApproval);
  const { role } = soloist([calls(PAY, PAY), calls(PAY), says("done")], { tools: [pay] });
  const fixture = newFixture();
  let result = await fixture.run(role, { budget: { totalTokens: 1_000, toolCalls: 9 } });
  while (result.status === "paused")
    result = await fixture.outcome(fixture.resume(role, result.pausedRun, approveAll(result)));
  const { usage, steps, accounts, agents } = result;
  return { usage, steps, accounts, tools: agents.map(({ toolsUsed }) => toolsUsed) };
}

test("usage, steps and accounts equal those of the same script without a pause", async () => {
  expect(await play(true)).toEqual(await play(false));
});

test("a budget exhausted by the reply refuses the call without a question", async () => {
  const pay = payTool();
  const { role } = soloist([calls(PAY)], { tools: [pay] });
  const fixture = newFixture();
  const result = await fixture.run(role, { budget: { totalTokens: 15 } });
  expect([ending(result), fixture.sink.ofType("question.asked")]).toEqual([
    ["stopped", "token_limit"],
    [],
  ]);
});

test("a budget that is nearly exhausted before the pause stops the run after it", async () => {
  const pay = payTool();
  const { role, model } = soloist([calls(PAY), says("never")], { tools: [pay] });
  const fixture = newFixture();
  const paused = await fixture.run(role, { budget: { totalTokens: 20 } });
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect([ending(result), pay.paid, model.requests.length, result.reason.data]).toEqual([
    ["stopped", "token_limit"],
    [3],
    1,
    { axis: "totalTokens", accountPath: "solo", maximum: 20, current: 15, requested: 11 },
  ]);
});

test("a step budget counts across pauses, and a pause costs no step", async () => {
  const pay = payTool();
  const { role } = soloist([calls(PAY), calls(PAY), says("never")], { tools: [pay] });
  const fixture = newFixture();
  const first = await fixture.run(role, { budget: { steps: 2 } });
  const second = await fixture.outcome(fixture.resume(role, first.pausedRun, approveAll(first)));
  const result = await fixture.outcome(fixture.resume(role, second.pausedRun, approveAll(second)));
  expect([second.status, ending(result), result.steps.length, pay.paid]).toEqual([
    "paused",
    ["stopped", "step_limit"],
    2,
    [3, 3],
  ]);
});

test("a child's usage before the pause is on its account and its parent's after it", async () => {
  const pay = payTool();
  const payer = part("payer", [calls(PAY), says("Paid.")], { tools: [pay] });
  const lead = part("lead", [calls(spawn("payer")), says("never")], { subagents: [payer.role] });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role, { budget: { totalTokens: 50 } });
  const result = await fixture.outcome(
    fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), ends(result), pay.paid]).toEqual([
    ["stopped", "token_limit"],
    ["stopped", "completed"],
    [3],
  ]);
  expect(
    result.accounts.map(({ agentPath: path, total }) => [path, total.totalTokens, total.steps]),
  ).toEqual([
    ["lead", 45, 3],
    ["lead/payer#1", 30, 2],
  ]);
});

test("subagents from before the pause count against every limit, and numbering continues", async () => {
  const pay = payTool();
  const payer = part("payer", () => says("Paid."));
  const many = Array.from({ length: 3 }, () => spawn("payer"));
  const lead = part("lead", [calls(...many, PAY), calls(...many), says("Done.")], {
    subagents: [payer.role],
    tools: [pay],
  });
  const fixture = newFixture({ limits: { maxBreadthPerParent: 4, maxTotalSubagents: 10 } });
  const paused = await fixture.run(lead.role);
  const answers = approveAll(paused);
  const looser = { limits: { maxBreadthPerParent: 100, maxTotalSubagents: 100 } };
  const resumed = fixture.resume(lead.role, paused.pausedRun, answers, looser);
  const result = await fixture.outcome(resumed);
  expect([ending(result), result.subagentsByDepth, result.refusalsByCode]).toEqual([
    ["completed", "completed"],
    { 1: 4 },
    { breadth_limit: 2 },
  ]);
  expect(result.agents.map(({ agentPath }) => agentPath)).toEqual([
    "lead",
    "lead/payer#1",
    "lead/payer#2",
    "lead/payer#3",
    "lead/payer#4",
  ]);
  expect(new Set(result.agents.map(({ agentId }) => agentId)).size).toBe(5);
});

test("refusals from before the pause remain counted", async () => {
  const pay = payTool();
  const payer = part("payer", () => says("Paid."));
  const lead = part("lead", [calls(spawn("nobody"), PAY), calls(spawn("nobody")), says("Done.")], {
    subagents: [payer.role],
    tools: [pay],
  });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  expect(paused.refusalsByCode).toEqual({ unknown_role: 1 });
  const result = await fixture.outcome(
    fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
  );
  expect(result.refusalsByCode).toEqual({ unknown_role: 2 });
});

test("metadata and task are those of the start", async () => {
  const seen: unknown[] = [];
  const look = spyTool("look", ({ metadata }) => void seen.push(metadata));
  const { role } = soloist([calls(PAY), calls(use("look")), says("done")], {
    tools: [payTool(), look],
  });
  const fixture = newFixture();
  const started = fixture.start(role, "Pay it.", { metadata: { user: { id: 7 } } });
  const paused = await fixture.outcome(started);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect([seen, result.agents[0]?.task]).toEqual([[{ user: { id: 7 } }], "Pay it."]);
});
