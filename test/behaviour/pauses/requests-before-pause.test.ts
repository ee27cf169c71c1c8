// Goal: requests that reach a paused agent while others still work take effect before the run
// pauses, without a loop.

import { expect, test } from "vitest";

import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { transform, wrapModelCall, wrapToolCall } from "../../../src/hooks/hook.ts";
import { allOf, hasToolCall, type StopCondition } from "../../../src/policies/stop-conditions.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

test("a paused subagent that is cancelled while its sibling works ends, and the rest pauses as requested", async () => {
  const held = latch();
  const fixture = newFixture();
  const quick = part("quick", [asks("look", {}), says("x")], {
    tools: [spyTool("look", () => "seen", { needsApproval: true })],
  });
  const slow = part("slow", [asks("wait", {}), says("x")], {
    tools: [spyTool("wait", () => held.opened)],
  });
  const lead = part("lead", [calls(spawn("quick"), spawn("slow")), says("end")], {
    subagents: [quick.role, slow.role],
  });
  const run = fixture.start(lead.role);
  await flushEventLoop();
  run.requestPause();
  run.cancelAgent(fixture.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("no child"));
  await flushEventLoop();
  held.open();
  const result = await fixture.outcome(run);
  expect(result.agents.map(({ agentPath, status }) => [agentPath, status])).toEqual([
    ["lead", "paused"],
    ["lead/quick#1", "cancelled"],
    ["lead/slow#1", "paused"],
  ]);
  expect((await fixture.outcome(fixture.resume(lead.role, result.pausedRun))).status).toBe(
    "completed",
  );
});

test("an answered question of a subagent takes effect before a requested pause", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const payer = part("payer", [asks("pay", {}), says("x")], { tools: [pay] });
  const lead = part("lead", [calls(spawn("payer")), says("end")], { subagents: [payer.role] });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  const answers = paused.questions.map((question) => approve(question));
  const run = fixture.resume(lead.role, paused.pausedRun, answers);
  run.requestPause();
  const again = await fixture.outcome(run);
  expect([again.status, again.questions, pay.calls.length]).toEqual(["paused", [], 1]);
});

test("a subtask that fails cancels a paused one", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const payer = part("payer", () => asks("pay", {}), { tools: [pay] });
  const queue = spyTool("queue", (context) => {
    context.queueSubtask({ role: "payer", task: "ask" });
    context.queueSubtask({ role: "payer", task: "boom" });
  });
  const breaks = transform("subagentStart", ({ task }) => {
    if (task === "boom") throw new Error("boom");
  });
  const lead = part("lead", [asks("queue", {}), says("end")], {
    tools: [queue],
    subagents: [payer.role],
    hooks: [breaks],
  });
  const result = await newFixture().run(lead.role);
  expect(result.agents.map(({ status }) => status)).toEqual(["failed", "cancelled"]);
});

test("a message to an agent that ended before the pause is not delivered, with its status", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const helper = part("helper", [says("x")]);
  const lead = part("lead", [calls(spawn("helper")), asks("pay", {}), says("end")], {
    subagents: [helper.role],
    tools: [pay],
  });
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  const [question] = paused.questions;
  const run = fixture.resume(lead.role, paused.pausedRun, [approve(question ?? expect.fail())]);
  const delivery = await run.steer("hello", paused.agents[1]?.agentId);
  expect(delivery).toEqual({ isDelivered: false, reason: "completed" });
  await fixture.outcome(run);
});

test("numbers and keys that would not survive a pause are returned to the model", async () => {
  for (const argumentsText of ['{"x":1e999}', '{"x":{"__proto__":{"a":1}}}']) {
    const pay = spyTool("pay", () => "paid", { needsApproval: true });
    const { role } = soloist([asks("pay", argumentsText), says("done")], { tools: [pay] });
    const result = await newFixture().run(role);
    expect([result.status, result.steps[0]?.tools.executions[0]?.errorCode]).toEqual([
      "completed",
      "invalid_json",
    ]);
  }
});

