// Goal: a failed call is retried where that makes sense, as often and with the delays that are
// configured, and its caller sees one outcome.
// Method: call tools that fail by script, without a run and with a manual clock.

import { getEventListeners } from "node:events";

import { expect, test } from "vitest";

import type { CancelReason } from "../../../src/kernel/cancel-signal.ts";
import { ToolError, ToolRetryError } from "../../../src/tools/tool-error.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { isToolTimeout } from "../../../src/tools/tool-timeout.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { CallFixture, never, toolThat } from "../../support/tool-calls.ts";
import { thrownBy } from "../../support/thrown.ts";

const REASON: CancelReason = { type: "cancelled", message: "Enough.", agentId: "agent_1" };

/**
 * A tool that throws these errors, one per call, and then succeeds; it records when it was called.
 */
function failing(
  fixture: CallFixture,
  ...errors: readonly unknown[]
): { readonly tool: FunctionTool; readonly calledAtMs: readonly number[] } {
  const calledAtMs: number[] = [];
  const tool = toolThat("fetch", () => {
    calledAtMs.push(fixture.clock.nowMs() - 1_000);
    if (calledAtMs.length <= errors.length) throw errors[calledAtMs.length - 1];
    return "fetched";
  });
  return { tool, calledAtMs };
}

function broken(count: number): readonly Error[] {
  return Array.from({ length: count }, (_, index) => new Error(`broken ${index + 1}`));
}

test("returns success after two failed attempts and reports each retry", async () => {
  const fixture = new CallFixture();
  const errors = broken(2);
  const { tool, calledAtMs } = failing(fixture, ...errors);
  const call = fixture.call(withRetries(tool, { maxAttempts: 3 }));
  const steps: unknown[] = [];
  for (const byMs of [0, 499, 1, 999, 1]) {
    fixture.clock.advance(byMs);
    const end = await call.now();
    steps.push([calledAtMs.length, fixture.notes.length, end?.type]);
  }
  expect(steps).toEqual([
    [1, 1, undefined],
    [1, 1, undefined],
    [2, 2, undefined],
    [2, 2, undefined],
    [3, 2, "returned"],
  ]);
  expect([await call.ended, calledAtMs, fixture.notes, fixture.clock.pendingTimers]).toEqual([
    { type: "returned", value: "fetched" },
    [0, 500, 1_500],
    [
      { attempt: 1, error: errors[0], delayMs: 500 },
      { attempt: 2, error: errors[1], delayMs: 1_000 },
    ],
    0,
  ]);
  expect(fixture.notes.map(({ error }, index) => error === errors[index])).toEqual([true, true]);
});

test("throws the last error unchanged after the maximum number of attempts", async () => {
  for (const maxAttempts of [1, 2, 3]) {
    const fixture = new CallFixture();
    const errors = broken(5);
    const { tool, calledAtMs } = failing(fixture, ...errors);
    const end = await fixture.call(withRetries(tool, { maxAttempts, initialDelayMs: 0 })).ended;
    expect([
      end.type === "threw" && end.error === errors[maxAttempts - 1],
      calledAtMs.length,
    ]).toEqual([true, maxAttempts]);
    expect(fixture.notes.length).toBe(maxAttempts - 1);
  }
});

/** Returns the delays of a call that fails at every attempt. */
async function delays(
  maxAttempts: number,
  options: Parameters<typeof withRetries>[1],
): Promise<readonly number[]> {
  const fixture = new CallFixture();
  const { tool } = failing(fixture, ...broken(maxAttempts));
  const call = fixture.call(withRetries(tool, { maxAttempts, ...options }));
  while ((await call.now()) === undefined) fixture.clock.advance(60_000);
  return fixture.notes.map(({ delayMs }) => delayMs);
}

test("doubles the delay up to the maximum, for any number of attempts", async () => {
  expect([
    await delays(9, {}),
    await delays(4, { initialDelayMs: 10, maxDelayMs: 25 }),
    await delays(3, { maxDelayMs: 100 }),
    await delays(3, { maxDelayMs: 0 }),
    new Set(await delays(1_200, { initialDelayMs: 0 })),
    new Set((await delays(1_200, { initialDelayMs: 1e308, maxDelayMs: 1 })).slice(1)),
  ]).toEqual([
    [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000],
    [10, 20, 25],
    [100, 100],
    [0, 0],
    new Set([0]),
    new Set([1]),
  ]);
});

