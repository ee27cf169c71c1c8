// Goal: stopping a tree while one part is paused and another works ends it without losses. Paused
// children end first, every spawn settles, and a stop requested during a pause applies after it.

import { describe, expect, test } from "vitest";

import type { Run } from "../../../src/orchestrator/run/run.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import {
  approveAll,
  asked,
  ending,
  payTool,
  questionOf,
  texts,
} from "../../support/pause-stories.ts";
import {
  calls,
  ends,
  listens,
  part,
  quiet,
  spawn,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

/**
 * A lead with a payer, which needs an approval, and a worker, which works until it is stopped or
 * released.
 */
function pair() {
  const pay = payTool();
  const held = latch();
  const work = tool("work", async ({ signal }) => {
    await Promise.race([held.opened, stopped(signal)]);
    return "worked";
  });
  const payer = part("payer", [calls(PAY), says("Paid.")], { tools: [pay] });
  const worker = part("worker", [calls(use("work")), says("Worked.")], { tools: [work] });
  const lead = part("lead", [calls(spawn("payer"), spawn("worker")), says("Done.")], {
    subagents: [payer.role, worker.role],
  });
  return { pay, held, payer, worker, lead };
}

function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

/** Waits until the payer has paused while the worker works. */
async function halfPaused(fixture: Fixture): Promise<void> {
  await until(
    () =>
      fixture.sink.ofType("agent.paused").length === 1 &&
      fixture.sink.ofType("tool.started").some(({ toolName }) => toolName === "work"),
  );
}

function agentAt(fixture: Fixture, role: string): Parameters<Run["cancelAgent"]>[0] {
  const spawned = fixture.sink.ofType("subagent.spawned").find((event) => event.role === role);
  return spawned?.childId ?? expect.fail(`no ${role}`);
}

/** Returns the ends of agents and spawns, in order. */
function order(fixture: Fixture): readonly string[] {
  return fixture.sink.events.flatMap((event) => {
    if (event.type === "agent.ended") return [`${event.agentPath} ${event.status}`];
    return event.type === "subagent.ended" ? [`(${event.childPath} settled)`] : [];
  });
}

describe("a tree with a paused child and a working sibling", () => {
  test("ends both children before their parent on a cancel, and the approval is void", async () => {
    const fixture = newFixture();
    const tree = pair();
    const run = fixture.start(tree.lead.role);
    await halfPaused(fixture);
    void run.cancel("Enough.");
    const result = await fixture.outcome(run);
    expect([ending(result), ends(result), result.questions, result.pausedRun]).toEqual([
      ["cancelled", "cancelled"],
      ["cancelled", "cancelled", "cancelled"],
      [],
      undefined,
    ]);
    expect(order(fixture)).toEqual([
      "lead/worker#1 cancelled",
      "(lead/worker#1 settled)",
      "lead/payer#1 cancelled",
      "(lead/payer#1 settled)",
      "lead cancelled",
    ]);
    expect(tree.pay.paid).toEqual([]);
  });

  test("lets the sibling's tool end on a stop, and the paused child ends with the tree", async () => {
    const fixture = newFixture();
    const tree = pair();
    const run = fixture.start(tree.lead.role);
    await halfPaused(fixture);
    run.requestStop("Enough.");
    tree.held.open();
    const result = await fixture.outcome(run);
    expect([ending(result), result.questions]).toEqual([["stopped", "stop_requested"], []]);
    expect(order(fixture).map((line) => line.split(" ")[0])).toEqual([
      "lead/worker#1",
      "(lead/worker#1",
      "lead/payer#1",
      "(lead/payer#1",
      "lead",
    ]);
    expect(tree.pay.paid).toEqual([]);
  });

  test("ends both children before their parent at the deadline of the run", async () => {
    const fixture = newFixture();
    const tree = pair();
    const run = fixture.start(tree.lead.role, "Do it.", { deadlineAtMs: 100 });
    await halfPaused(fixture);
    fixture.clock.advance(100);
    const result = await fixture.outcome(run);
    expect([ending(result), order(fixture).at(-1), order(fixture).length]).toEqual([
      ["stopped", "time_limit"],
      "lead stopped",
      5,
    ]);
    expect(tree.pay.paid).toEqual([]);
  });

  test("continues without a question if the paused child alone is cancelled", async () => {
    const fixture = newFixture();
    const tree = pair();
    const run = fixture.start(tree.lead.role);
    await halfPaused(fixture);
    run.cancelAgent(agentAt(fixture, "payer"), "Not needed.");
    await quiet();
    tree.held.open();
    const result = await fixture.outcome(run);
    expect([ends(result), tree.pay.paid]).toEqual([["completed", "cancelled", "completed"], []]);
  });

  test("pauses and can be resumed if the sibling alone is cancelled", async () => {
    const fixture = newFixture();
    const tree = pair();
    const run = fixture.start(tree.lead.role);
    await halfPaused(fixture);
    run.cancelAgent(agentAt(fixture, "worker"), "Not needed.");
    const paused = await fixture.outcome(run);
    expect([ends(paused), asked(paused)]).toEqual([
      ["paused", "paused", "cancelled"],
      [["lead/payer#1", "pay"]],
    ]);
    const resumed = fixture.resume(tree.lead.role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    expect([ends(result), tree.pay.paid, result.text]).toEqual([
      ["completed", "completed", "cancelled"],
      [3],
      "Done.",
    ]);
  });

  test("keeps the paused child if the sibling fails", async () => {
    const fixture = newFixture();
    const pay = payTool();
    const payer = part("payer", [calls(PAY), says("Paid.")], { tools: [pay] });
    const broken = part("broken", [{ error: new Error("broken") }]);
    const lead = part("lead", [calls(spawn("broken"), spawn("payer")), says("Done.")], {
      subagents: [payer.role, broken.role],
    });
    const paused = await fixture.run(lead.role);
    expect(ends(paused)).toEqual(["paused", "failed", "paused"]);
    const result = await fixture.outcome(
      fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
    );
    expect([ends(result), pay.paid]).toEqual([["completed", "failed", "completed"], [3]]);
  });
});

describe("a tree with a paused grandchild and a working child", () => {
  test("ends leaves first on a cancel, and each spawn settles", async () => {
    const fixture = newFixture();
    const pay = payTool();
    const payer = part("payer", [calls(PAY)], { tools: [pay] });
    const manager = part("manager", [calls(spawn("payer"))], { subagents: [payer.role] });
    const worker = part("worker", [calls(use("work"))], { tools: [listens("work")] });
    const lead = part("lead", [calls(spawn("manager"), spawn("worker"))], {
      subagents: [manager.role, worker.role],
    });
    const run = fixture.start(lead.role);
    await until(() => fixture.sink.ofType("agent.paused").length === 2);
    void run.cancel();
    const result = await fixture.outcome(run);
    expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled", "cancelled"]);
    expect(order(fixture)).toEqual([
      "lead/worker#1 cancelled",
      "(lead/worker#1 settled)",
      "lead/manager#1/payer#1 cancelled",
      "(lead/manager#1/payer#1 settled)",
      "lead/manager#1 cancelled",
      "(lead/manager#1 settled)",
      "lead cancelled",
    ]);
  });
});

/** The same pair as subtasks that a tool of the lead queues. */
function queueing() {
  const tree = pair();
  const queue = tool("queue", ({ queueSubtask }) => {
    queueSubtask({ role: "payer", task: "Pay." });
    queueSubtask({ role: "worker", task: "Work." });
  });
  const lead = part("lead", [calls(use("queue")), says("Done.")], {
    tools: [queue],
    subagents: [tree.payer.role, tree.worker.role],
  });
  return { ...tree, lead };
}

describe("a tree with a paused subtask and a working one", () => {
  test("pauses with the question, and continues below the same parent", async () => {
    const fixture = newFixture();
    const tree = queueing();
    tree.held.open();
    const paused = await fixture.run(tree.lead.role);
    expect([ends(paused), asked(paused)]).toEqual([
      ["paused", "paused", "completed"],
      [["lead/payer#1", "pay"]],
    ]);
    const result = await fixture.outcome(
      fixture.resume(tree.lead.role, paused.pausedRun, approveAll(paused)),
    );
    expect([ends(result), tree.pay.paid, tree.worker.model.requests.length]).toEqual([
      ["completed", "completed", "completed"],
      [3],
      2,
    ]);
  });

  test("ends completely on a cancel", async () => {
    const fixture = newFixture();
    const tree = queueing();
    const run = fixture.start(tree.lead.role);
    await halfPaused(fixture);
    void run.cancel();
    const result = await fixture.outcome(run);
    expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled"]);
  });

  test("ends completely on a stop", async () => {
    const fixture = newFixture();
    const tree = queueing();
    const run = fixture.start(tree.lead.role);
    await halfPaused(fixture);
    run.requestStop();
    tree.held.open();
    const result = await fixture.outcome(run);
    expect([ending(result), order(fixture).at(-1)]).toEqual([
      ["stopped", "stop_requested"],
      "lead stopped",
    ]);
  });
});

describe("an agent with a call that needs an approval", () => {
  test("stops instead of asking if a sibling call requests a stop", async () => {
    const fixture = newFixture();
    const pay = payTool();
    const stopper = tool("stopper", () => run.requestStop());
    const lead = part("lead", [calls(PAY, use("stopper"))], { tools: [pay, stopper] });
    const run = fixture.start(lead.role);
    const result = await fixture.outcome(run);
    expect([ending(result), result.questions, pay.paid]).toEqual([
      ["stopped", "stop_requested"],
      [],
      [],
    ]);
    expect(texts(result)).toEqual([
      "Not executed: the agent was stopped before this call could begin.",
      "",
    ]);
  });

  test("does not run the approved call if a stop or a cancel arrives before the resumed run begins", async () => {
    for (const stop of ["stop", "cancel"] as const) {
      const fixture = newFixture();
      const pay = payTool();
      const lead = part("lead", [calls(PAY)], { tools: [pay] });
      const paused = await fixture.run(lead.role);
      const run = fixture.resume(lead.role, paused.pausedRun, approveAll(paused));
      if (stop === "stop") run.requestStop();
      else void run.cancel();
      const result = await fixture.outcome(run);
      expect([result.status, pay.paid]).toEqual([stop === "stop" ? "stopped" : "cancelled", []]);
    }
  });

  test("ignores the handle of its run once it is paused", async () => {
    const fixture = newFixture();
    const pay = payTool();
    const lead = part("lead", [calls(PAY), says("Done.")], { tools: [pay] });
    const old = fixture.start(lead.role);
    const paused = await fixture.outcome(old);
    const count = fixture.sink.events.length;
    old.requestStop();
    old.requestPause();
    expect(await old.cancel()).toBe(paused);
    await quiet();
    expect([fixture.sink.events.length, questionOf(paused).toolName]).toEqual([count, "pay"]);
    const result = await fixture.outcome(
      fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), pay.paid]).toEqual([["completed", "completed"], [3]]);
  });
});
