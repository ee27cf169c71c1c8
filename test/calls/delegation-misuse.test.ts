// Goal: whatever the code of a delegation forgets, makes up or keeps, the laws of the tree hold (T1, T2, T5).
// Method: delegations that do not wait, lie, never settle, or spawn when they must not; what came of all agents compared.

import { expect, test } from "vitest";
import { z } from "zod";

import {
  defineTool,
  type DelegationContext,
  type SpawnOutcome,
  type SpawnRequest,
} from "../../src/index.ts";
import { says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { latch, newFixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";
import { approveAll, ending } from "../support/pause-stories.ts";
import { calls, ends, part, quiet, use } from "../tree/scripted-agents.ts";
import { delegation } from "./delegations.ts";
import { outcomes } from "./reading.ts";

/** Values that have these types only by name. */
const outcome = z.custom<SpawnOutcome>(() => true);
const spawnRequest = z.custom<SpawnRequest>(() => true);

test("a delegation that throws is a failed call; one that gives no outcome, too", async () => {
  const throwing = delegation(() => Promise.reject(new Error("No luck.")));
  const odd = outcome.parse({ type: "odd" });
  const wrong = delegation(() => Promise.resolve(odd), "wrong");
  const root = part("root", [calls(use("delegate"), use("wrong")), says("ok")], {
    tools: [throwing, wrong],
  });
  const result = await newFixture().run(root.role);
  expect([ending(result), outcomes(result).map(([, type, code]) => [type, code])]).toEqual([
    ["completed", "completed"],
    [
      ["failed", "tool_error"],
      ["failed", "tool_error"],
    ],
  ]);
});

test("an outcome that was made up has no power: a subagent that is not there is not waited for", async () => {
  const forged = outcome.parse({ type: "paused", childId: "agent_99" });
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [delegation(() => Promise.resolve(forged))],
  });
  const result = await newFixture().run(root.role);
  expect([ending(result), outcomes(result).map(([, type, code]) => [type, code])]).toEqual([
    ["completed", "completed"],
    [["failed", "tool_error"]],
  ]);
});

test("two children in turn: the call gives the second's result, both are settled", async () => {
  const child = part("child", [says("one"), says("two")]);
  const twice = delegation(async ({ spawn }) => {
    await spawn({ role: "child", task: "First." });
    return await spawn({ role: "child", task: "Second." });
  });
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [twice],
    subagents: [child.role],
  });
  const fixture = newFixture();
  const result = await fixture.run(root.role);
  expect([ends(result), fixture.sink.ofType("subagent.ended").length]).toEqual([
    ["completed", "completed", "completed"],
    2,
  ]);
});

test("a child that its delegation does not wait for has ended before its parent continues", async () => {
  const held = latch();
  const slow = part("slow", [says("Slow.", { after: held.opened })]);
  const quick = part("quick", [says("Quick.")]);
  const careless = delegation(({ spawn }) => {
    void spawn({ role: "slow", task: "Take your time." });
    return spawn({ role: "quick", task: "Hurry." });
  });
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [careless],
    subagents: [slow.role, quick.role],
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  void run.result.catch(() => undefined); // What it rejects with is compared below.
  await quiet();
  expect(root.model.requests, "T2: the parent waits for its child").toHaveLength(1);
  held.open();
  const result = await fixture.outcome(run);
  expect(new Set(ends(result))).toEqual(new Set(["completed"]));
});

test("a child that its delegation forgets when it fails has ended before its parent continues", async () => {
  const held = latch();
  const child = part("child", [says("Child.", { after: held.opened })]);
  const careless = delegation(({ spawn }) => {
    void spawn({ role: "child", task: "Take your time." });
    return Promise.reject(new Error("Too hard."));
  });
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [careless],
    subagents: [child.role],
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  void run.result.catch(() => undefined);
  await quiet();
  expect(root.model.requests, "T2: the parent waits for its child").toHaveLength(1);
  held.open();
  const result = await fixture.outcome(run);
  expect([ends(result), outcomes(result).map(([, type]) => type)]).toEqual([
    ["completed", "completed"],
    ["failed"],
  ]);
});

test("a child that is paused when its delegation gives something else is ended: nothing would continue it", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const forging = delegation(async ({ spawn }) => {
    await spawn({ role: "child", task: "Pay." });
    return { type: "refused", refusal: { code: "setup_failed", message: "Never mind." } };
  });
  const child = part("child", [calls(use("pay"))], { tools: [pay] });
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [forging],
    subagents: [child.role],
  });
  const result = await newFixture().run(root.role);
  expect([ending(result), ends(result), outcomes(result).map(([, type]) => type)]).toEqual([
    ["completed", "completed"],
    ["completed", "cancelled"],
    ["refused"],
  ]);
  expect([result.questions, pay.calls]).toEqual([[], []]);
});

