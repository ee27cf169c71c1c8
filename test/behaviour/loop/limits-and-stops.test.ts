// Goal: an execution ends where its limits say, with the right pair of status and reason, and never
// a step later.
// Method: one script per ending; exact boundaries on both sides; time advanced by hand.

import { expect } from "vitest";

import { hasToolCall, type StopCondition } from "../../../src/policies/stop-conditions.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

const FOREVER: readonly ScriptedReply[] = Array.from({ length: 9 }, () => asks("work", {}));

function ending(result: RunResult): readonly string[] {
  return [result.status, result.reason.code];
}

proves(["R35"], "every way of ending has its own pair of status and reason", async () => {
  const work = spyTool("work");
  const tools = [work];
  const completed = await newFixture().run(soloist([says("done")]).role);
  const steps = await newFixture().run(soloist(FOREVER, { tools }).role, { budget: { steps: 1 } });
  const tokens = await newFixture().run(soloist(FOREVER, { tools }).role, {
    budget: { totalTokens: 15 },
  });
  const failure = new ModelError({ code: "model_unauthorized", message: "No." });
  const failed = await newFixture().run(soloist([{ error: failure }]).role);

  const fixture = newFixture();
  const held = latch();
  const timed = fixture.start(soloist([says("late", { after: held.opened })]).role, "Do it.", {
    budget: { timeMs: 10 },
  });
  await flushEventLoop();
  fixture.clock.advance(10);
  const time = await fixture.outcome(timed);

  const cancelling = newFixture();
  const run = cancelling.start(soloist([says("late", { after: held.opened })]).role);
  await flushEventLoop();
  await run.cancel();
  const cancelled = await cancelling.outcome(run);

  expect([completed, steps, tokens, time, failed, cancelled].map(ending)).toEqual([
    ["completed", "completed"],
    ["stopped", "step_limit"],
    ["stopped", "token_limit"],
    ["stopped", "time_limit"],
    ["failed", "error"],
    ["cancelled", "cancelled"],
  ]);
});

proves(["R5"], "a limit of zero or an earlier stop request prevents the first call", async () => {
  const none = soloist([says("never")]);
  const zero = await newFixture().run(none.role, { budget: { steps: 0 } });
  expect([ending(zero), zero.steps.length, none.model.requests.length]).toEqual([
    ["stopped", "step_limit"],
    0,
    0,
  ]);

  const broke = soloist([says("never")]);
  const exhausted = await newFixture().run(broke.role, { budget: { totalTokens: 0 } });
  expect([ending(exhausted), broke.model.requests.length]).toEqual([["stopped", "token_limit"], 0]);

  const stopped = soloist([says("never")]);
  const fixture = newFixture();
  const run = fixture.start(stopped.role);
  run.requestStop("Not now.");
  const result = await fixture.outcome(run);
  expect([ending(result), result.reason.message, stopped.model.requests.length]).toEqual([
    ["stopped", "stop_requested"],
    "Not now.",
    0,
  ]);
});

proves(
  ["R8", "R52", "R51"],
  "a limit of two steps allows two inferences, and an answer in the last one completes the run",
  async () => {
    const work = spyTool("work");
    const answered = soloist([asks("work", {}), says("done")], { tools: [work] });
    expect(ending(await newFixture().run(answered.role, { budget: { steps: 2 } }))).toEqual([
      "completed",
      "completed",
    ]);

    const endless = soloist(FOREVER, { tools: [work] });
    const result = await newFixture().run(endless.role, { budget: { steps: 2 } });
    expect([result.reason, endless.model.requests.length]).toEqual([
      {
        code: "step_limit",
        message: "The steps budget of solo allows 2; 2 are spent and 1 more was requested.",
        data: { axis: "steps", accountPath: "solo", maximum: 2, current: 2, requested: 1 },
      },
      2,
    ]);
  },
);

