// Goal: a rate limit counts over the whole tree of a run, and over no other run.
// Method: parents, children and siblings that call one limited tool on a manual clock; the start
// times of the tool.

import { expect, test } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import {
  rateLimit,
  withRateLimit,
  type RateLimitOptions,
} from "../../../src/tools/wrappers/rate-limit.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending } from "../../support/pause-stories.ts";
import { calls, part, quiet, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { outcomes, pass } from "../../support/call-outcomes.ts";

/** Returns a tool that records its callers and start times. */
function noting(fixture: Fixture, limit: RateLimitOptions | ReturnType<typeof rateLimit>) {
  const starts: (readonly [string, number])[] = [];
  const tool: FunctionTool = spyTool("send", ({ agentPath }) => {
    starts.push([agentPath, fixture.clock.nowMs()]);
    return "sent";
  });
  return { starts, tool: withRateLimit(tool, limit) };
}

const send = use("send");

proves(
  ["R117"],
  "delays or refuses the third of three parallel calls at two per second, as configured",
  async () => {
    const waiting = newFixture();
    const slow = noting(waiting, { maxCalls: 2, windowMs: 1_000 });
    const { role } = soloist([calls(send, send, send), says("ok")], { tools: [slow.tool] });
    const run = waiting.start(role);
    await pass(waiting, 999);
    expect(slow.starts.map(([, atMs]) => atMs)).toEqual([0, 0]);
    await pass(waiting, 1);
    const result = await waiting.outcome(run);
    expect(slow.starts.map(([, atMs]) => atMs)).toEqual([0, 0, 1_000]);
    expect(outcomes(result).map(([, type]) => type)).toEqual([
      "succeeded",
      "succeeded",
      "succeeded",
    ]);

    const refusing = newFixture();
    const strict = noting(refusing, { maxCalls: 2, windowMs: 1_000, exceededPolicy: "refuse" });
    const other = soloist([calls(send, send, send), says("ok")], { tools: [strict.tool] });
    const refused = await refusing.run(other.role);
    expect(strict.starts.map(([, atMs]) => atMs)).toEqual([0, 0]);
    expect(outcomes(refused).map(([, type]) => type)).toEqual(["succeeded", "succeeded", "failed"]);
    expect(receivedTexts(other.model.requests[1])[2]).toMatch(
      /the rate limit of send, 2 times within 1 s, is used up/,
    );
  },
);

proves(["R117"], "shares one window among a parent and its descendants", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, { maxCalls: 2, windowMs: 1_000 });
  const leaf = part("leaf", [calls(send), says("ok")], { tools: [tool] });
  const child = part("child", [calls(send, spawn("leaf")), says("ok")], {
    tools: [tool],
    subagents: [leaf.role],
  });
  const root = part("root", [calls(send, spawn("child")), says("ok")], {
    tools: [tool],
    subagents: [child.role],
  });
  const run = fixture.start(root.role);
  await quiet();
  expect(starts).toEqual([
    ["root", 0],
    ["root/child#1", 0],
  ]);
  await pass(fixture, 1_000);
  const result = await fixture.outcome(run);
  expect([ending(result), starts]).toEqual([
    ["completed", "completed"],
    [
      ["root", 0],
      ["root/child#1", 0],
      ["root/child#1/leaf#1", 1_000],
    ],
  ]);
});

proves(["R117"], "shares one window among siblings, in the order of their calls", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, { maxCalls: 1, windowMs: 1_000 });
  const child = part(
    "child",
    (request) => (request.messages.some(({ role }) => role === "tool") ? says("ok") : calls(send)),
    { tools: [tool] },
  );
  const root = part("root", [calls(spawn("child"), spawn("child"), spawn("child")), says("ok")], {
    subagents: [child.role],
  });
  const run = fixture.start(root.role);
  for (let round = 0; round < 3; round += 1) await pass(fixture, 1_000);
  await fixture.outcome(run);
  expect(starts).toEqual([
    ["root/child#1", 0],
    ["root/child#2", 1_000],
    ["root/child#3", 2_000],
  ]);
});

proves(["R117"], "shares no window between two runs that use the same tool", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, {
    maxCalls: 1,
    windowMs: 1_000,
    exceededPolicy: "refuse",
  });
  const first = soloist([calls(send), says("ok")], { tools: [tool] });
  const second = soloist([calls(send), says("ok")], { tools: [tool] });
  const runs = [fixture.start(first.role), fixture.start(second.role)];
  for (const run of runs) await fixture.outcome(run);
  expect(starts).toEqual([
    ["solo", 0],
    ["solo", 0],
  ]);
});

test("counts two tools of two roles together that share a limit", async () => {
  const fixture = newFixture();
  const limit = rateLimit({ maxCalls: 1, windowMs: 1_000, exceededPolicy: "refuse" });
  const read = withRateLimit(spyTool("read"), limit);
  const write = withRateLimit(spyTool("write"), limit);
  const child = part("child", [calls(use("write")), says("ok")], { tools: [write] });
  const root = part("root", [calls(use("read"), spawn("child")), says("ok")], {
    tools: [read],
    subagents: [child.role],
  });
  const result = await fixture.run(root.role);
  expect(result.agents.map(({ toolErrors }) => toolErrors.map(({ code }) => code))).toEqual([
    [],
    ["tool_error"],
  ]);
});