for (const end of ["cancel", "time limit"] as const) {
  test(`a delegation that never settles does not hold up a ${end}`, async () => {
    const stuck = delegation(() => new Promise(() => undefined));
    const root = part("root", [calls(use("delegate"))], {
      tools: [stuck],
      budget: { timeMs: 60_000 },
    });
    const fixture = newFixture({ graceMs: 100 });
    const run = fixture.start(root.role);
    await quiet();
    if (end === "cancel") void run.cancel();
    else fixture.clock.advance(60_000);
    await quiet();
    fixture.clock.advance(100);
    await quiet();
    expect(fixture.sink.ofType("run.ended").length, "it ended").toBe(1);
    const result = await fixture.outcome(run);
    expect([result.status, outcomes(result).map(([, type]) => type)]).toEqual([
      end === "cancel" ? "cancelled" : "stopped",
      ["cancelled"],
    ]);
  });
}

test("of two children that are both paused the one that is given continues with the run, the other is ended", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const both = delegation(async ({ spawn }) => {
    const [first] = await Promise.all([
      spawn({ role: "child", task: "First." }),
      spawn({ role: "child", task: "Second." }),
    ]);
    return first;
  });
  const build = (root: readonly ScriptedReply[], child: readonly ScriptedReply[]) =>
    part("root", root, {
      tools: [both],
      subagents: [part("child", child, { tools: [pay] }).role],
    });
  const fixture = newFixture();
  const paused = await fixture.run(
    build([calls(use("delegate"))], [calls(use("pay")), calls(use("pay"))]).role,
  );
  expect(ending(paused)).toEqual(["paused", "input_required"]);
  const again = build([says("ok")], [says("Paid."), says("Paid.")]);
  const run = fixture.resume(again.role, paused.pausedRun, approveAll(paused));
  void run.result.catch(() => undefined);
  const result = await fixture.outcome(run);
  // The call waits for the one that it gave; the other is ended before the run pauses.
  expect([ending(result), ends(result), pay.calls.length]).toEqual([
    ["completed", "completed"],
    ["completed", "completed", "cancelled"],
    1,
  ]);
});

test("spawn that is kept and used after its call is refused: nothing begins", async () => {
  const kept: DelegationContext[] = [];
  const child = part("child", [says("Child."), says("LATE")]);
  const keeper = delegation((context) => {
    kept.push(context);
    return context.spawn({ role: "child", task: "Work." });
  });
  const thief = defineTool({
    name: "thief",
    description: "Uses what it should not have.",
    inputSchema: z.object({}),
    execute: async () => {
      const outcome = await kept[0]?.spawn({ role: "child", task: "Stolen." });
      return outcome?.type ?? "none";
    },
  });
  const root = part("root", [calls(use("delegate")), calls(use("thief")), says("ok")], {
    tools: [keeper, thief],
    subagents: [child.role],
  });
  const result = await newFixture().run(root.role);
  expect([outcomes(result)[1]?.[3], result.agents.length]).toEqual(["refused", 2]);
});

test("spawn that is kept and used after the end of the run starts nothing and says nothing", async () => {
  const kept: DelegationContext[] = [];
  const child = part("child", [says("Child."), says("LATE")]);
  const keeper = delegation((context) => {
    kept.push(context);
    return context.spawn({ role: "child", task: "Work." });
  });
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [keeper],
    subagents: [child.role],
  });
  const fixture = newFixture();
  await fixture.run(root.role);
  const events = fixture.sink.events.length;
  const outcome = await kept[0]?.spawn({ role: "child", task: "Stolen." });
  await quiet();
  expect([outcome?.type, child.model.requests.length, fixture.sink.events.length]).toEqual([
    "refused",
    1,
    events,
  ]);
});

test("a request that is none is refused or fails the call, and starts nothing", async () => {
  const child = part("child", [says("never")]);
  for (const request of [
    '{"role":"child"}',
    '{"role":"child","task":""}',
    '{"role":7,"task":"x"}',
    "null",
  ]) {
    const root = part("root", [calls(use("delegate")), says("ok")], {
      tools: [delegation(({ spawn }) => spawn(spawnRequest.parse(JSON.parse(request))))],
      subagents: [child.role],
    });
    const result = await newFixture().run(root.role);
    expect([ending(result), result.agents.length, outcomes(result)[0]?.[1]], request).toEqual([
      ["completed", "completed"],
      1,
      expect.stringMatching(/refused|failed/),
    ]);
  }
});
