// Goal: foreign work is asked to end, awaited for a limited time, and can do no harm afterwards.
// Method: work that ends when the test says, on a manual clock.

import { getEventListeners } from "node:events";

import { expect, test } from "vitest";

import {
  CancelSignal,
  findCancelReason,
  createLinkedController,
  addAbortHandler,
  runBounded,
  type BoundedOutcome,
  type CancelReason,
} from "../../src/kernel/cancel-signal.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";

const REASON: CancelReason = { type: "cancelled", message: "Enough.", agentId: "agent_1" };

/**
 * Starts work with a grace period of ten milliseconds. Returns its outcomes so far, and the means
 * to end it.
 */
function bounded(): {
  readonly clock: ManualClock;
  readonly controller: AbortController;
  readonly work: PromiseWithResolvers<string>;
  readonly outcomes: readonly BoundedOutcome<string>[];
} {
  const clock = new ManualClock();
  const controller = new AbortController();
  const work = Promise.withResolvers<string>();
  const outcomes: BoundedOutcome<string>[] = [];
  const bounds = { signal: controller.signal, clock, graceMs: 10 };
  void runBounded(() => work.promise, bounds).then((outcome) => outcomes.push(outcome));
  return { clock, controller, work, outcomes };
}

test("returns the value of work that ends by itself, and leaves neither timer nor listener", async () => {
  const { clock, controller, work, outcomes } = bounded();
  clock.advance(1_000_000);
  work.resolve("done");
  await flushEventLoop();
  controller.abort(REASON);
  clock.advance(100);
  await flushEventLoop();
  expect([outcomes, clock.pendingTimers]).toEqual([[{ type: "returned", value: "done" }], 0]);
});

