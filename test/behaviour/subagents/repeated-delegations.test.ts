// Goal: repeated delegations of the same task to the same role require an approval, anywhere in the
// tree.
// Method: real runs with scripted models, with and without an approver.

import { describe, expect, test } from "vitest";

import { approve, deny } from "../../../src/protocol/question.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { approveAll, leaveOpen, payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, receivedTexts, type Part } from "../../harness/scripted-agents.ts";

/** A lead that runs the given script, and its helper. */
function leadOf(
  script: readonly ScriptedReply[],
  most: number | "unlimited" = 2,
): Part & { readonly helper: Part } {
  const helper = part("helper", () => says("Helped."));
  const lead = part("lead", script, {
    subagents: [helper.role],
    delegation: { maxIdenticalDelegations: most },
  });
  return { ...lead, helper };
}

const again = [
  calls(spawn("helper")),
  calls(spawn("helper")),
  calls(spawn("helper")),
  says("Done."),
];

describe("the same delegation", () => {
  proves(["X21"], "requires an approval the third time", async () => {
    const lead = leadOf(again);
    const s = newFixture({ approver: leaveOpen });
    const paused = await s.run(lead.role);
    expect([paused.status, lead.helper.model.requests.length]).toEqual(["paused", 2]);
    const [question] = paused.questions;
    if (question === undefined) throw new Error("asked");
    expect([question.agentPath, question.toolName, question.reason]).toEqual([
      "lead",
      "SpawnSubagent",
      "helper was started with the same task 2 times in this run.",
    ]);
    const denied = await s.outcome(
      s.resume(lead.role, paused.pausedRun, [deny(question, "Enough.")]),
    );
    expect([denied.status, denied.text]).toEqual(["completed", "Done."]);
    expect(receivedTexts(lead.model.requests.at(-1))).toEqual([
      "Not executed: SpawnSubagent was denied. Enough. Approval was required for this reason: helper was started with the same task 2 times in this run. Do without it, or answer with what you have.",
    ]);
  });

  proves(["D522"], "is refused with an instruction if there is no approver", async () => {
    const lead = leadOf(again);
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.status, result.text, lead.helper.model.requests.length]).toEqual([
      "completed",
      "Done.",
      2,
    ]);
    expect(receivedTexts(lead.model.requests.at(-1))).toEqual([
      "Not executed: SpawnSubagent was denied. helper was started with the same task 2 times in this run. Use its results, or another task. Do without it, or answer with what you have.",
    ]);
  });

  test("starts if it is approved", async () => {
    const lead = leadOf(again);
    const s = newFixture({ approver: (question) => approve(question) });
    const result = await s.run(lead.role);
    expect([result.status, result.agents.length]).toEqual(["completed", 4]);
  });

  proves(["X21"], "counts over the whole tree, including a role that starts itself", async () => {
    const node = part("node", () => calls(spawn("node", "Think.")), {
      subagents: ["node"],
      delegation: { maxIdenticalDelegations: 2 },
    });
    const s = newFixture({ limits: { maxDepth: 10 }, unansweredPolicy: "deny" });
    const result = await s.run(node.role, { budget: { steps: 6 } });
    expect(result.agents.map(({ agentPath }) => agentPath)).toEqual([
      "node",
      "node/node#1",
      "node/node#1/node#1",
    ]);
  });

  test("counts all calls of one reply once", async () => {
    const lead = leadOf([calls(spawn("helper"), spawn("helper"), spawn("helper")), says("Done.")]);
    const result = await newFixture({ approver: leaveOpen }).run(lead.role);
    expect([result.status, result.agents.length]).toEqual(["completed", 4]);
  });

  test("is recognised despite different white space, but not with other words", async () => {
    const script = [
      calls(spawn("helper", "Do  it.")),
      calls(spawn("helper", "Do it well.")),
      calls(spawn("helper", " Do\nit. ")),
      calls(spawn("helper", "Do it.")),
      says("Done."),
    ];
    const lead = leadOf(script);
    const paused = await newFixture({ approver: leaveOpen }).run(lead.role);
    expect([paused.status, lead.helper.model.requests.length]).toEqual(["paused", 3]);
  });

  test.each<[number | "unlimited", number]>([
    [0, 0],
    [1, 1],
    ["unlimited", 3],
  ])("may be made %s times if the role says so", async (most, started) => {
    const lead = leadOf(again, most);
    const s = newFixture({ unansweredPolicy: "deny" });
    const result = await s.run(lead.role);
    expect([result.status, lead.helper.model.requests.length]).toEqual(["completed", started]);
  });

  test("still counts after a pause", async () => {
    const lead = leadOf(again, 1);
    const s = newFixture({ approver: leaveOpen });
    const first = await s.run(lead.role);
    const [question] = first.questions;
    if (question === undefined) throw new Error("asked");
    const second = await s.outcome(s.resume(lead.role, first.pausedRun, [approve(question)]));
    expect([second.status, second.questions.map(({ reason }) => reason)]).toEqual([
      "paused",
      ["helper was started with the same task 2 times in this run."],
    ]);
  });

  test("counts if a subagent is continued with the same task", async () => {
    const goOn = calls({
      toolName: "SpawnSubagent",
      arguments: { role: "helper", task: "Work.", continue: "helper#1" },
    });
    const lead = leadOf([calls(spawn("helper")), goOn, goOn, says("Done.")]);
    const paused = await newFixture({ approver: leaveOpen }).run(lead.role);
    expect([paused.status, lead.helper.model.requests.length]).toEqual(["paused", 2]);
  });
});

