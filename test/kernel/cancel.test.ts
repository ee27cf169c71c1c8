// Goal: foreign work is asked to end, waited for so long and no longer, and can do no harm afterwards.
// Method: work that ends when the test says, time by hand.

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
} from "../../src/kernel/cancel.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";

const REASON: CancelReason = { type: "cancelled", message: "Enough.", agentId: "agent_1" };

/** Work in bounds of ten milliseconds: what came of it so far, and the means to end it. */
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

test("work that ends by itself gives its value, and leaves neither timer nor listener", async () => {
  const { clock, controller, work, outcomes } = bounded();
  clock.advance(1_000_000);
  work.resolve("done");
  await flushEventLoop();
  controller.abort(REASON);
  clock.advance(100);
  await flushEventLoop();
  expect([outcomes, clock.pendingTimers]).toEqual([[{ type: "returned", value: "done" }], 0]);
});

test("no listener is left on the signal, however work ends", async () => {
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

test("work that throws gives its error, whether it throws at once, later, or nothing of sense", async () => {
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

test("work may give a plain value, nothing, or a promise of another library", async () => {
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
  "work that ignores its signal is left behind after the grace period, not before",
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

proves(
  ["X33"],
  "what comes after that goes nowhere: a value is dropped, a rejection has an owner",
  async () => {
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
  },
);

test("work that obeys its signal in time keeps its own outcome", async () => {
  const { clock, controller, work, outcomes } = bounded();
  controller.abort(REASON);
  clock.advance(9);
  work.resolve("in time");
  await flushEventLoop();
  expect([outcomes, clock.pendingTimers]).toEqual([[{ type: "returned", value: "in time" }], 0]);
});

test("a signal that was aborted before still lets work run, for as long as the grace period", async () => {
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

test("without any grace, work is left behind as soon as the clock is touched", async () => {
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

test("a child's controller follows its parent's, with the same reason, and never leads it", () => {
  const parent = new AbortController();
  const [one, two] = [createLinkedController(parent.signal), createLinkedController(parent.signal)];
  one.controller.abort("own");
  expect([parent.signal.aborted, two.controller.signal.aborted]).toEqual([false, false]);
  parent.abort(REASON);
  expect([one.controller.signal.reason, two.controller.signal.reason]).toEqual(["own", REASON]);
});

test("a controller below one that was aborted starts aborted", () => {
  const { controller, unlink } = createLinkedController(AbortSignal.abort(REASON));
  unlink();
  expect([controller.signal.aborted, controller.signal.reason]).toEqual([true, REASON]);
});

test("a controller that was unlinked no longer follows", () => {
  const parent = new AbortController();
  const { controller, unlink } = createLinkedController(parent.signal);
  unlink();
  parent.abort(REASON);
  expect(controller.signal.aborted).toBe(false);
});

test("three generations are aborted at once", () => {
  const root = new AbortController();
  const child = createLinkedController(root.signal);
  const grandchild = createLinkedController(child.controller.signal);
  root.abort(REASON);
  expect(findCancelReason(grandchild.controller.signal)).toBe(REASON);
});

test("a reason is ours or none", () => {
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

test("a signal of ours tells a platform signal that is asked for before or after, and then what waits for either once, in order", () => {
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