test("leaves no listener on the signal, however work ends", async () => {
  const { signal } = new AbortController();
  const bounds = { signal, clock: new ManualClock(), graceMs: 10 };
  const work = Promise.withResolvers<string>();
  const outcome = runBounded(() => work.promise, bounds);
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  work.resolve("done");
  await outcome;
  await runBounded(() => Promise.reject(new Error("broken")), bounds);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("returns the error of work that throws at once, later, or without a value", async () => {
  const bounds = { signal: new AbortController().signal, clock: new ManualClock(), graceMs: 10 };
  const error = new Error("broken");
  const now = (): string => {
    throw error;
  };
  const results = [
    await runBounded(now, bounds),
    await runBounded(() => Promise.reject(error), bounds),
    await runBounded(() => Promise.reject(), bounds),
  ];
  expect(results).toEqual([
    { type: "threw", error },
    { type: "threw", error },
    { type: "threw", error: undefined },
  ]);
});

test("accepts work that returns a plain value, undefined, or a promise of another library", async () => {
  const bounds = { signal: new AbortController().signal, clock: new ManualClock(), graceMs: 10 };
  const foreign: PromiseLike<string> = {
    // oxlint-disable-next-line unicorn/no-thenable -- that is what is tested
    then: (onValue, onError) => Promise.resolve("foreign").then(onValue, onError),
  };
  const results = [
    await runBounded(() => "plain", bounds),
    await runBounded(() => undefined, bounds),
    await runBounded(() => foreign, bounds),
  ];
  expect(results).toEqual(
    ["plain", undefined, "foreign"].map((value) => ({ type: "returned", value })),
  );
});

proves(
  ["X33"],
  "abandons work that ignores its signal after the grace period, not before",
  async () => {
    const { clock, controller, outcomes } = bounded();
    clock.advance(50);
    controller.abort(REASON);
    clock.advance(9);
    await flushEventLoop();
    expect(outcomes).toEqual([]);
    clock.advance(1);
    await flushEventLoop();
    expect([outcomes, clock.pendingTimers]).toEqual([[{ type: "abandoned" }], 0]);
  },
);

proves(["X33"], "ignores a value of abandoned work, and handles its rejection", async () => {
  for (const late of ["value", "rejection"]) {
    const { clock, controller, work, outcomes } = bounded();
    controller.abort(REASON);
    clock.advance(10);
    await flushEventLoop();
    if (late === "value") work.resolve("late");
    else work.reject(new Error("late"));
    await flushEventLoop();
    expect(outcomes).toEqual([{ type: "abandoned" }]);
  }
});

test("returns the outcome of work that obeys its signal in time", async () => {
  const { clock, controller, work, outcomes } = bounded();
  controller.abort(REASON);
  clock.advance(9);
  work.resolve("in time");
  await flushEventLoop();
  expect([outcomes, clock.pendingTimers]).toEqual([[{ type: "returned", value: "in time" }], 0]);
});

test("runs work under a signal that was aborted before, for as long as the grace period", async () => {
  const clock = new ManualClock();
  const bounds = { signal: AbortSignal.abort(REASON), clock, graceMs: 10 };
  const quick = await runBounded(() => "quick", bounds);
  const slow = runBounded(() => new Promise(() => undefined), bounds);
  clock.advance(10);
  expect([quick, await slow, clock.pendingTimers]).toEqual([
    { type: "returned", value: "quick" },
    { type: "abandoned" },
    0,
  ]);
});

test("abandons work without a grace period as soon as the clock moves", async () => {
  const clock = new ManualClock();
  const controller = new AbortController();
  const outcome = runBounded(() => new Promise(() => undefined), {
    signal: controller.signal,
    clock,
    graceMs: 0,
  });
  controller.abort(REASON);
  clock.advance(0);
  expect(await outcome).toEqual({ type: "abandoned" });
});

test("aborts a linked controller with its parent and the same reason, but never the parent", () => {
  const parent = new AbortController();
  const [one, two] = [createLinkedController(parent.signal), createLinkedController(parent.signal)];
  one.controller.abort("own");
  expect([parent.signal.aborted, two.controller.signal.aborted]).toEqual([false, false]);
  parent.abort(REASON);
  expect([one.controller.signal.reason, two.controller.signal.reason]).toEqual(["own", REASON]);
});

test("creates an aborted controller below a signal that was aborted", () => {
  const { controller, unlink } = createLinkedController(AbortSignal.abort(REASON));
  unlink();
  expect([controller.signal.aborted, controller.signal.reason]).toEqual([true, REASON]);
});

test("does not abort a controller that was unlinked", () => {
  const parent = new AbortController();
  const { controller, unlink } = createLinkedController(parent.signal);
  unlink();
  parent.abort(REASON);
  expect(controller.signal.aborted).toBe(false);
});

test("aborts three generations at once", () => {
  const root = new AbortController();
  const child = createLinkedController(root.signal);
  const grandchild = createLinkedController(child.controller.signal);
  root.abort(REASON);
  expect(findCancelReason(grandchild.controller.signal)).toBe(REASON);
});

test("returns a cancel reason, and undefined for any other reason of an abort", () => {
  const deadline: CancelReason = {
    type: "deadline",
    message: "Late.",
    deadlineAtMs: 5,
    maximumMs: 5,
    agentId: "agent_1",
    agentPath: "lead",
  };
  const signals = [
    AbortSignal.abort(REASON),
    AbortSignal.abort(deadline),
    AbortSignal.abort(),
    AbortSignal.abort("text"),
    AbortSignal.abort(null),
    AbortSignal.abort({ type: "other" }),
    new AbortController().signal,
  ];
  expect(signals.map(findCancelReason)).toEqual([
    REASON,
    deadline,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test("aborts the platform signal first, then calls each handler once, in order", () => {
  const calls: string[] = [];
  const signal = new CancelSignal();
  const early = signal.abortSignal;
  signal.onAbort(() => calls.push("first"));
  const release = signal.onAbort(() => calls.push("released"));
  signal.onAbort(() => {
    calls.push(`second: ${String(signal.reason)}`);
    signal.abort("from within");
  });
  early.addEventListener("abort", () => calls.push(`platform: ${String(early.reason)}`));
  addAbortHandler(early, () => calls.push(`third: ${String(early.reason)}`));
  addAbortHandler(early, () => calls.push("released"))();
  addAbortHandler(early, () => releaseLast());
  const releaseLast = addAbortHandler(early, () => calls.push("released by one before"));
  release();
  expect([signal.aborted, early.aborted]).toEqual([false, false]);
  signal.abort("enough");
  signal.abort("too late");
  expect(calls).toEqual(["platform: enough", "first", "second: enough", "third: enough"]);
  const late = new CancelSignal();
  late.abort("enough");
  expect([late.abortSignal.aborted, late.abortSignal.reason, signal.abortSignal]).toEqual([
    true,
    "enough",
    early,
  ]);
});
