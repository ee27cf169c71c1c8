// Goal: the caller may pause a tree at any moment and resume it later; the result is the same, and
// no work is repeated.

import { describe, expect, test } from "vitest";

import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, asked, ending, payTool } from "../../support/pause-stories.ts";
import { calls, ends, part, spawn, tool, until, use } from "../../harness/scripted-agents.ts";

/** A tree with parallel children, a grandchild, tools and a subtask. */
function troupe() {
  const log: string[] = [];
  const work = tool("work", ({ agentPath, stepNumber }) => {
    log.push(`${agentPath} ${stepNumber}`);
  });
  const queue = tool("queue", ({ queueSubtask }) =>
    queueSubtask({ role: "helper", task: "Help." }),
  );
  const leaf = part("leaf", [calls(use("work")), says("Leaf.")], { tools: [work] });
  const child = part("child", [calls(use("work"), spawn("leaf")), calls(use("work")), says("C.")], {
    tools: [work],
    subagents: [leaf.role],
  });
  const helper = part("helper", () => says("Helped."));
  const root = part(
    "root",
    [
      calls(spawn("child"), spawn("helper"), use("work"), use("queue")),
      calls(use("work")),
      says("R."),
    ],
    { tools: [work, queue], subagents: [child.role, helper.role] },
  );
  return { log, root };
}

/** Returns the parts of a result that must not depend on pauses. */
function essence(result: RunResult) {
  return {
    ending: ending(result),
    text: result.text,
    usage: result.usage,
    agents: result.agents
      .map(({ agentPath, status, text, steps }) => ({
        agentPath,
        status,
        text,
        calls: steps.map(({ tools }) =>
          tools.executions.map(({ type, text: told }) => [type, told]),
        ),
      }))
      .toSorted((left, right) => left.agentPath.localeCompare(right.agentPath)),
    accounts: result.accounts
      .map(({ agentPath: path, own, total }) => ({ path, own, total }))
      .toSorted((left, right) => left.path.localeCompare(right.path)),
  };
}

/**
 * Runs the tree, requests a pause at the first event that matches `when`, and resumes as often as
 * needed.
 */
async function interrupted(when: (event: EspalierEvent) => boolean) {
  const { log, root } = troupe();
  let isAsked = false;
  const fixture = newFixture({
    sinks: [
      {
        emit: (event) => {
          if (isAsked || !when(event)) return;
          isAsked = true;
          queueMicrotask(() => run.requestPause());
          run.requestPause();
        },
      },
    ],
  });
  let run = fixture.start(root.role);
  let result = await fixture.outcome(run);
  let pauses = 0;
  while (result.status === "paused") {
    pauses += 1;
    expect(pauses).toBeLessThan(3);
    expect(result.questions).toEqual([]);
    run = fixture.resume(root.role, result.pausedRun);
    result = await fixture.outcome(run);
  }
  return { result, log, pauses, events: fixture.sink.events };
}

test("a pause requested at any event of a tree does not change its result", async () => {
  const plain = await interrupted(() => false);
  const expected = { ...essence(plain.result), log: plain.log.toSorted() };
  let paused = 0;
  for (const { seq } of plain.events) {
    const one = await interrupted((event) => event.seq === seq);
    paused += one.pauses;
    expect({ seq, ...essence(one.result), log: one.log.toSorted() }).toEqual({ seq, ...expected });
  }
  expect(paused).toBeGreaterThan(plain.events.length / 2);
});

test("a requested pause has its own reason and no questions, even on a second request", async () => {
  const held = latch();
  const work = spyTool("work", () => held.opened);
  const { role, model } = soloist([calls(use("work")), says("done")], { tools: [work] });
  const fixture = newFixture();
  const run = fixture.start(role);
  await until(() => work.calls.length === 1);
  run.requestPause();
  run.requestPause();
  held.open();
  const paused = await fixture.outcome(run);
  expect([paused.status, paused.reason, paused.questions, model.requests.length]).toEqual([
    "paused",
    { code: "pause_requested", message: "The caller asked the run to pause.", data: {} },
    [],
    1,
  ]);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun));
  expect([ending(result), work.calls.length, model.requests.length]).toEqual([
    ["completed", "completed"],
    1,
    2,
  ]);
});

