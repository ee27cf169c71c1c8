// Goal: a loop runs exactly one phase for each that is asked for, and nothing is left waiting at the end.
// Method: loop and caller played by hand, step by step.

import { expect, test } from "vitest";

import { createPendingState } from "../../src/agent/agent-state.ts";
import type { Phase, PhaseReport } from "../../src/agent/phase-report.ts";
import { Stepper } from "../../src/orchestrator/run/run-readers.ts";
import { answered } from "../support/ledger-fixture.ts";

const DONE = { done: true, value: undefined };
const STATE = createPendingState({ messages: [], prefix: { messageCount: 0, tokens: 0 } });

function report(phase: Phase): PhaseReport {
  return { phase, state: STATE };
}

const value = (phase: Phase): unknown => ({ done: false, value: report(phase) });
const nothing = (): Promise<void> => Promise.resolve();

/** A promise that can be looked at. */
async function seen<T>(
  promise: Promise<T>,
): Promise<{ readonly settled: boolean; readonly value?: T }> {
  let outcome: { readonly settled: boolean; readonly value?: T } = { settled: false };
  void promise.then((result) => (outcome = { settled: true, value: result }));
  await answered();
  return outcome;
}

const passes = async (stepper: Stepper): Promise<boolean> => (await seen(stepper.pass())).settled;

test("a loop waits until a phase is asked for, and hands over exactly that one", async () => {
  const stepper = new Stepper(nothing);
  const first = stepper.pass();
  expect((await seen(first)).settled).toBe(false);
  const asked = stepper.next();
  expect((await seen(first)).settled).toBe(true);
  void stepper.step(report("prepare"));
  expect(await asked).toEqual(value("prepare"));
  expect(await passes(stepper)).toBe(false);
});

test("phases that are asked for ahead are handed over in order", async () => {
  const stepper = new Stepper(nothing);
  const asked = [stepper.next(), stepper.next()];
  for (const phase of ["prepare", "infer"] as const) {
    expect(await passes(stepper)).toBe(true);
    void stepper.step(report(phase));
  }
  expect(await Promise.all(asked)).toEqual([value("prepare"), value("infer")]);
  expect(await passes(stepper)).toBe(false);
});

test("opening lets a waiting loop through for good", async () => {
  const stepper = new Stepper(nothing);
  const first = stepper.pass();
  stepper.open();
  expect([(await seen(first)).settled, await passes(stepper), await passes(stepper)]).toEqual([
    true,
    true,
    true,
  ]);
});

test("a demand from before the loop was let go still gets the next phase", async () => {
  const stepper = new Stepper(nothing);
  const asked = stepper.next();
  stepper.open();
  void stepper.step(report("decide"));
  expect(await asked).toEqual(value("decide"));
});

test("at the end every demand is answered so, also a later one", async () => {
  const stepper = new Stepper(nothing);
  const asked = [stepper.next(), stepper.next()];
  stepper.end();
  expect(await Promise.all([...asked, stepper.next()])).toEqual([DONE, DONE, DONE]);
});

test("when the run breaks off every demand is answered with the reason, also a later one", async () => {
  const stepper = new Stepper(nothing);
  const cause = new Error("disk full");
  const asked = stepper.next();
  stepper.end({ cause });
  stepper.end();
  await expect(asked).rejects.toBe(cause);
  await expect(stepper.next()).rejects.toBe(cause);
  expect(await stepper.return()).toEqual(DONE);
});

test("after the end there is an empty iteration", async () => {
  const stepper = new Stepper(nothing);
  stepper.end();
  const phases: unknown[] = [];
  for await (const phase of stepper) phases.push(phase);
  expect(phases).toEqual([]);
});

test("breaking off abandons the run, waits for its end, and answers who still waits", async () => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  const stepper = new Stepper(() => isOver);
  const asked = stepper.next();
  const left = stepper.return();
  expect((await seen(left)).settled).toBe(false);
  stepper.end();
  end();
  expect(await Promise.all([asked, left])).toEqual([DONE, DONE]);
});

test("an iteration that ran to the end abandons nothing", async () => {
  let abandoned = 0;
  const stepper = new Stepper(() => {
    abandoned += 1;
    return Promise.resolve();
  });
  stepper.end();
  expect([await stepper.return(), abandoned]).toEqual([DONE, 0]);
});

test("a loop over the phases sees them all, in order, and the driver never gets ahead", async () => {
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
