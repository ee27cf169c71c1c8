// Goal: calls that wait for a permit get it in their order, and a cancelled call leaves at once and
// holds no permit.
// Method: semaphores whose holders the test counts; random actions compared with the order of
// arrival.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { CancelSignal } from "../../src/kernel/cancel-signal.ts";
import { Semaphore, type Release } from "../../src/kernel/semaphore.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";

/**
 * Calls over one semaphore: the order in which they got their permits, and the permits that are
 * held.
 */
class Calls {
  readonly semaphore: Semaphore;
  readonly granted: number[] = [];
  readonly refused: number[] = [];
  readonly held: Release[] = [];
  readonly signals: CancelSignal[] = [];
  most = 0;

  constructor(permits: number) {
    this.semaphore = new Semaphore(permits);
  }

  /** Requests a permit. Returns true if the answer comes in the same tick. */
  acquire(): boolean {
    const number = this.signals.length;
    const signal = new CancelSignal();
    this.signals.push(signal);
    const acquired = this.semaphore.acquire(signal);
    if (acquired instanceof Promise) void acquired.then((release) => this.#note(number, release));
    else this.#note(number, acquired);
    return !(acquired instanceof Promise);
  }

  #note(number: number, release: Release | undefined): void {
    if (release === undefined) this.refused.push(number);
    else this.held.push(release);
    if (release !== undefined) this.granted.push(number);
    this.most = Math.max(this.most, this.held.length);
  }

  release(): void {
    this.held.shift()?.();
  }

  abort(number: number): void {
    this.signals[number]?.abort("test");
  }

  async releaseAll(): Promise<void> {
    while (this.held.length > 0) {
      this.release();
      await flushEventLoop();
    }
  }
}

proves(
  ["D654"],
  "grants a free permit in the same tick, even after others have waited",
  async () => {
    const calls = new Calls(2);
    expect([calls.acquire(), calls.acquire(), calls.acquire()]).toEqual([true, true, false]);
    await calls.releaseAll();
    expect([calls.acquire(), calls.acquire(), calls.acquire()]).toEqual([true, true, false]);
    expect(calls.granted).toEqual([0, 1, 2, 3, 4]);
  },
);

proves(
  ["D652"],
  "ends a call that is cancelled in the middle of the queue before any permit is free",
  async () => {
    const calls = new Calls(1);
    for (let number = 0; number < 4; number += 1) calls.acquire();
    await flushEventLoop();
    calls.abort(2);
    await flushEventLoop();
    expect([calls.granted, calls.refused]).toEqual([[0], [2]]);
    calls.abort(1);
    await flushEventLoop();
    expect([calls.granted, calls.refused]).toEqual([[0], [2, 1]]);
    await calls.releaseAll();
    expect(calls.granted).toEqual([0, 3]);
  },
);

proves(["D652"], "does not lose a permit that becomes free around a cancellation", async () => {
  const later = Array.from({ length: 12 }, (_none, microtasks) => microtasks);
  for (const microtasks of ["abort first", ...later]) {
    const calls = new Calls(1);
    for (let number = 0; number < 3; number += 1) calls.acquire();
    await flushEventLoop();
    if (microtasks === "abort first") calls.abort(1);
    calls.release();
    for (let passed = 0; passed < Number(microtasks); passed += 1) await Promise.resolve();
    calls.abort(1);
    await flushEventLoop();
    await calls.releaseAll();
    expect([microtasks, calls.granted.at(-1), calls.most]).toEqual([microtasks, 2, 1]);
    expect([microtasks, calls.acquire()]).toEqual([microtasks, true]);
  }
});

test("ends a thousand waiting calls of one signal at once and serves those behind them", async () => {
  const semaphore = new Semaphore(1);
  const held = semaphore.acquire(new CancelSignal());
  const { signal } = new AbortController();
  const controller = new AbortController();
  const cancelled = Array.from({ length: 1_000 }, async () => semaphore.acquire(controller.signal));
  const next = semaphore.acquire(signal);
  await flushEventLoop();
  controller.abort();
  expect(new Set(await Promise.all(cancelled))).toEqual(new Set([undefined]));
  if (typeof held === "function") held();
  expect(await next).toBeTypeOf("function");
});

const ACT = fc.oneof(
  { weight: 4, arbitrary: fc.constant("acquire" as const) },
  { weight: 3, arbitrary: fc.constant("release" as const) },
  { weight: 3, arbitrary: fc.constant("settle" as const) },
  { weight: 1, arbitrary: fc.constantFrom("pause" as const, "resume" as const) },
  { weight: 2, arbitrary: fc.nat(40) },
);

proves(
  ["D652"],
  "preserves order and count over random calls, releases, pauses and cancellations",
  async () => {
    const script = fc.array(ACT, { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3 }), script, async (permits, acts) => {
        const calls = new Calls(permits);
        for (const act of acts) {
          if (act === "settle") await flushEventLoop();
          else if (typeof act === "number") calls.abort(act);
          else if (act === "acquire") calls.acquire();
          else if (act === "release") calls.release();
          else calls.semaphore[act]();
        }
        calls.semaphore.resume();
        await flushEventLoop();
        await calls.releaseAll();
        expect(calls.most).toBeLessThanOrEqual(permits);
        expect(calls.granted).toEqual(calls.granted.toSorted((one, other) => one - other));
        expect([...calls.granted, ...calls.refused].toSorted((one, other) => one - other)).toEqual(
          calls.signals.map((_signal, number) => number),
        );
        const again = Array.from({ length: permits + 1 }, () => calls.acquire());
        expect(again).toEqual([...Array.from({ length: permits }, () => true), false]);
      }),
    );
  },
);