test("does not retry errors that are meant for the model or end the run", async () => {
  const errors = [
    new ToolRetryError("Give a date."),
    new ToolError("Gone.", { severity: "fatal" }),
    new ToolError("Stop.", { severity: "abortive" }),
  ];
  const asked: unknown[] = [];
  const shouldRetry = (error: unknown): boolean => asked.push(error) > 0;
  for (const error of errors) {
    const fixture = new CallFixture();
    const { tool, calledAtMs } = failing(fixture, error);
    const end = await fixture.call(withRetries(tool, { shouldRetry })).ended;
    expect([end.type === "threw" && end.error === error, calledAtMs.length]).toEqual([true, 1]);
    expect(fixture.notes).toEqual([]);
  }
  expect(asked).toEqual([]);
});

test("retries any other thrown value", async () => {
  for (const error of [new ToolError("Busy."), new Error("x"), "text", undefined, null, {}, 0]) {
    const fixture = new CallFixture();
    const { tool } = failing(fixture, error);
    const end = await fixture.call(withRetries(tool, { initialDelayMs: 0 })).ended;
    expect([error, end]).toEqual([error, { type: "returned", value: "fetched" }]);
  }
});

test("retries rejections and returns the value unchanged", async () => {
  const fixture = new CallFixture();
  const value = { rows: [1] };
  let calls = 0;
  const tool = toolThat("fetch", () => {
    calls += 1;
    return calls === 1 ? Promise.reject(new Error("broken")) : Promise.resolve(value);
  });
  const end = await fixture.call(withRetries(tool, { initialDelayMs: 0 })).ended;
  expect(end.type === "returned" && end.value === value).toBe(true);
});

test("consults shouldRetry once for each failure that another attempt could follow", async () => {
  const fixture = new CallFixture();
  const [first, second, third] = broken(3);
  const asked: unknown[] = [];
  const shouldRetry = (error: unknown): boolean => {
    asked.push(error);
    return error !== second;
  };
  const options = { initialDelayMs: 0, maxAttempts: 3, shouldRetry };
  const refused = failing(fixture, first, second, third);
  const end = await fixture.call(withRetries(refused.tool, options)).ended;
  const last = failing(fixture, first, third, third);
  await fixture.call(withRetries(last.tool, options)).ended;
  expect([end, refused.calledAtMs.length, last.calledAtMs.length, asked]).toEqual([
    { type: "threw", error: second },
    2,
    3,
    [first, second, first, third],
  ]);
});

test("warns once and does not retry if shouldRetry throws or returns a non-boolean", async () => {
  const answers: readonly (() => unknown)[] = [
    () => {
      throw new Error("no idea");
    },
    () => undefined,
    () => "yes",
    () => 1,
    () => Promise.resolve(true),
    () => Promise.reject(new Error("late")),
    () => ({
      // oxlint-disable-next-line unicorn/no-thenable -- that is what is tested
      get then(): never {
        throw new Error("worse");
      },
    }),
  ];
  for (const answer of answers) {
    const fixture = new CallFixture();
    const [error] = broken(1);
    const { tool, calledAtMs } = failing(fixture, error, error);
    const options: Parameters<typeof withRetries>[1] = {};
    Object.defineProperty(options, "shouldRetry", { value: answer, enumerable: true });
    const wrapped = withRetries(tool, options);
    const ends = [await fixture.call(wrapped).ended, await fixture.call(wrapped).ended];
    expect([ends, calledAtMs.length, fixture.notes]).toEqual([
      [
        { type: "threw", error },
        { type: "threw", error },
      ],
      2,
      [],
    ]);
  }
  await new Promise((resolve) => setImmediate(resolve));
  expect(takeWarnings()).toEqual(
    [
      "it threw: no idea",
      "it returned undefined",
      'it returned "yes"',
      "it returned 1",
      "it returned a promise",
      "it returned a promise",
      "it returned an object",
    ].map(
      (what) =>
        `EspalierWarning: Expected shouldRetry of withRetries to return true or false, but ${what}. The call is not retried.`,
    ),
  );
});

test("throws the last error at once if the call is cancelled during a delay", async () => {
  const fixture = new CallFixture();
  const [error] = broken(1);
  const { tool, calledAtMs } = failing(fixture, error);
  const call = fixture.call(withRetries(tool));
  expect(await call.now()).toBeUndefined();
  fixture.controller.abort(REASON);
  expect([await call.now(), calledAtMs.length, fixture.clock.pendingTimers]).toEqual([
    { type: "threw", error },
    1,
    0,
  ]);
  expect(getEventListeners(fixture.controller.signal, "abort")).toEqual([]);
});

test("does not retry or report a retry if the call is cancelled during an attempt", async () => {
  const fixture = new CallFixture();
  const work = Promise.withResolvers<string>();
  let calls = 0;
  const tool = toolThat("fetch", () => {
    calls += 1;
    return work.promise;
  });
  const call = fixture.call(withRetries(tool, { initialDelayMs: 0 }));
  fixture.controller.abort(REASON);
  work.reject(new Error("told to end"));
  expect([await call.now(), calls, fixture.notes]).toEqual([
    { type: "threw", error: new Error("told to end") },
    1,
    [],
  ]);
});