test("removes a cancelled call from the queue, and moves the later ones up", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, { maxCalls: 1, windowMs: 1_000 });
  const child = part(
    "child",
    (request) => (request.messages.some(({ role }) => role === "tool") ? says("ok") : calls(send)),
    { tools: [tool] },
  );
  const root = part("root", [calls(spawn("child"), spawn("child"), spawn("child")), says("ok")], {
    subagents: [child.role],
  });
  const run = fixture.start(root.role);
  await quiet();
  const second = fixture.sink
    .ofType("agent.started")
    .find(({ agentPath }) => agentPath === "root/child#2");
  run.cancelAgent(second?.agentId ?? expect.fail("no second child"));
  await pass(fixture, 1_000);
  const result = await fixture.outcome(run);
  expect([starts, result.agents.map(({ status }) => status)]).toEqual([
    [
      ["root/child#1", 0],
      ["root/child#3", 1_000],
    ],
    ["completed", "completed", "cancelled", "completed"],
  ]);
});

test("ends a cancelled run with waiting calls at once, without timers", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, { maxCalls: 1, windowMs: 1_000 });
  const { role } = soloist([calls(send, send, send)], { tools: [tool] });
  const run = fixture.start(role);
  await quiet();
  void run.cancel();
  const result = await fixture.outcome(run);
  expect([ending(result), starts.length, fixture.clock.nowMs()]).toEqual([
    ["cancelled", "cancelled"],
    1,
    0,
  ]);
  // The first call had its result before the cancellation.
  expect(outcomes(result).map(([, type]) => type)).toEqual(["succeeded", "cancelled", "cancelled"]);
});

test("ends the wait of calls at a stop, and starts none", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, { maxCalls: 1, windowMs: 1_000 });
  const { role } = soloist([calls(send, send)], { tools: [tool] });
  const run = fixture.start(role);
  await quiet();
  run.requestStop();
  const result = await fixture.outcome(run);
  expect([ending(result), starts.map(([, atMs]) => atMs), fixture.clock.nowMs()]).toEqual([
    ["stopped", "stop_requested"],
    [0],
    0,
  ]);
});

test("ends the wait at the time limit of the agent, or of the call", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, { maxCalls: 1, windowMs: 10_000 });
  const { role } = soloist([calls(send, send)], { tools: [tool], budget: { timeMs: 500 } });
  const run = fixture.start(role);
  await pass(fixture, 500);
  const result = await fixture.outcome(run);
  expect([ending(result), starts.length]).toEqual([["stopped", "time_limit"], 1]);

  const other = newFixture();
  const limited = noting(other, { maxCalls: 1, windowMs: 10_000 });
  const around = soloist([calls(send, send), says("ok")], {
    tools: [withTimeout(limited.tool, { timeoutMs: 500 })],
  });
  const again = other.start(around.role);
  await pass(other, 500);
  const ended = await other.outcome(again);
  expect([ending(ended), limited.starts.length, outcomes(ended).map(([, , code]) => code)]).toEqual(
    [["completed", "completed"], 1, ["", "tool_timeout"]],
  );
});

test("restarts the count in a resumed run", async () => {
  const fixture = newFixture();
  const { starts, tool } = noting(fixture, {
    maxCalls: 1,
    windowMs: 1_000,
    exceededPolicy: "refuse",
  });
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const tools = [tool, pay];
  const paused = await fixture.run(soloist([calls(send, use("pay"))], { tools }).role);
  const second = soloist([calls(send), says("ok")], { tools });
  await fixture.outcome(fixture.resume(second.role, paused.pausedRun, approveAll(paused)));
  expect(starts.length).toBe(2);
});

test("serves waiting calls of many agents with a tool call limit of 1, without starvation", async () => {
  const clock = new ManualClock();
  const starts: string[] = [];
  const tool = withRateLimit(
    spyTool("send", ({ agentPath }) => void starts.push(agentPath)),
    { maxCalls: 1, windowMs: 100 },
  );
  const child = part(
    "child",
    (request) =>
      request.messages.some(({ role }) => role === "tool") ? says("ok") : calls(send, send),
    { tools: [tool] },
  );
  const root = part("root", [calls(...[1, 2, 3, 4].map(() => spawn("child"))), says("ok")], {
    subagents: [child.role],
  });
  const orchestrator = new Orchestrator({ clock, concurrency: { toolCalls: 1, modelCalls: 4 } });
  const run = orchestrator.start(root.role, "Do it.");
  for (let round = 0; round < 20; round += 1) {
    await quiet();
    clock.advance(100);
  }
  const result = await run.result;
  expect([result.status, starts.length, new Set(starts).size, clock.pendingTimers]).toEqual([
    "completed",
    8,
    4,
    0,
  ]);
});
