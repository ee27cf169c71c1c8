// Goal: a question anywhere pauses the whole tree once everything else has run to its end. The
// answers reach their agents, and no work is repeated.

import { expect, test } from "vitest";

import { approve, deny, provideResult } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  approveAll,
  asked,
  ending,
  externalTool,
  payTool,
  questionOf,
  refusalOf,
} from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  byTask,
  calls,
  ends,
  part,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const pay = (amount: number) => ({ toolName: "pay", arguments: { amount } });

/**
 * A root, a child and a payer below it that needs an approval; `aunt` works beside the child,
 * `cousin` beside the payer.
 */
function family() {
  const payment = payTool();
  const worked: string[] = [];
  const work = tool("work", ({ agentPath }) => void worked.push(agentPath));
  const grown = { tools: [work] };
  const payer = part("payer", [calls(pay(3)), says("Paid.")], { tools: [payment] });
  const cousin = part("cousin", [calls(use("work")), says("Cousin.")], grown);
  const aunt = part("aunt", [calls(use("work")), calls(use("work")), says("Aunt.")], grown);
  const child = part("child", [calls(spawn("payer"), spawn("cousin")), says("Child.")], {
    subagents: [payer.role, cousin.role],
  });
  const root = part("root", [calls(use("work"), spawn("child"), spawn("aunt")), says("Root.")], {
    subagents: [child.role, aunt.role],
    ...grown,
  });
  return { payment, worked, payer, cousin, aunt, child, root };
}

test("a grandchild's question pauses the tree, and the others run to their end and never again", async () => {
  const tree = family();
  const fixture = newFixture();
  const paused = await fixture.run(tree.root.role);
  expect([ending(paused), asked(paused), tree.payment.paid]).toEqual([
    ["paused", "input_required"],
    [["root/child#1/payer#1", "pay"]],
    [],
  ]);
  expect(
    Object.fromEntries(paused.agents.map(({ agentPath, status }) => [agentPath, status])),
  ).toEqual({
    root: "paused",
    "root/aunt#1": "completed",
    "root/child#1": "paused",
    "root/child#1/cousin#1": "completed",
    "root/child#1/payer#1": "paused",
  });
  const before = { worked: [...tree.worked], aunt: tree.aunt.model.requests.length };
  expect(tree.worked.toSorted()).toEqual([
    "root",
    "root/aunt#1",
    "root/aunt#1",
    "root/child#1/cousin#1",
  ]);
  const resumed = fixture.resume(tree.root.role, paused.pausedRun, approveAll(paused));
  const result = await fixture.outcome(resumed);
  expect([ending(result), result.text, tree.payment.paid]).toEqual([
    ["completed", "completed"],
    "Root.",
    [3],
  ]);
  expect({ worked: tree.worked, aunt: tree.aunt.model.requests.length }).toEqual(before);
  for (const { model } of [tree.root, tree.child, tree.payer, tree.cousin, tree.aunt])
    model.assertComplete();
  const results = receivedTexts(tree.root.model.requests[1]).slice(1);
  expect(results.map((text) => partOf(text, "subagent"))).toEqual(["child#1", "aunt#1"]);
});

test("agents resume from the root down and end from the leaves up, and each spawn settles once", async () => {
  const tree = family();
  const fixture = newFixture();
  const paused = await fixture.run(tree.root.role);
  const before = fixture.sink.events.length;
  const resumed = fixture.resume(tree.root.role, paused.pausedRun, approveAll(paused));
  await fixture.outcome(resumed);
  const after = fixture.sink.events.slice(before);
  expect(
    after.flatMap((event) => {
      if (event.type === "agent.resumed" || event.type === "agent.ended")
        return [`${event.type} ${event.agentPath}`];
      return event.type === "subagent.ended" ? [`settled ${event.childPath}`] : [];
    }),
  ).toEqual([
    "agent.resumed root",
    "agent.resumed root/child#1",
    "agent.resumed root/child#1/payer#1",
    "agent.ended root/child#1/payer#1",
    "settled root/child#1/payer#1",
    "agent.ended root/child#1",
    "settled root/child#1",
    "agent.ended root",
  ]);
  expect(fixture.sink.ofType("subagent.spawned")).toHaveLength(4);
  const first = paused.agents.map(({ agentId, executionId }) => [agentId, executionId]);
  const again = fixture.sink
    .ofType("agent.resumed")
    .map((event) => [event.agentId, event.executionId]);
  expect(first).toEqual(expect.arrayContaining(again));
});

test("questions of several agents are asked in the order of the tree, and must be answered together", async () => {
  const payment = payTool();
  const script = byTask({
    one: [calls(pay(1), use("mail")), says("One.")],
    two: [calls(pay(2)), says("Two.")],
  });
  const payer = part("payer", script, { tools: [payment, externalTool("mail")] });
  const lead = part(
    "lead",
    [calls(spawn("payer", "one"), pay(9), spawn("payer", "two")), says("Done.")],
    {
      subagents: [payer.role],
      tools: [payment],
    },
  );
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  expect(asked(paused)).toEqual([
    ["lead", "pay"],
    ["lead/payer#1", "pay"],
    ["lead/payer#1", "mail"],
    ["lead/payer#2", "pay"],
  ]);
  expect(new Set(paused.questions.map(({ questionId }) => questionId)).size).toBe(4);
  for (let left = 0; left < 4; left += 1) {
    const some = paused.questions.filter((_question, index) => index !== left);
    const answers = some.map((one) =>
      one.kind === "external" ? provideResult(one, "sent") : approve(one),
    );
    expect(refusalOf(() => fixture.resume(lead.role, paused.pausedRun, answers))).toEqual([
      "invalid_answer",
      "missing",
    ]);
  }
  const answers = [
    deny(questionOf(paused, 3), "No."),
    provideResult(questionOf(paused, 2), "sent"),
    approve(questionOf(paused, 1)),
    approve(questionOf(paused, 0)),
  ];
  const result = await fixture.outcome(fixture.resume(lead.role, paused.pausedRun, answers));
  expect([ends(result), payment.paid.toSorted((left, right) => left - right)]).toEqual([
    ["completed", "completed", "completed"],
    [1, 9],
  ]);
});

