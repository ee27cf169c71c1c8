// Goal: wrapped tools in real runs: the messages to the model, counts and pauses, without any late
// results.
// Method: runs on a manual clock; tools that fail, hang and return late marked results, which are
// searched for everywhere.

import { expect, test } from "vitest";

import type { Question } from "../../../src/protocol/question.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { ToolError, ToolRetryError } from "../../../src/tools/tool-error.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, asked, ending, questionOf } from "../../support/pause-stories.ts";
import { calls, quiet, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { mentions, outcomes, pass } from "../../support/call-outcomes.ts";

proves(
  ["R116"],
  "pauses for a wrapped tool but not for an unwrapped one, and executes it once after approval",
  async () => {
    const twin = spyTool("deploy");
    const plain = soloist([calls(use("deploy")), says("ok")], { tools: [twin] });
    const done = await newFixture().run(plain.role);
    expect([ending(done), twin.calls.length]).toEqual([["completed", "completed"], 1]);

    const tool = spyTool("deploy");
    const tools = [withApproval(tool, { reason: "Production." }), spyTool("look")];
    const first = soloist([calls(use("deploy"), use("look"))], { tools });
    const fixture = newFixture();
    const paused = await fixture.run(first.role);
    expect([ending(paused), tool.calls.length, asked(paused)]).toEqual([
      ["paused", "input_required"],
      0,
      [["solo", "deploy"]],
    ]);
    expect(questionOf(paused).reason).toBe("Production.");
    const second = soloist([says("ok")], { tools });
    const result = await fixture.outcome(
      fixture.resume(second.role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), tool.calls.length, receivedTexts(second.model.requests[0])]).toEqual([
      ["completed", "completed"],
      1,
      ["deploy done", "look done"],
    ]);
  },
);

proves(
  ["R116"],
  "combines wrapper, approval check and guard in one question, and asks none if a guard denies",
  async () => {
    const questions: Question[] = [];
    const approver = (question: Question) => {
      questions.push(question);
      return approve(question);
    };
    const tool = spyTool("deploy", () => "done", { needsApproval: () => "It is Friday." });
    const wrapped = withApproval(tool, { reason: "Production." });
    const guard = toolGuard(() => ({ type: "ask", reason: "It is late." }), { name: "late" });
    const { role } = soloist([calls(use("deploy")), says("ok")], {
      tools: [wrapped],
      guards: [guard],
    });
    await newFixture({ approver }).run(role);
    expect(questions.map(({ reason }) => reason)).toEqual([
      "It is late. It is Friday. Production.",
    ]);
    const denies = toolGuard(() => ({ type: "deny", reason: "Never." }));
    const other = soloist([calls(use("deploy")), says("ok")], {
      tools: [wrapped],
      guards: [guard, denies],
    });
    const result = await newFixture({ approver }).run(other.role);
    expect([questions.length, outcomes(result).map(([, type, code]) => [type, code])]).toEqual([
      1,
      [["refused", "blocked"]],
    ]);
  },
);

test("excludes the wait for an approval from a time limit, inside and outside of it", async () => {
  for (const wrap of [
    (tool: ReturnType<typeof spyTool>) => withTimeout(withApproval(tool), { timeoutMs: 100 }),
    (tool: ReturnType<typeof spyTool>) => withApproval(withTimeout(tool, { timeoutMs: 100 })),
  ]) {
    const held = latch();
    const fixture = newFixture({
      approver: async (question) => {
        await held.opened;
        return approve(question);
      },
    });
    const { role } = soloist([calls(use("deploy")), says("ok")], {
      tools: [wrap(spyTool("deploy"))],
    });
    const run = fixture.start(role);
    await pass(fixture, 5_000);
    held.open();
    const result = await fixture.outcome(run);
    expect(outcomes(result).map(([, type]) => type)).toEqual(["succeeded"]);
  }
});

/** Returns a tool that ignores its signal and returns a marked result when the latch opens. */
function lateTool(name = "slow") {
  const held = latch();
  const tool = spyTool(name, async ({ reportProgress, queueSubtask }) => {
    await held.opened;
    reportProgress({ message: "LATE progress" });
    queueSubtask({ role: "solo", task: "LATE task" });
    return "LATE result";
  });
  return { tool, held };
}