describe("a requested pause", () => {
  test("starts no work before the resume if it comes before the first tick", async () => {
    const { role, model } = soloist([says("done")]);
    const fixture = newFixture();
    const run = fixture.start(role);
    run.requestPause();
    const paused = await fixture.outcome(run);
    expect([ending(paused), model.requests.length, paused.usage.total.totalTokens]).toEqual([
      ["paused", "pause_requested"],
      0,
      0,
    ]);
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun));
    expect([ending(result), model.requests.length]).toEqual([["completed", "completed"], 1]);
    expect(model.requests[0]?.messages.map(({ text }) => text)).toEqual(["Work.", "Do it."]);
  });

  test("makes calls run once after the resume if it comes while the model answers with them", async () => {
    const held = latch();
    const work = spyTool("work");
    const { role, model } = soloist([{ ...calls(use("work")), after: held.opened }, says("done")], {
      tools: [work],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await until(() => model.requests.length === 1);
    run.requestPause();
    held.open();
    const paused = await fixture.outcome(run);
    expect([ending(paused), work.calls.length]).toEqual([["paused", "pause_requested"], 0]);
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun));
    expect([ending(result), work.calls.length, model.requests.length]).toEqual([
      ["completed", "completed"],
      1,
      2,
    ]);
  });

  test("leaves the run with the question and its reason if a call needs an approval", async () => {
    const held = latch();
    const pay = payTool();
    const work = spyTool("work", () => held.opened);
    const script = [
      calls(use("work"), { toolName: "pay", arguments: { amount: 3 } }),
      says("done"),
    ];
    const { role } = soloist(script, { tools: [work, pay] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await until(() => work.calls.length === 1);
    run.requestPause();
    held.open();
    const paused = await fixture.outcome(run);
    expect([ending(paused), asked(paused)]).toEqual([
      ["paused", "input_required"],
      [["solo", "pay"]],
    ]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), work.calls.length, pay.paid]).toEqual([
      ["completed", "completed"],
      1,
      [3],
    ]);
  });

  test("pauses a working child before its parent, and the child continues where it was", async () => {
    const held = latch();
    const work = spyTool("work", () => held.opened);
    const child = part("child", [calls(use("work")), says("Child.")], { tools: [work] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const fixture = newFixture();
    const run = fixture.start(root.role);
    await until(() => work.calls.length === 1);
    run.requestPause();
    held.open();
    const paused = await fixture.outcome(run);
    expect([ends(paused), paused.agents.map(({ reason }) => reason.code)]).toEqual([
      ["paused", "paused"],
      ["pause_requested", "pause_requested"],
    ]);
    expect(fixture.sink.ofType("agent.paused").map(({ agentPath }) => agentPath)).toEqual([
      "root/child#1",
      "root",
    ]);
    const result = await fixture.outcome(fixture.resume(root.role, paused.pausedRun));
    expect([ends(result), work.calls.length, child.model.requests.length]).toEqual([
      ["completed", "completed"],
      1,
      2,
    ]);
  });

  test("pauses a resumed run again with the next pause count", async () => {
    const work = spyTool("work");
    const { role } = soloist([calls(use("work")), calls(use("work")), says("done")], {
      tools: [work],
    });
    const fixture = newFixture();
    const first = fixture.start(role);
    first.requestPause();
    let result = await fixture.outcome(first);
    const pauses: unknown[] = [];
    for (let round = 0; round < 4; round += 1) {
      pauses.push(result.pausedRun?.pauseCount);
      const run = fixture.resume(role, result.pausedRun);
      run.requestPause();
      result = await fixture.outcome(run);
    }
    // A pause requested before the run begins lets it do no work; without one it ends.
    expect([pauses, work.calls.length]).toEqual([[1, 2, 3, 4], 0]);
    const end = await fixture.outcome(fixture.resume(role, result.pausedRun));
    expect([ending(end), work.calls.length, fixture.sink.ofType("run.resumed").length]).toEqual([
      ["completed", "completed"],
      2,
      5,
    ]);
  });

  test("loses to a stop requested at the same time", async () => {
    const held = latch();
    const work = spyTool("work", () => held.opened);
    const { role } = soloist([calls(use("work")), says("never")], { tools: [work] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await until(() => work.calls.length === 1);
    run.requestPause();
    run.requestStop();
    held.open();
    expect(ending(await fixture.outcome(run))).toEqual(["stopped", "stop_requested"]);
  });

  test("ends an iteration with the phase `paused` if it comes between two phases", async () => {
    const work = spyTool("work");
    const { role } = soloist([calls(use("work")), says("done")], { tools: [work] });
    const fixture = newFixture();
    const run = fixture.start(role);
    const phases: string[] = [];
    for await (const { phase } of run.iterate()) {
      phases.push(phase);
      if (phase === "infer") run.requestPause();
    }
    const paused = await fixture.outcome(run);
    expect([phases, work.calls.length]).toEqual([["prepare", "infer", "evaluate", "paused"], 0]);
    const resumed = fixture.resume(role, paused.pausedRun);
    phases.length = 0;
    for await (const { phase } of resumed.iterate()) phases.push(phase);
    expect(phases.slice(0, 4)).toEqual(["evaluate", "execute", "applyToolResults", "decide"]);
    expect([ending(await fixture.outcome(resumed)), work.calls.length]).toEqual([
      ["completed", "completed"],
      1,
    ]);
  });
});