test("an approval with other arguments is checked again by the hooks that may deny", async () => {
  const write = spyTool("write", () => "written", { needsApproval: true });
  const inside = transform("beforeTool", ({ arguments: input }) =>
    JSON.stringify(input).includes("/etc") ? { deny: "Stay inside." } : undefined,
  );
  const { role } = soloist([asks("write", { path: "a" }), says("done")], {
    tools: [write],
    hooks: [inside],
  });
  const approver = newFixture({
    approver: (question) => approve(question, { arguments: { path: "/etc/passwd" } }),
  });
  const result = await approver.run(role);
  expect([
    result.status,
    write.calls.length,
    result.steps[0]?.tools.executions[0]?.errorCode,
  ]).toEqual(["completed", 0, "blocked"]);
});

for (const [what, hook] of [
  ["model call", wrapModelCall(() => new Promise(() => undefined), { name: "hangs" })],
  ["tool call", wrapToolCall(() => new Promise(() => undefined), { name: "hangs" })],
] as const) {
  test(`a wrap hook of a ${what} that never settles fails its agent after \`hookTimeoutMs\``, async () => {
    const fixture = newFixture({ hookTimeoutMs: 50 });
    const { role } = soloist([asks("work", {}), says("done")], {
      tools: [spyTool("work")],
      hooks: [hook],
    });
    const run = fixture.start(role);
    await flushEventLoop();
    fixture.clock.advance(50);
    const result = await fixture.outcome(run);
    expect([
      result.status,
      result.agents[0]?.errors.map(({ code, data }) => [code, data["hook"]]),
    ]).toEqual(["failed", [["hook_timeout", "hangs"]]]);
  });
}

const atTenSeconds: StopCondition = ({ elapsedMs }) =>
  elapsedMs >= 10_000 && elapsedMs < 11_000
    ? { code: "ten_seconds", message: "Ten seconds.", data: { elapsedMs } }
    : undefined;

proves(
  ["R60", "R34"],
  "conditions that fired before a pause remain fired, and elapsed time excludes the pause",
  async () => {
    const fixture = newFixture();
    const work = spyTool("work", () => fixture.clock.advance(10_000));
    const pay = spyTool("pay", () => fixture.clock.advance(2_000), { needsApproval: true });
    const { role } = soloist([asks("work", {}), asks("pay", {}), says("never")], {
      tools: [work, pay],
      stopWhen: [allOf(atTenSeconds, hasToolCall("pay"))],
    });
    const paused = await fixture.run(role);
    fixture.clock.advance(60_000);
    const [question] = paused.questions;
    const run = fixture.resume(role, paused.pausedRun, [approve(question ?? expect.fail())]);
    const result = await fixture.outcome(run);
    expect([result.reason.code, result.reason.data, result.steps.length]).toEqual([
      "ten_seconds",
      { elapsedMs: 10_000 },
      2,
    ]);
  },
);

test("a hook that throws for an approval with other arguments fails the execution without the call", async () => {
  const write = spyTool("write", () => "written", { needsApproval: true });
  const picky = transform(
    "beforeTool",
    ({ arguments: input }) => {
      if (JSON.stringify(input).includes("/etc")) throw new Error("What is this?");
    },
    { name: "picky" },
  );
  const { role } = soloist([asks("write", { path: "a" }), says("never")], {
    tools: [write],
    hooks: [picky],
  });
  const approver = newFixture({
    approver: (question) => approve(question, { arguments: { path: "/etc/passwd" } }),
  });
  const { status, agents } = await approver.run(role);
  expect([
    status,
    write.calls.length,
    agents[0]?.errors.map(({ code, data }) => [code, data["hook"]]),
  ]).toEqual(["failed", 0, [["hook_failed", "picky"]]]);
});