proves(
  ["R118"],
  "times out a tool that ignores its signal at the limit, and drops its late result",
  async () => {
    const { tool, held } = lateTool();
    const { role, model } = soloist([calls(use("slow")), says("go on"), says("unused")], {
      tools: [withTimeout(tool, { timeoutMs: 30_000 })],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await pass(fixture, 29_999);
    expect(fixture.sink.ofType("tool.ended")).toEqual([]);
    await pass(fixture, 1);
    expect(tool.calls[0]?.signal.aborted).toBe(true);
    held.open();
    const result = await fixture.outcome(run);
    await quiet();
    expect(
      fixture.sink.ofType("tool.ended").map(({ error, durationMs }) => [error?.code, durationMs]),
    ).toEqual([["tool_timeout", 30_000]]);
    expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual([
      ["failed", "tool_timeout"],
    ]);
    expect(receivedTexts(model.requests[1])[0]).toMatch(/slow.*30 s/s);
    expect(mentions([result, fixture.sink.events, model.requests], "LATE")).toBe(false);
    expect(ending(result)).toEqual(["completed", "completed"]);
  },
);

test("drops a rejection after the timeout of a tool", async () => {
  const soon = { timeoutMs: 10 };
  const wrappings: readonly ((tool: FunctionTool) => FunctionTool)[] = [
    (tool) => withTimeout(tool, soon),
    (tool) => withRetries(withTimeout(tool, soon), { maxAttempts: 2, initialDelayMs: 0 }),
    (tool) => withTimeout(withRetries(tool), soon),
  ];
  for (const wrap of wrappings) {
    const held = latch();
    const tool = spyTool("slow", async () => {
      await held.opened;
      throw new Error("LATE error");
    });
    const fixture = newFixture();
    const { role } = soloist([calls(use("slow")), says("ok")], { tools: [wrap(tool)] });
    const run = fixture.start(role);
    for (let round = 0; round < 5; round += 1) await pass(fixture, 10);
    const result = await fixture.outcome(run);
    expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual([
      ["failed", "tool_timeout"],
    ]);
    held.open();
    await quiet();
    expect(mentions([result, fixture.sink.events], "LATE")).toBe(false);
  }
});

test("drops the result of a cancelled tool after the grace period", async () => {
  const { tool, held } = lateTool();
  const { role, model } = soloist([calls(use("slow"))], {
    tools: [withRetries(withTimeout(tool, { timeoutMs: 60_000 }))],
  });
  const fixture = newFixture({ graceMs: 100 });
  const run = fixture.start(role);
  await quiet();
  void run.cancel();
  await pass(fixture, 100);
  const result = await fixture.outcome(run);
  held.open();
  await quiet();
  expect([ending(result), outcomes(result).map(([, type]) => type)]).toEqual([
    ["cancelled", "cancelled"],
    ["cancelled"],
  ]);
  expect(mentions([result, fixture.sink.events, model.requests], "LATE")).toBe(false);
  expect(tool.calls).toHaveLength(1);
});

proves(
  ["R119"],
  "returns the success after two failed attempts to the model, without counting errors",
  async () => {
    let tries = 0;
    const tool = spyTool("fetch", ({ retryCount }) => {
      tries += 1;
      if (tries < 3) throw new Error("flaky");
      return `got it at ${tries}, corrected ${retryCount} times`;
    });
    const { role, model } = soloist([calls(use("fetch")), says("ok")], {
      tools: [withRetries(tool, { maxAttempts: 3, initialDelayMs: 100 })],
      errorBudget: { maxToolErrors: 0, maxConsecutiveErrors: 0, maxRetryErrors: 0 },
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await pass(fixture, 100);
    await pass(fixture, 200);
    const result = await fixture.outcome(run);
    expect(outcomes(result)).toEqual([
      ["fetch", "succeeded", "", "got it at 3, corrected 0 times"],
    ]);
    expect(receivedTexts(model.requests[1])).toEqual(["got it at 3, corrected 0 times"]);
    expect(
      fixture.sink
        .ofType("tool.retried")
        .map(({ attempt, delayMs, callId, error }) => [attempt, delayMs, callId, error.message]),
    ).toEqual([
      [1, 100, "call_1", "flaky"],
      [2, 200, "call_1", "flaky"],
    ]);
    expect([fixture.sink.ofType("tool.started").length, result.usage.total.toolCalls]).toEqual([
      1, 1,
    ]);
    expect([ending(result), result.agents[0]?.toolErrors]).toEqual([
      ["completed", "completed"],
      [],
    ]);
  },
);

proves(
  ["R119"],
  "ends the delay between two attempts at a cancellation, without a further attempt",
  async () => {
    const tool = spyTool("fetch", () => {
      throw new Error("flaky");
    });
    const { role } = soloist([calls(use("fetch"))], {
      tools: [withRetries(tool, { initialDelayMs: 10_000 })],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    void run.cancel();
    const result = await fixture.outcome(run);
    expect([ending(result), tool.calls.length, fixture.clock.nowMs()]).toEqual([
      ["cancelled", "cancelled"],
      1,
      0,
    ]);
  },
);

test("reports one error to the model when all attempts fail", async () => {
  const tool = spyTool("fetch", () => {
    throw new Error("flaky");
  });
  const { role } = soloist([calls(use("fetch")), says("ok")], {
    tools: [withRetries(tool, { maxAttempts: 3, initialDelayMs: 0 })],
    errorBudget: { maxToolErrors: 1, maxConsecutiveErrors: 1 },
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  for (let round = 0; round < 3; round += 1) await pass(fixture, 0);
  const result = await fixture.outcome(run);
  expect([ending(result), tool.calls.length, outcomes(result)]).toEqual([
    ["completed", "completed"],
    3,
    [["fetch", "failed", "tool_error", "fetch failed: flaky"]],
  ]);
  expect(result.agents[0]?.toolErrors.length).toBe(1);
});

test("does not retry errors for the model or final ones in the wrapper", async () => {
  for (const [error, type] of [
    [new ToolRetryError("Give a city."), "retry"],
    [new ToolError("Gone.", { severity: "fatal" }), "failed"],
    [new ToolError("Fire.", { severity: "abortive" }), "failed"],
  ] as const) {
    const tool = spyTool("fetch", () => {
      throw error;
    });
    const { role } = soloist([calls(use("fetch")), says("ok")], { tools: [withRetries(tool)] });
    const result = await newFixture().run(role);
    expect([tool.calls.length, outcomes(result)[0]?.[1]]).toEqual([1, type]);
  }
});

test("keeps the subtasks of the last attempt, and the progress of all attempts", async () => {
  let tries = 0;
  const tool = spyTool("plan", ({ queueSubtask, reportProgress }) => {
    tries += 1;
    reportProgress({ done: tries });
    queueSubtask({ role: "nobody", task: `try ${tries}` });
    if (tries < 2) throw new Error("flaky");
    return "planned";
  });
  const { role } = soloist([calls(use("plan")), says("ok")], {
    tools: [withRetries(tool, { initialDelayMs: 0 })],
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  await pass(fixture, 0);
  const result = await fixture.outcome(run);
  expect(result.steps[0]?.tools.executions[0]?.subtasks).toEqual([
    { role: "nobody", task: "try 2" },
  ]);
  expect(fixture.sink.ofType("tool.progressed").map(({ done }) => done)).toEqual([1, 2]);
});

const trial = async (isAround: boolean) => {
  let tries = 0;
  const tool = spyTool("fetch", () => {
    tries += 1;
    return tries < 3 ? new Promise(() => undefined) : "third time";
  });
  const again = { maxAttempts: 3, initialDelayMs: 100 };
  const wrapped = isAround
    ? withTimeout(withRetries(tool, again), { timeoutMs: 500 })
    : withRetries(withTimeout(tool, { timeoutMs: 500 }), again);
  const { role } = soloist([calls(use("fetch")), says("ok")], { tools: [wrapped] });
  const fixture = newFixture();
  const run = fixture.start(role);
  for (let round = 0; round < 20; round += 1) await pass(fixture, 100);
  const result = await fixture.outcome(run);
  const [ended] = fixture.sink.ofType("tool.ended");
  return [outcomes(result)[0]?.slice(1, 3), ended?.durationMs, tries];
};

proves(
  ["R120"],
  "applies a timeout around retries to all attempts together, and inside to each attempt",
  async () => {
    expect(await trial(true)).toEqual([["failed", "tool_timeout"], 500, 1]);
    expect(await trial(false)).toEqual([["succeeded", ""], 1_300, 3]);
  },
);

test("applies the tighter of the tool's own timeout and its wrapper's", async () => {
  for (const [own, wrapper, expected] of [
    [300, 1_000, 300],
    [1_000, 300, 300],
  ] as const) {
    const tool = spyTool("slow", () => new Promise(() => undefined), { timeoutMs: own });
    const { role } = soloist([calls(use("slow")), says("ok")], {
      tools: [withTimeout(tool, { timeoutMs: wrapper })],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    for (let round = 0; round < 11; round += 1) await pass(fixture, 100);
    const result = await fixture.outcome(run);
    expect(fixture.sink.ofType("tool.ended").map(({ durationMs }) => durationMs)).toEqual([
      expected,
    ]);
    expect(outcomes(result)[0]?.[2]).toBe("tool_timeout");
  }
});
