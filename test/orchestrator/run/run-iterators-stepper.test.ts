// Goal: a loop executes exactly one phase per request, and nothing remains pending at the end.
// Method: loop and caller simulated by hand, step by step.

import { expect, test } from "vitest";

import { createPendingState } from "../../../src/agent/agent-state.ts";
import type { Phase, PhaseReport } from "../../../src/agent/phase-report.ts";
import { Stepper } from "../../../src/orchestrator/run/run-iterators.ts";
import { answered } from "../../support/ledger-fixture.ts";

const DONE = { done: true, value: undefined };
const STATE = createPendingState({ messages: [], prefix: { messageCount: 0, tokens: 0 } });

function report(phase: Phase): PhaseReport {
  return { phase, state: STATE };
}

const value = (phase: Phase): unknown => ({ done: false, value: report(phase) });
const nothing = (): Promise<void> => Promise.resolve();

/** Returns whether a promise has settled, and its value. */
async function seen<T>(
  promise: Promise<T>,
): Promise<{ readonly settled: boolean; readonly value?: T }> {
  let outcome: { readonly settled: boolean; readonly value?: T } = { settled: false };
  void promise.then((result) => (outcome = { settled: true, value: result }));
  await answered();
  return outcome;
}

const passes = async (stepper: Stepper): Promise<boolean> => (await seen(stepper.pass())).settled;

test("waits until a phase is requested, and returns exactly that phase", async () => {
  const stepper = new Stepper(nothing);
  const first = stepper.pass();
  expect((await seen(first)).settled).toBe(false);
  const asked = stepper.next();
  expect((await seen(first)).settled).toBe(true);
  void stepper.step(report("prepare"));
  expect(await asked).toEqual(value("prepare"));
  expect(await passes(stepper)).toBe(false);
});

test("returns phases that are requested ahead in order", async () => {
  const stepper = new Stepper(nothing);
  const asked = [stepper.next(), stepper.next()];
  for (const phase of ["prepare", "infer"] as const) {
    expect(await passes(stepper)).toBe(true);
    void stepper.step(report(phase));
  }
  expect(await Promise.all(asked)).toEqual([value("prepare"), value("infer")]);
  expect(await passes(stepper)).toBe(false);
});

test("lets a waiting loop run freely once it is opened", async () => {
  const stepper = new Stepper(nothing);
  const first = stepper.pass();
  stepper.open();
  expect([(await seen(first)).settled, await passes(stepper), await passes(stepper)]).toEqual([
    true,
    true,
    true,
  ]);
});

test("resolves a request from before the opening with the next phase", async () => {
  const stepper = new Stepper(nothing);
  const asked = stepper.next();
  stepper.open();
  void stepper.step(report("decide"));
  expect(await asked).toEqual(value("decide"));
});

test("resolves every request as done at the end, even later ones", async () => {
  const stepper = new Stepper(nothing);
  const asked = [stepper.next(), stepper.next()];
  stepper.end();
  expect(await Promise.all([...asked, stepper.next()])).toEqual([DONE, DONE, DONE]);
});

test("rejects every request with the cause of a failed run, even later ones", async () => {
  const stepper = new Stepper(nothing);
  const cause = new Error("disk full");
  const asked = stepper.next();
  stepper.end({ cause });
  stepper.end();
  await expect(asked).rejects.toBe(cause);
  await expect(stepper.next()).rejects.toBe(cause);
  expect(await stepper.return()).toEqual(DONE);
});

test("iterates over nothing after the end", async () => {
  const stepper = new Stepper(nothing);
  stepper.end();
  const phases: unknown[] = [];
  for await (const phase of stepper) phases.push(phase);
  expect(phases).toEqual([]);
});

test("abandons the run when a loop breaks, waits for its end, and resolves pending requests", async () => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  const stepper = new Stepper(() => isOver);
  const asked = stepper.next();
  const left = stepper.return();
  expect((await seen(left)).settled).toBe(false);
  stepper.end();
  end();
  expect(await Promise.all([asked, left])).toEqual([DONE, DONE]);
});

test("abandons nothing after a complete iteration", async () => {
  let abandoned = 0;
  const stepper = new Stepper(() => {
    abandoned += 1;
    return Promise.resolve();
  });
  stepper.end();
  expect([await stepper.return(), abandoned]).toEqual([DONE, 0]);
});

test("iterates over all phases in order, one ahead of the driver at most", async () => {
  const stepper = new Stepper(nothing);
  const phases = ["prepare", "infer", "evaluate", "decide", "ended"] as const;
  const driven: Phase[] = [];
  const drive = async (): Promise<void> => {
    for (const phase of phases) {
      await stepper.pass();
      driven.push(phase);
      void stepper.step(report(phase));
    }
    await stepper.pass();
    stepper.end();
  };
  const driver = drive();
  const held: unknown[] = [];
  for await (const { phase } of stepper) {
    await answered();
    held.push([phase, driven.length]);
  }
  await driver;
  expect(held).toEqual(phases.map((phase, index) => [phase, index + 1]));
});