proves(["R53"], "the reason of an exhausted limit states that no budget is left", async () => {
  const { role } = soloist(FOREVER, { tools: [spyTool("work")] });
  const { reason } = await newFixture().run(role, { budget: { totalTokens: 15 } });
  expect(reason.message).toBe(
    "The totalTokens budget of solo allows 15; 15 are spent; nothing is left for the next call.",
  );
});

for (const [axis, perReply] of [
  ["inputTokens", 10],
  ["outputTokens", 5],
  ["totalTokens", 15],
] as const) {
  proves(
    ["R53"],
    `a run that reaches its ${axis} limit with pending work stops, and one below it continues`,
    async () => {
      const work = spyTool("work");
      const exact = soloist([asks("work", {})], { tools: [work] });
      const reached = await newFixture().run(exact.role, { budget: { [axis]: perReply } });
      expect([ending(reached), work.calls.length]).toEqual([["stopped", "token_limit"], 0]);

      const below = soloist(
        [asks("work", {}, { usage: { inputTokens: 9, outputTokens: 4 } }), says("done")],
        { tools: [work] },
      );
      await newFixture().run(below.role, { budget: { [axis]: perReply } });
      expect(work.calls).toHaveLength(1);
    },
  );
}

proves(
  ["R19", "R20"],
  "a reply over the limit is charged in full, its tools do not run, and no request follows",
  async () => {
    const work = spyTool("work");
    const usage = { inputTokens: 10, outputTokens: 500 };
    const { role, model } = soloist([asks("work", {}, { usage })], { tools: [work] });
    const result = await newFixture().run(role, { budget: { totalTokens: 100 } });
    expect([ending(result), work.calls.length, model.requests.length]).toEqual([
      ["stopped", "token_limit"],
      0,
      1,
    ]);
    expect(result.usage.total.totalTokens).toBe(510);
    expect(result.steps[0]?.tools.executions.map(({ type }) => type)).toEqual(["not_executed"]);
  },
);

proves(["R20"], "a request that would exceed a limit is not sent", async () => {
  const { role, model } = soloist([says("never")], {}, { countTokens: () => 101 });
  const result = await newFixture().run(role, { budget: { inputTokens: 100 } });
  expect([
    result.reason.data["requested"],
    model.requests.length,
    result.usage.total.totalTokens,
  ]).toEqual([101, 0, 0]);
});

proves(["R21"], "a stop requested while tools run prevents all further work", async () => {
  const fixture = newFixture();
  const { role, model } = soloist(FOREVER, { tools: [spyTool("work", () => run.requestStop())] });
  const run = fixture.start(role);
  const result = await fixture.outcome(run);
  expect([ending(result), model.requests.length, result.steps.length]).toEqual([
    ["stopped", "stop_requested"],
    1,
    1,
  ]);
});

proves(["R21"], "a stop requested with the reply prevents its tools", async () => {
  const fixture = newFixture();
  const work = spyTool("work");
  const { role } = soloist([() => (run.requestStop(), asks("work", {}))], { tools: [work] });
  const run = fixture.start(role);
  expect([ending(await fixture.outcome(run)), work.calls.length]).toEqual([
    ["stopped", "stop_requested"],
    0,
  ]);
});

const LATE: StopCondition = () => ({ code: "found_enough", message: "Found.", data: { found: 3 } });
const BROKEN: StopCondition = () => {
  throw new Error("bug");
};

proves(
  ["R22", "R23"],
  "the highest of several signals wins in any order, and all are recorded in order of arrival",
  async () => {
    for (const stopWhen of [
      [LATE, BROKEN],
      [BROKEN, LATE],
    ]) {
      const fixture = newFixture();
      const result = await fixture.run(soloist([says("done")], { stopWhen }).role);
      const [evaluated] = fixture.sink.ofType("continuation.evaluated");
      const raised = stopWhen.map((condition) => (condition === LATE ? "found_enough" : "error"));
      expect([
        result.reason.code,
        evaluated?.reason?.code,
        fixture.sink.ofType("agent.ended")[0]?.reason.code,
      ]).toEqual(["error", "error", "error"]);
      expect(evaluated?.signals.map(({ reason, source }) => [reason.code, source])).toEqual(
        raised.map((code) => [code, code === "error" ? "loop" : "stop_condition"]),
      );
    }
  },
);

