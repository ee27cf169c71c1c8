// Goal: a summary obeys every limit of its agent and of the tree, and delays no run that must end
// or pause.
// Method: budgets without room for it, cancellations and stops while it is in progress, pauses
// around it.

import { expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending, payTool } from "../../support/pause-stories.ts";
import { calls, part, quiet, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { outcomes } from "../../support/call-outcomes.ts";

const LONG = "abcdefghijklmnopqrstuvwxy";
const CUT = "abcdefghij\n[Shortened: 10 of 25 characters are shown. Ask for a smaller part.]";
const SUMMARY = "[Summary of a result of 25 characters]\nletters";

const longTool = (name = "read") =>
  spyTool(name, () => LONG, { maxResultCharacters: 10, longResultPolicy: "summarize" });

proves(
  ["R112"],
  "keeps the truncated result if the budget has no room for a summary, and reports the refusal",
  async () => {
    // The first step takes 15 of 24 tokens: 9 are left, fewer than a summary's 10 input tokens.
    const { role, model } = soloist([calls(use("read"))], { tools: [longTool()] });
    const fixture = newFixture();
    const run = fixture.start(role, "Do it.", { budget: { totalTokens: 24 } });
    const result = await fixture.outcome(run);
    expect([ending(result), model.requests.length]).toEqual([["stopped", "token_limit"], 1]);
    expect(outcomes(result)).toEqual([["read", "succeeded", "", CUT]]);
    expect(
      fixture.sink
        .ofType("budget.refused")
        .map(({ axis, callId, maximum, spent }) => [axis, callId, maximum, spent]),
    ).toEqual([
      ["totalTokens", "call_1", 24, 15],
      ["totalTokens", null, 24, 15],
    ]);
  },
);

proves(
  ["S7.28"],
  "keeps the truncated result if the budget refuses a further attempt of a summary",
  async () => {
    const error = new ModelError({
      code: "model_unavailable",
      message: "Cut.",
      retryAfterMs: 0,
      lostOutputTokens: 20,
    });
    // 15 for the first step, 10 and 20 for the failed attempt: 5 are left, fewer than 10 input
    // tokens.
    const { role, model } = soloist([calls(use("read")), { error }], { tools: [longTool()] });
    const fixture = newFixture({ retryPolicy: { maxAttempts: 5 } });
    const run = fixture.start(role, "Do it.", { budget: { totalTokens: 50 } });
    const result = await fixture.outcome(run);
    expect([ending(result), model.requests.length]).toEqual([["stopped", "token_limit"], 2]);
    expect(outcomes(result)).toEqual([["read", "succeeded", "", CUT]]);
    expect(
      fixture.sink
        .ofType("budget.refused")
        .map(({ axis, accountPath, callId, spent }) => [axis, accountPath, callId, spent]),
    ).toEqual([
      ["totalTokens", "solo", "call_1", 45],
      ["totalTokens", "solo", null, 45],
    ]);
    expect(result.accounts[0]?.reserved.totalTokens).toBe(0);
  },
);

test("does not count summaries against a budget of steps", async () => {
  const { role } = soloist([calls(use("read")), says("letters")], { tools: [longTool()] });
  const fixture = newFixture();
  const run = fixture.start(role, "Do it.", { budget: { steps: 1 } });
  const result = await fixture.outcome(run);
  expect([ending(result), outcomes(result).map(([, , , text]) => text)]).toEqual([
    ["stopped", "step_limit"],
    [SUMMARY],
  ]);
  expect(result.usage.total).toMatchObject({ steps: 1, modelCalls: 2 });
});

test("makes two summaries in sequence if the budget has room for one at a time", async () => {
  // After the first step 65 tokens are left: the first summary may reserve all of them, the second
  // waits until it has ended.
  const { role, model } = soloist(
    [calls(use("a"), use("b")), says("letters"), says("letters"), says("ok")],
    { tools: [longTool("a"), longTool("b")] },
  );
  const fixture = newFixture();
  const run = fixture.start(role, "Do it.", { budget: { totalTokens: 80 } });
  await quiet();
  expect([model.requests.length, fixture.sink.ofType("run.ended").length]).toEqual([4, 1]);
  const result = await fixture.outcome(run);
  expect(outcomes(result).map(([, , , text]) => text)).toEqual([SUMMARY, SUMMARY]);
});

const frugal =
  (first: ScriptedReply) =>
  (request: ModelRequest): ScriptedReply => {
    const usage = { inputTokens: 10, outputTokens: Math.min(5, request.maxOutputTokens) };
    const isFirst = request.tools.length > 0 && request.messages.at(-1)?.role !== "tool";
    return isFirst ? { ...first, usage } : says("letters", { usage });
  };

test("never exceeds the budget of the tree by summaries, nor lets a call wait forever", async () => {
  for (let totalTokens = 15; totalTokens <= 150; totalTokens += 3) {
    const child = part("child", frugal(calls(use("a"), use("b"))), {
      tools: [longTool("a"), longTool("b")],
    });
    const root = part("root", frugal(calls(spawn("child"), spawn("child"))), {
      subagents: [child.role],
    });
    const fixture = newFixture();
    const run = fixture.start(root.role, "Do it.", { budget: { totalTokens } });
    await quiet();
    expect(fixture.sink.ofType("run.ended"), `ended with ${totalTokens}`).toHaveLength(1);
    const result = await fixture.outcome(run);
    expect(result.usage.total.totalTokens, `of ${totalTokens}`).toBeLessThanOrEqual(totalTokens);
    const reserved = fixture.sink.ofType("budget.reserved").length;
    const back =
      fixture.sink.ofType("budget.settled").length + fixture.sink.ofType("budget.released").length;
    expect(back, "every lease comes back once").toBe(reserved);
  }
});

proves(
  ["R112"],
  "ends a cancelled run during a summary at once, with the truncated result and the cost of the call",
  async () => {
    const held = latch();
    const { role, model } = soloist([calls(use("read")), says("LATE", { after: held.opened })], {
      tools: [longTool()],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    expect(model.requests).toHaveLength(2);
    void run.cancel("Enough.");
    const result = await fixture.outcome(run);
    held.open();
    await quiet();
    expect([ending(result), outcomes(result)]).toEqual([
      ["cancelled", "cancelled"],
      [["read", "succeeded", "", CUT]],
    ]);
    expect([result.usage.total.modelCalls, result.usage.total.estimatedCalls]).toEqual([2, 1]);
    expect(JSON.stringify([result, fixture.sink.events])).not.toContain("LATE");
  },
);

test("abandons a summary of a model that ignores the signal", async () => {
  const held = latch();
  const { role } = soloist(
    [calls(use("read")), says("LATE", { after: held.opened, ignoresSignal: true })],
    { tools: [longTool()] },
  );
  const fixture = newFixture();
  const run = fixture.start(role);
  await quiet();
  void run.cancel();
  await quiet();
  fixture.clock.advance(60_000);
  const result = await fixture.outcome(run);
  held.open();
  await quiet();
  expect(outcomes(result)).toEqual([["read", "succeeded", "", CUT]]);
  expect(JSON.stringify([result, fixture.sink.events])).not.toContain("LATE");
});

test("completes a summary during a stop, and omits later summaries", async () => {
  const held = latch();
  const { role } = soloist([calls(use("read")), says("letters", { after: held.opened })], {
    tools: [longTool()],
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  await quiet();
  run.requestStop();
  await quiet();
  held.open();
  const result = await fixture.outcome(run);
  expect([ending(result), outcomes(result)]).toEqual([
    ["stopped", "stop_requested"],
    [["read", "succeeded", "", SUMMARY]],
  ]);

  const working = latch();
  const slow = spyTool(
    "read",
    async () => {
      await working.opened;
      return LONG;
    },
    { maxResultCharacters: 10, longResultPolicy: "summarize" },
  );
  const other = soloist([calls(use("read"))], { tools: [slow] });
  const again = newFixture();
  const stopping = again.start(other.role);
  await quiet();
  stopping.requestStop();
  working.open();
  const stopped = await again.outcome(stopping);
  expect([ending(stopped), outcomes(stopped), other.model.requests.length]).toEqual([
    ["stopped", "stop_requested"],
    [["read", "succeeded", "", CUT]],
    1,
  ]);
});

test("summarises a long result beside a question once, before the pause", async () => {
  const pay = payTool();
  const tools = [longTool(), pay];
  const first = soloist(
    [calls(use("read"), { toolName: "pay", arguments: { amount: 3 } }), says("letters")],
    { tools },
  );
  const fixture = newFixture();
  const paused = await fixture.run(first.role);
  expect([ending(paused), first.model.requests.length, paused.usage.total.modelCalls]).toEqual([
    ["paused", "input_required"],
    2,
    2,
  ]);
  const second = soloist([says("ok")], { tools });
  const result = await fixture.outcome(
    fixture.resume(second.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), receivedTexts(second.model.requests[0])]).toEqual([
    ["completed", "completed"],
    [SUMMARY, "paid 3"],
  ]);
  expect([result.usage.total.modelCalls, pay.paid]).toEqual([3, [3]]);
  expect(fixture.sink.ofType("result.summarized")).toHaveLength(1);
});

test("summarises the long result of an approved call after the pause", async () => {
  const tool = spyTool("read", () => LONG, {
    maxResultCharacters: 10,
    longResultPolicy: "summarize",
    needsApproval: true,
  });
  const first = soloist([calls(use("read"))], { tools: [tool] });
  const fixture = newFixture();
  const paused = await fixture.run(first.role);
  const second = soloist([says("letters"), says("ok")], { tools: [tool] });
  const result = await fixture.outcome(
    fixture.resume(second.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), receivedTexts(second.model.requests[1])]).toEqual([
    ["completed", "completed"],
    [SUMMARY],
  ]);
  expect([result.usage.total.steps, result.usage.total.modelCalls]).toEqual([2, 3]);
});

test("pauses after a summary in progress", async () => {
  const held = latch();
  const tools = [longTool()];
  const first = soloist([calls(use("read")), says("letters", { after: held.opened })], { tools });
  const fixture = newFixture();
  const run = fixture.start(first.role);
  await quiet();
  run.requestPause();
  await quiet();
  held.open();
  const paused = await fixture.outcome(run);
  expect([ending(paused), outcomes(paused)]).toEqual([
    ["paused", "pause_requested"],
    [["read", "succeeded", "", SUMMARY]],
  ]);
  const second = soloist([says("ok")], { tools });
  const result = await fixture.outcome(fixture.resume(second.role, paused.pausedRun));
  expect([
    ending(result),
    receivedTexts(second.model.requests[0]),
    result.usage.total.modelCalls,
  ]).toEqual([["completed", "completed"], [SUMMARY], 3]);
});
