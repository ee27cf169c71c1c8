// Goal: whatever a delegation forgets, invents or keeps, the laws of the tree hold (T1, T2, T5).
// Method: delegations that do not wait, lie, never settle, or spawn at the wrong time; the outcomes
// of all agents compared.

import { expect, test } from "vitest";
import { z } from "zod";

import {
  defineTool,
  type DelegationContext,
  type SpawnOutcome,
  type SpawnRequest,
} from "../../../src/index.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending } from "../../support/pause-stories.ts";
import { calls, ends, part, quiet, use } from "../../harness/scripted-agents.ts";
import { delegation } from "../../support/custom-delegations.ts";
import { outcomes } from "../../support/call-outcomes.ts";

/** Values with these types in name only. */
const outcome = z.custom<SpawnOutcome>(() => true);
const spawnRequest = z.custom<SpawnRequest>(() => true);

test("fails the call of a delegation that throws or returns no outcome", async () => {
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

test("does not wait for a subagent of an invented outcome", async () => {
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

test("returns the result of the second of two subagents in sequence, and ends both", async () => {
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

test("ends a subagent that its delegation does not await before the parent continues", async () => {
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
  void run.result.catch(() => undefined); // The rejection is compared below.
  await quiet();
  expect(root.model.requests, "T2: the parent waits for its child").toHaveLength(1);
  held.open();
  const result = await fixture.outcome(run);
  expect(new Set(ends(result))).toEqual(new Set(["completed"]));
});

test("ends a subagent that its failing delegation forgets before the parent continues", async () => {
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

for (const end of ["cancel", "time limit"] as const) {
  test(`does not delay a ${end} by a delegation that never settles`, async () => {
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

proves(
  ["D776"],
  "continues the paused subagent that a delegation returned, and the other one in the background",
  async () => {
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
    // The call waits for the returned subagent; the other one reports in a message.
    expect([ending(result), ends(result), pay.calls.length]).toEqual([
      ["completed", "completed"],
      ["completed", "completed", "completed"],
      2,
    ]);
  },
);

test("refuses a spawn by a context that was kept beyond its call", async () => {
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

test("refuses a spawn after the end of the run, without events", async () => {
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

test("refuses an invalid request or fails its call, and starts nothing", async () => {
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