proves(["R22"], "a higher signal outranks one of an earlier phase", async () => {
  const fixture = newFixture();
  const stopWhen: readonly StopCondition[] = [
    ({ steps }) => {
      if (steps.length === 0) return undefined;
      run.requestStop();
      return { code: "found_enough", message: "Found.", data: {} };
    },
  ];
  const run = fixture.start(
    soloist([asks("work", {}, { usage: { outputTokens: 99 } })], {
      tools: [spyTool("work")],
      stopWhen,
    }).role,
    "Do it.",
    {
      budget: { totalTokens: 50 },
    },
  );
  const result = await fixture.outcome(run);
  expect(result.reason.code).toBe("stop_requested");
  const raised = fixture.sink.ofType("signal.raised").map((event) => event.signal.reason.code);
  expect(raised).toEqual(["token_limit", "found_enough", "stop_requested"]);
});

proves(["R48"], "a condition stops the run with the reason that it returns", async () => {
  const result = await newFixture().run(
    soloist([asks("work", {})], { tools: [spyTool("work")], stopWhen: [LATE] }).role,
  );
  expect([result.status, result.reason]).toEqual([
    "stopped",
    { code: "found_enough", message: "Found.", data: { found: 3 } },
  ]);
});

proves(["R54"], "`hasToolCall` checks the last step only, after its result is stored", async () => {
  const tools = [spyTool("work"), spyTool("finish")];
  const stopWhen = [hasToolCall("finish")];
  const { role } = soloist([asks("work", {}), asks("finish", {})], { tools, stopWhen });
  const result = await newFixture().run(role);
  expect([ending(result), result.steps.length]).toEqual([["stopped", "tool_called"], 2]);
  expect(result.steps[1]?.tools.executions.map(({ text }) => text)).toEqual(["finish done"]);
  const steps = result.steps.toReversed();
  const facts = { steps, usage: result.usage.own, elapsedMs: 0, context: undefined };
  expect(hasToolCall("finish")(facts)).toBeUndefined();
});

proves(
  ["R56"],
  "a time limit that passes while a tool runs aborts the tool, and no request follows",
  async () => {
    const fixture = newFixture();
    let reason: unknown;
    const work = spyTool("work", ({ signal }) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => {
        reason = signal.reason;
        resolve();
      });
      return promise;
    });
    const { role, model } = soloist([asks("work", {}), says("never")], { tools: [work] });
    const run = fixture.start(role, "Do it.", { budget: { timeMs: 1_000 } });
    await flushEventLoop();
    fixture.clock.advance(999);
    await flushEventLoop();
    expect(reason).toBeUndefined();
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    expect([ending(result), model.requests.length]).toEqual([["stopped", "time_limit"], 1]);
    expect(reason).toEqual({
      type: "deadline",
      message: "The time limit of solo allows 1000 ms; that time is over.",
      deadlineAtMs: 1_000,
      maximumMs: 1_000,
      agentId: "agent_1",
      agentPath: "solo",
    });
  },
);

proves(
  ["R58", "D738"],
  "an absolute deadline applies in addition to a longer time limit",
  async () => {
    const fixture = newFixture();
    const { role, model } = soloist(
      [() => (fixture.clock.advance(50), asks("work", {})), says("never")],
      { tools: [spyTool("work")] },
    );
    const run = fixture.start(role, "Do it.", { budget: { timeMs: 1_000 }, deadlineAtMs: 50 });
    const result = await fixture.outcome(run);
    expect([ending(result), model.requests.length]).toEqual([["stopped", "time_limit"], 1]);
    expect(result.reason).toEqual({
      code: "time_limit",
      message: "The time limit of solo allows 50 ms; that time is over.",
      data: {
        axis: "timeMs",
        accountPath: "solo",
        maximum: 50,
        current: 50,
        deadlineAtMs: 50,
        agentId: "agent_1",
      },
    });
  },
);
