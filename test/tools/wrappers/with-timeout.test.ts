// Goal: a tool that takes too long is abandoned, the model reads why, and later results are
// ignored.
// Method: call tools that end on command or never, without a run and with a manual clock.

import { getEventListeners } from "node:events";

import { expect, test } from "vitest";

import type { CancelReason } from "../../../src/kernel/cancel-signal.ts";
import {
  formatExactDuration,
  isToolTimeout,
  createToolTimeout,
} from "../../../src/tools/tool-timeout.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { renameTools } from "../../../src/tools/toolsets.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../../harness/proves.ts";
import { CallFixture, GRACE_MS, never, toolThat } from "../../support/tool-calls.ts";
import { thrownBy } from "../../support/thrown.ts";

const LIMIT = { timeoutMs: 30_000 };
const REASON: CancelReason = { type: "cancelled", message: "Enough.", agentId: "agent_1" };

proves(
  ["R118"],
  "ends the call at the limit if the tool ignores its signal, and discards a later result",
  async () => {
    for (const late of ["value", "rejection"] as const) {
      const fixture = new CallFixture();
      const work = Promise.withResolvers<string>();
      const signals: AbortSignal[] = [];
      const tool = toolThat("deploy", ({ signal }) => {
        signals.push(signal);
        return work.promise;
      });
      const call = fixture.call(withTimeout(tool, LIMIT));
      fixture.clock.advance(29_999);
      expect([await call.now(), signals[0]?.aborted]).toEqual([undefined, false]);
      fixture.clock.advance(1);
      const end = await call.now();
      expect([end, fixture.clock.pendingTimers]).toEqual([
        { type: "threw", error: createToolTimeout("deploy", 30_000) },
        0,
      ]);
      expect([signals[0]?.aborted, signals[0]?.reason]).toEqual([
        true,
        new DOMException("The time is up.", "TimeoutError"),
      ]);
      if (late === "value") work.resolve("deployed");
      else work.reject(new Error("not deployed"));
      expect(await call.now()).toBe(end);
    }
  },
);

test("reports the tool, the readable limit and the remedy in the error", () => {
  const error = createToolTimeout("deploy", 30_000);
  const { message, hint, severity, code, data } = error;
  expect({ message, hint, severity, code, data }).toEqual({
    message:
      "deploy did not end within 30 s. It may have taken effect nevertheless: check that first. Then request less at once, or do without it.",
    hint: undefined,
    severity: "recoverable",
    code: "tool_error",
    data: { toolName: "deploy", timeoutMs: 30_000 },
  });
});

test("formats a duration exactly, in the most readable unit", () => {
  const times = [
    1, 0.5, 250, 999, 1_000, 1_500, 30_000, 59_999, 60_000, 90_000, 300_000, 7_200_000, 86_400_000,
  ];
  expect(times.map(formatExactDuration)).toEqual([
    "1 ms",
    "0.5 ms",
    "250 ms",
    "999 ms",
    "1 s",
    "1.5 s",
    "30 s",
    "59.999 s",
    "1 min",
    "90 s",
    "5 min",
    "2 h",
    "24 h",
  ]);
});

test("recognises a timeout error, even of another copy of the package", () => {
  const mark = Symbol.for("espalier.tool_timeout");
  const others = [
    new ToolError("late", { data: { timeoutMs: 3, toolName: "deploy" } }),
    new Error("late"),
    new DOMException("late", "TimeoutError"),
    Object.assign(new Error("late"), { [mark]: true, severity: "recoverable" }),
    { [mark]: true },
    undefined,
  ];
  const copy = Object.assign(new Error("late"), {
    [Symbol.for("espalier.error")]: true,
    [mark]: true,
    severity: "recoverable",
  });
  expect([createToolTimeout("deploy", 1), copy, ...others].map(isToolTimeout)).toEqual([
    true,
    true,
    ...others.map(() => false),
  ]);
});