test("a child that asks again pauses the tree again with its new question only", async () => {
  const payment = payTool();
  const payer = part("payer", [calls(pay(1)), calls(pay(2)), says("Paid.")], { tools: [payment] });
  const child = part("child", [calls(spawn("payer")), says("Child.")], {
    subagents: [payer.role],
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
  const fixture = newFixture();
  const first = await fixture.run(root.role);
  const second = await fixture.outcome(
    fixture.resume(root.role, first.pausedRun, approveAll(first)),
  );
  expect([ending(second), asked(second), questionOf(second).arguments, payment.paid]).toEqual([
    ["paused", "input_required"],
    [["root/child#1/payer#1", "pay"]],
    { amount: 2 },
    [1],
  ]);
  expect(second.pausedRun?.pauseCount).toBe(2);
  const old = first.questions.map((question) => approve(question));
  expect(refusalOf(() => fixture.resume(root.role, second.pausedRun, old))).toEqual([
    "invalid_answer",
    "already_answered",
  ]);
  const result = await fixture.outcome(
    fixture.resume(root.role, second.pausedRun, approveAll(second)),
  );
  expect([ends(result), payment.paid, root.model.requests.length]).toEqual([
    ["completed", "completed", "completed"],
    [1, 2],
    2,
  ]);
});

test("an ended child stays ended while its sibling asks again and pauses the tree", async () => {
  const payment = payTool();
  const payer = part(
    "payer",
    byTask({
      once: [calls(pay(1)), says("Once.")],
      twice: [calls(pay(2)), calls(pay(3)), says("Twice.")],
    }),
    { tools: [payment] },
  );
  const lead = part(
    "lead",
    [calls(spawn("payer", "once"), spawn("payer", "twice")), says("Done.")],
    {
      subagents: [payer.role],
    },
  );
  const fixture = newFixture();
  const first = await fixture.run(lead.role);
  const second = await fixture.outcome(
    fixture.resume(lead.role, first.pausedRun, approveAll(first)),
  );
  expect([ends(second), asked(second)]).toEqual([
    ["paused", "completed", "paused"],
    [["lead/payer#2", "pay"]],
  ]);
  const result = await fixture.outcome(
    fixture.resume(lead.role, second.pausedRun, approveAll(second)),
  );
  const texts = receivedTexts(lead.model.requests[1]).map((text) => partOf(text, "text"));
  expect([ends(result), payment.paid, texts]).toEqual([
    ["completed", "completed", "completed"],
    [1, 2, 3],
    ["Once.", "Twice."],
  ]);
});

test("a parent that asks waits for its children first, and they run once", async () => {
  const payment = payTool();
  const helper = part("helper", [says("Helped.")]);
  const lead = part("lead", [calls(pay(1), spawn("helper")), says("Done.")], {
    subagents: [helper.role],
    tools: [payment],
  });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  expect([ends(paused), asked(paused)]).toEqual([["paused", "completed"], [["lead", "pay"]]]);
  const result = await fixture.outcome(
    fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ends(result), payment.paid, helper.model.requests.length]).toEqual([
    ["completed", "completed"],
    [1],
    1,
  ]);
});

test("siblings run to their end before the run pauses", async () => {
  const held = latch();
  const payment = payTool();
  const payer = part("payer", [calls(pay(1)), says("Paid.")], { tools: [payment] });
  const slow = part("slow", [calls(use("work")), says("Slow.", {})], {
    tools: [tool("work", () => held.opened)],
  });
  const lead = part("lead", [calls(spawn("payer"), spawn("slow")), says("Done.")], {
    subagents: [payer.role, slow.role],
  });
  const fixture = newFixture();
  const run = fixture.start(lead.role);
  let isOver = false;
  void run.result.then(() => (isOver = true));
  await until(() => fixture.sink.ofType("agent.paused").length === 1);
  expect(isOver).toBe(false);
  held.open();
  const paused = await fixture.outcome(run);
  expect(ends(paused)).toEqual(["paused", "paused", "completed"]);
});

test("a resume whose root may no longer delegate is refused and loses no paused child", async () => {
  const payment = payTool();
  const payer = part("payer", [calls(pay(1)), says("Paid.")], { tools: [payment] });
  const lead = part("lead", [calls(spawn("payer")), says("Done.")], { subagents: [payer.role] });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  const alone = part("lead", [says("Done.")]);
  const resume = () =>
    fixture.resume(alone.role, paused.pausedRun, approveAll(paused), { roles: [payer.role] });
  expect(thrownBy(resume)).toMatchObject({
    code: "invalid_paused_run",
    message:
      'Invalid paused run: lead/payer#1 has the role "payer", which lead may not start. Pass result.pausedRun complete and unchanged.',
  });
  const result = await fixture.outcome(
    fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ends(result), payment.paid]).toEqual([["completed", "completed"], [1]]);
});

function partOf(text: string, key: string): unknown {
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}