test("retries an attempt that timed out", async () => {
  const fixture = new CallFixture();
  let calls = 0;
  const tool = toolThat("fetch", () => {
    calls += 1;
    return calls < 3 ? never() : "fetched";
  });
  const limited = withTimeout(tool, { timeoutMs: 100 });
  const call = fixture.call(withRetries(limited, { shouldRetry: isToolTimeout }));
  for (const byMs of [100, 500, 100, 1_000]) {
    await call.now();
    fixture.clock.advance(byMs);
  }
  expect([await call.now(), fixture.notes.map(({ error }) => isToolTimeout(error))]).toEqual([
    { type: "returned", value: "fetched" },
    [true, true],
  ]);
});

test("queues only the subtasks of the last attempt", async () => {
  const outcomes = [];
  for (const failures of [0, 1, 2, 3]) {
    const fixture = new CallFixture();
    const kept: ToolContext[] = [];
    const tool = toolThat("plan", (context) => {
      kept[0]?.queueSubtask({ role: "helper", task: "Too late." });
      kept[0]?.reportProgress({ message: "Too late." });
      kept.push(context);
      context.queueSubtask({ role: "helper", task: `Try ${kept.length}.` });
      context.reportProgress({ done: kept.length });
      if (kept.length <= failures) throw new Error("broken");
    });
    const { type } = await fixture.call(withRetries(tool, { initialDelayMs: 0 })).ended;
    kept.at(-1)?.queueSubtask({ role: "helper", task: "Too late." });
    outcomes.push([
      type,
      fixture.subtasks.map(({ task }) => task),
      fixture.progress.map(({ done }) => done),
    ]);
  }
  expect(outcomes).toEqual([
    ["returned", ["Try 1."], [1]],
    ["returned", ["Try 2."], [1, 2]],
    ["returned", ["Try 3."], [1, 2, 3]],
    ["threw", ["Try 3."], [1, 2, 3]],
  ]);
});

test("refuses an invalid subtask where it is queued", async () => {
  const fixture = new CallFixture();
  const refused = new TypeError("no subtask");
  const queueSubtask = (): never => {
    throw refused;
  };
  const tool = toolThat("plan", (context) =>
    Reflect.apply(context.queueSubtask, context, [{ role: "helper" }]),
  );
  const wrapped = withRetries(tool, { maxAttempts: 1 });
  expect(await fixture.call(wrapped, { queueSubtask }).ended).toEqual({
    type: "threw",
    error: refused,
  });
});

test("counts attempts for each call, even for two calls of one binding", async () => {
  const fixture = new CallFixture();
  const { tool, calledAtMs } = failing(fixture, ...broken(4));
  const wrapped = withRetries(tool, { maxAttempts: 2, initialDelayMs: 0 });
  const bound = wrapped.bind({});
  if (bound.type === "invalid") expect.unreachable("the arguments fit");
  const run = (): Promise<unknown> =>
    Promise.resolve(bound.use.run(fixture.context(), fixture.runtime("fetch"))).catch(
      () => "threw",
    );
  expect([await run(), await run(), await run(), calledAtMs.length]).toEqual([
    "threw",
    "threw",
    "fetched",
    5,
  ]);
});

/** Calls the function as plain JavaScript could. */
function wrap(...given: readonly unknown[]): unknown {
  return Reflect.apply(withRetries, undefined, given);
}

test("refuses a value that is not a function tool, and invalid options", () => {
  const tool = toolThat("fetch", never);
  const complaints = [
    [[tool]],
    [tool, { maxAttempts: 0 }],
    [tool, { maxAttempts: 1.5 }],
    [tool, { maxAttempts: "3" }],
    [tool, { initialDelayMs: -1 }],
    [tool, { maxDelayMs: Infinity }],
    [tool, { shouldRetry: true }],
    [tool, { retries: 3 }],
  ].map((given) => thrownBy(() => wrap(...given)));
  expect(complaints.map(({ code, data }) => [code, data["field"], data["got"]])).toEqual([
    ["invalid_argument", "withRetries.tool", "an array"],
    ["invalid_argument", "withRetries.maxAttempts", "0"],
    ["invalid_argument", "withRetries.maxAttempts", "1.5"],
    ["invalid_argument", "withRetries.maxAttempts", '"3"'],
    ["invalid_argument", "withRetries.initialDelayMs", "-1"],
    ["invalid_argument", "withRetries.maxDelayMs", "Infinity"],
    ["invalid_argument", "withRetries.shouldRetry", "true"],
    ["invalid_argument", "withRetries.retries", '"retries"'],
  ]);
});