test("passes on an outcome within the limit and leaves no timer or listener", async () => {
  const value = { rows: [1] };
  const error = new Error("broken");
  const works: readonly (() => unknown)[] = [
    () => value,
    () => Promise.resolve(value),
    () => undefined,
    () => {
      throw error;
    },
    () => Promise.reject(error),
    () => Promise.reject(),
  ];
  const fixture = new CallFixture();
  const ends = [];
  for (const work of works)
    ends.push(await fixture.call(withTimeout(toolThat("read", work), LIMIT)).ended);
  expect(ends).toEqual([
    { type: "returned", value },
    { type: "returned", value },
    { type: "returned", value: undefined },
    { type: "threw", error },
    { type: "threw", error },
    { type: "threw", error: undefined },
  ]);
  expect(ends[0]?.type === "returned" && ends[0].value === value).toBe(true);
  expect([
    fixture.clock.pendingTimers,
    getEventListeners(fixture.controller.signal, "abort").length,
  ]).toEqual([0, 0]);
});

test("times out if the tool returns a value only after its signal was aborted", async () => {
  const fixture = new CallFixture();
  const tool = toolThat(
    "read",
    ({ signal }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve("half of it"))),
  );
  const call = fixture.call(withTimeout(tool, { timeoutMs: 10 }));
  fixture.clock.advance(10);
  expect(await call.now()).toEqual({ type: "threw", error: createToolTimeout("read", 10) });
});

test("passes the reason of a cancellation to the tool and waits for the grace period", async () => {
  const fixture = new CallFixture();
  const reasons: unknown[] = [];
  const tool = toolThat("read", ({ signal }) => {
    signal.addEventListener("abort", () => reasons.push(signal.reason));
    return never();
  });
  const call = fixture.call(withTimeout(tool, LIMIT));
  fixture.controller.abort(REASON);
  fixture.clock.advance(GRACE_MS - 1);
  expect([await call.now(), reasons]).toEqual([undefined, [REASON]]);
  fixture.clock.advance(1);
  expect([await call.now(), fixture.clock.pendingTimers]).toEqual([
    { type: "threw", error: new ToolError("read was stopped before it had a result.") },
    0,
  ]);
});

test("accepts a result within the grace period", async () => {
  const fixture = new CallFixture();
  const work = Promise.withResolvers<string>();
  const call = fixture.call(
    withTimeout(
      toolThat("read", () => work.promise),
      LIMIT,
    ),
  );
  fixture.controller.abort(REASON);
  fixture.clock.advance(GRACE_MS - 1);
  work.resolve("cleaned up");
  expect(await call.now()).toEqual({ type: "returned", value: "cleaned up" });
});

test("applies the tighter of two nested limits and leaves no timer or listener", async () => {
  for (const [inner, outer] of [
    [40_000, 30_000],
    [30_000, 40_000],
    [30_000, 30_000],
  ] as const) {
    const fixture = new CallFixture();
    const signals: AbortSignal[] = [];
    const tool = toolThat("read", ({ signal }) => {
      signals.push(signal);
      return never();
    });
    const twice = withTimeout(withTimeout(tool, { timeoutMs: inner }), { timeoutMs: outer });
    const call = fixture.call(twice);
    fixture.clock.advance(30_000);
    expect([await call.now(), signals[0]?.aborted]).toEqual([
      { type: "threw", error: createToolTimeout("read", 30_000) },
      true,
    ]);
    expect([
      fixture.clock.pendingTimers,
      getEventListeners(fixture.controller.signal, "abort").length,
    ]).toEqual([0, 0]);
  }
});

test("does not start a call whose outer limit has expired", async () => {
  const fixture = new CallFixture();
  let calls = 0;
  const tool = toolThat("read", () => (calls += 1));
  const signal = AbortSignal.abort(new DOMException("The time is up.", "TimeoutError"));
  const call = fixture.call(withTimeout(tool, LIMIT), { signal });
  expect([(await call.now())?.type, calls, fixture.clock.pendingTimers]).toEqual(["threw", 0, 0]);
});