const WATCHED = { delegation: { maxIdenticalDelegations: 2 } } as const;

describe("a delegation made before a pause", () => {
  test("counts after the pause, including earlier tasks of a continued subagent", async () => {
    const pay = payTool();
    const helper = part("helper", () => says("Helped."));
    const lead = part(
      "lead",
      [
        calls(spawn("helper", "A")),
        calls({
          toolName: "SpawnSubagent",
          arguments: { role: "helper", task: "B", continue: "helper#1" },
        }),
        calls(spawn("helper", "A")),
        calls({ toolName: "pay", arguments: { amount: 1 } }),
        calls(spawn("helper", "A")),
        says("Done."),
      ],
      { ...WATCHED, subagents: [helper.role], tools: [pay] },
    );
    const s = newFixture({ approver: leaveOpen });
    const first = await s.run(lead.role);
    const second = await s.outcome(s.resume(lead.role, first.pausedRun, approveAll(first)));
    expect([second.status, second.questions.map(({ reason }) => reason)]).toEqual([
      "paused",
      ["helper was started with the same task 2 times in this run."],
    ]);
  });

  test("counts in a fork if it was made by the step", async () => {
    const helper = part("helper", () => says("Helped."));
    const lead = part(
      "lead",
      [
        calls(spawn("helper")),
        calls(spawn("helper")),
        says("Original."),
        calls(spawn("helper")),
        says("Done."),
      ],
      { ...WATCHED, subagents: [helper.role] },
    );
    const s = newFixture({ approver: leaveOpen });
    const run = s.start(lead.role);
    await s.outcome(run);
    const forked = await s.outcome(s.fork(lead.role, run.snapshot(), { atStep: 2 }));
    expect([forked.status, forked.questions.length]).toEqual(["paused", 1]);
  });
});

test("identical delegations at different depths count together", async () => {
  const helper = part("helper", () => says("Helped."));
  const middle = part("middle", [calls(spawn("helper")), says("Middle.")], {
    ...WATCHED,
    subagents: [helper.role],
  });
  const lead = part(
    "lead",
    [calls(spawn("helper")), calls(spawn("middle")), calls(spawn("helper")), says("Done.")],
    { ...WATCHED, subagents: [helper.role, middle.role] },
  );
  const s = newFixture({ approver: leaveOpen });
  const paused = await s.run(lead.role);
  expect([
    paused.status,
    paused.questions.map(({ agentPath }) => agentPath),
    helper.model.requests.length,
  ]).toEqual(["paused", ["lead"], 2]);
});

test("a refused delegation does not count", async () => {
  const helper = part("helper", () => says("Helped."));
  const lead = part(
    "lead",
    [...Array.from({ length: 4 }, () => calls(spawn("helper"))), says("Done.")],
    { ...WATCHED, subagents: [helper.role] },
  );
  const s = newFixture({ limits: { maxTotalSubagents: 1 } });
  const result = await s.run(lead.role);
  expect([result.status, result.refusalsByCode]).toEqual(["completed", { total_limit: 3 }]);
});
