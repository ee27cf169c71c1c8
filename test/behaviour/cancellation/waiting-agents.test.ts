// Goal: an agent can be cancelled wherever it waits: for a lease, for a slot, between attempts or
// for a model.
// Method: one tree for each place, blocked there by latches. A waiting agent ends at once and
// leaves nothing behind.

import { expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  aborted,
  byTask,
  calls,
  chain,
  ends,
  listens,
  part,
  quiet,
  spawn,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

test("an agent cancelled while it waits for a lease leaves the queue, and those behind it move up", async () => {
  const latches = { holder: latch() };
  const usage = { inputTokens: 10, outputTokens: 0 };
  const holder = part("holder", [says("1.", { after: latches.holder.opened, usage })], {
    maxOutputTokens: 40,
  });
  const big = part("big", [], { maxOutputTokens: 60 });
  const small = part("small", [says("3.", { usage })], { maxOutputTokens: 30 });
  const free = { inputTokens: 0, outputTokens: 0 };
  const three = { ...calls(spawn("holder"), spawn("big"), spawn("small")), usage: free };
  const lead = part("lead", [three, says("Done.", { usage: free })], {
    subagents: [holder.role, big.role, small.role],
    maxOutputTokens: 1,
    scripted: { countTokens: () => 0 },
  });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
  await until(() => holder.model.requests.length === 1);
  await quiet();
  expect([big.model.requests.length, small.model.requests.length]).toEqual([0, 0]);
  s.clock.advance(30);
  run.cancelAgent(s.sink.ofType("subagent.spawned")[1]?.childId ?? expect.fail("no child"));
  await until(() => small.model.requests.length === 1);
  latches.holder.open();
  const result = await s.outcome(run);
  expect(
    result.agents.map((agent) => [agent.status, agent.budgetWaitMs, agent.steps.length]),
  ).toEqual([
    ["completed", 0, 2],
    ["completed", 0, 1],
    ["cancelled", 30, 0],
    ["completed", 30, 1],
  ]);
  expect(result.agents[2]?.usage.total.steps).toBe(0);
});

test("a run cancelled while agents wait for leases leaves no lease behind", async () => {
  const helper = part("helper", () => ({ after: latch().opened }), { maxOutputTokens: 60 });
  const lead = part("lead", [calls(spawn("helper"), spawn("helper"), spawn("helper"))], {
    subagents: [helper.role],
    maxOutputTokens: 5,
  });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
  await until(() => helper.model.requests.length === 1);
  void run.cancel();
  const result = await s.outcome(run);
  expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled", "cancelled"]);
  expect(result.accounts.every((account) => account.reserved.totalTokens === 0)).toBe(true);
});

proves(
  ["X19"],
  "an agent cancelled at the moment it gets a slot sends no request, and the next one gets the slot",
  async () => {
    const held = latch();
    const first = part("first", [says("1.", { after: held.opened })]);
    const second = part("second", [says("2.")]);
    const third = part("third", [says("3.")]);
    const lead = part(
      "lead",
      [calls(spawn("first"), spawn("second"), spawn("third")), says("Done.")],
      {
        subagents: [first.role, second.role, third.role],
      },
    );
    const cancelSecond: EventSink = {
      emit: (event) => {
        if (event.type !== "model.replied" || event.agentPath !== "lead/first#1") return;
        // The slot is released right after this, and the call behind it begins a little later.
        queueMicrotask(() =>
          run.cancelAgent(s.sink.ofType("subagent.spawned")[1]?.childId ?? expect.fail()),
        );
      },
    };
    const s = newFixture({ concurrency: { modelCalls: 1 }, sinks: [cancelSecond] });
    const run = s.start(lead.role);
    await until(() => first.model.requests.length === 1);
    await quiet();
    held.open();
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["completed", "completed", "cancelled", "completed"]);
    expect(s.sink.ofType("model.requested").map(({ agentPath }) => agentPath)).toEqual([
      "lead",
      "lead/first#1",
      "lead/third#1",
      "lead",
    ]);
  },
);

test("an agent cancelled in the queue for a slot ends at once although the model before it hangs", async () => {
  const stuck = latch();
  const script = byTask({ A: [says("A.", { after: stuck.opened, ignoresSignal: true })] });
  const helper = part("helper", script);
  const lead = part("lead", [calls(spawn("helper", "A"), spawn("helper", "B")), says("Done.")], {
    subagents: [helper.role],
  });
  const s = newFixture({ concurrency: { modelCalls: 1 } });
  const run = s.start(lead.role);
  await until(() => helper.model.requests.length === 1);
  await quiet();
  run.cancelAgent(s.sink.ofType("subagent.spawned")[1]?.childId ?? expect.fail("no child"));
  await until(() => s.sink.ofType("subagent.ended").length === 1);
  expect(s.sink.ofType("subagent.ended")[0]?.childPath).toBe("lead/helper#2");
  stuck.open();
  const result = await s.outcome(run);
  expect(ends(result)).toEqual(["completed", "completed", "cancelled"]);
  expect(helper.model.requests).toHaveLength(1);
  expect(result.agents[2]?.usage.total).toMatchObject({ modelCalls: 0, totalTokens: 0 });
});

test("a tool that waits for a slot never starts after a cancel", async () => {
  let started = 0;
  const work = tool("work", async ({ signal }) => {
    started += 1;
    await aborted(signal);
  });
  const lead = part("lead", [calls(use("work"), use("work"), use("work"))], { tools: [work] });
  const s = newFixture({ concurrency: { toolCalls: 1 } });
  const run = s.start(lead.role);
  await until(() => started === 1);
  await quiet();
  void run.cancel();
  const result = await s.outcome(run);
  expect(started).toBe(1);
  const types = result.steps[0]?.tools.executions.map((execution) => execution.type);
  expect(types).toEqual(["cancelled", "not_executed", "not_executed"]);
});

test("a run cancelled between two attempts of a model call ends without waiting for the retry delay", async () => {
  const error = new ModelError({ code: "model_overloaded", message: "Busy." });
  const s = newFixture();
  const tree = chain(listens("work"), { error });
  const run = s.start(tree.root.role);
  await until(() => s.sink.ofType("model.retried").length === 1);
  void run.cancel();
  const result = await s.outcome(run);
  expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled"]);
  expect(tree.leaf.model.requests).toHaveLength(1);
  expect(result.agents[2]?.usage.own).toMatchObject({ modelCalls: 1, totalTokens: 0 });
});

test("a run cancelled during a model call ends if the model obeys its signal", async () => {
  const s = newFixture();
  const tree = chain(listens("work"), { after: latch().opened });
  const run = s.start(tree.root.role);
  await until(() => tree.leaf.model.requests.length === 1);
  void run.cancel();
  const result = await s.outcome(run);
  expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled"]);
  expect(s.sink.ofType("model.failed").map((event) => event.error.code)).toEqual(["cancelled"]);
});