test("accepts subtasks and progress reports only until the limit", async () => {
  const fixture = new CallFixture();
  const kept: ToolContext[] = [];
  const tool = toolThat("read", (context) => {
    kept.push(context);
    context.queueSubtask({ role: "helper", task: "In time." });
    context.reportProgress({ done: 1 });
    return never();
  });
  const call = fixture.call(withTimeout(tool, LIMIT));
  fixture.clock.advance(30_000);
  await call.now();
  kept[0]?.queueSubtask({ role: "helper", task: "Late." });
  kept[0]?.reportProgress({ done: 2 });
  expect([fixture.subtasks, fixture.progress]).toEqual([
    [{ role: "helper", task: "In time." }],
    [{ done: 1 }],
  ]);
});

test("passes a frozen context that equals the call's context except for its signal", async () => {
  const fixture = new CallFixture();
  const seen: ToolContext[] = [];
  await fixture.call(
    withTimeout(
      toolThat("read", (context) => void seen.push(context)),
      LIMIT,
    ),
  ).ended;
  const { signal, queueSubtask, reportProgress, ask } = fixture.context();
  const own = { signal, queueSubtask, reportProgress, ask };
  expect([
    seen.map(Object.isFrozen),
    seen.map((context) => ({ ...context, ...own })),
    seen.map((context) => context.signal instanceof AbortSignal && context.signal !== signal),
  ]).toEqual([[true], [{ ...fixture.context(), ...own }], [true]]);
});

test("reports the renamed tool in the error, whether renamed before or after wrapping", async () => {
  const tool = toolThat("read", never);
  const limited = renameTools([withTimeout(tool, LIMIT)], { read: "look" });
  const named = renameTools([tool], { read: "look" }).map((one) => withTimeout(one, LIMIT));
  for (const one of [...limited, ...named]) {
    const fixture = new CallFixture();
    const call = fixture.call(one);
    fixture.clock.advance(30_000);
    expect(await call.now()).toEqual({ type: "threw", error: createToolTimeout("look", 30_000) });
  }
});

test("applies the limit to each of two concurrent calls", async () => {
  const fixture = new CallFixture();
  const tool = withTimeout(toolThat("read", never), LIMIT);
  const first = fixture.call(tool);
  fixture.clock.advance(10_000);
  const second = fixture.call(tool);
  fixture.clock.advance(20_000);
  expect([(await first.now())?.type, await second.now()]).toEqual(["threw", undefined]);
  fixture.clock.advance(10_000);
  expect((await second.now())?.type).toBe("threw");
});

/** Calls the function as plain JavaScript could. */
function wrap(...given: readonly unknown[]): unknown {
  return Reflect.apply(withTimeout, undefined, given);
}

test("refuses a value that is not a function tool, and an invalid limit", () => {
  const tool = toolThat("read", never);
  const spans = [0, -0, -1, NaN, Infinity, "30", 30n, null, undefined];
  const complaints = spans.map((timeoutMs) => thrownBy(() => wrap(tool, { timeoutMs })));
  expect(complaints.map(({ message }) => message)).toEqual(
    ["0", "0", "-1", "NaN", "Infinity", '"30"', "30", "null", "undefined"].map(
      (got) =>
        `Expected withTimeout.timeoutMs to be a number of milliseconds above 0, got ${got}. Set the time in milliseconds.`,
    ),
  );
  expect(
    [[tool], [tool, 30_000], [tool, { timeoutMS: 3 }], [{ ...tool, kind: "external" }, LIMIT]].map(
      (given) => thrownBy(() => wrap(...given)).message,
    ),
  ).toEqual([
    "Expected withTimeout to be a plain object, got undefined. Its fields are timeoutMs.",
    "Expected withTimeout to be a plain object, got 30000. Its fields are timeoutMs.",
    'Expected withTimeout.timeoutMS to be one of timeoutMs, got "timeoutMS". Use timeoutMs.',
    'Expected withTimeout.tool.kind to be "function", got "external". Wrap a tool that has its own execute function.',
  ]);
});
