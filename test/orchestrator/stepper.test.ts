// Goal: a driver runs freely, or exactly one phase for each that somebody asks for, and nobody is left waiting at the end.
// Method: driver and caller played by hand, step by step.

import { expect, test } from "vitest";

import { pendingState } from "../../src/agent/agent-state.ts";
import type { Phase, PhaseReport } from "../../src/agent/run-agent.ts";
import { Stepper } from "../../src/orchestrator/run/stepper.ts";
import { answered } from "../support/ledger-scene.ts";

const DONE = { done: true, value: undefined };
const STATE = pendingState({ messages: [], prefix: { messageCount: 0, tokens: 0 } });

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

const passes = async (turnstile: Stepper): Promise<boolean> =>
  (await seen(turnstile.pass())).settled;

test("a driver that nobody paces passes every time, and what it delivers goes nowhere", async () => {
  const turnstile = new Stepper();
  expect(await passes(turnstile)).toBe(true);
  turnstile.deliver(report("prepare"));
  expect(await passes(turnstile)).toBe(true);
});

test("a paced driver waits until a phase is asked for, and hands over exactly that one", async () => {
  const turnstile = new Stepper();
  expect(turnstile.close()).toBe(true);
  const iterator = turnstile.iterator(nothing);
  const first = turnstile.pass();
  expect((await seen(first)).settled).toBe(false);
  const asked = iterator.next();
  expect((await seen(first)).settled).toBe(true);
  turnstile.deliver(report("prepare"));
  expect(await asked).toEqual(value("prepare"));
  expect(await passes(turnstile)).toBe(false);
});

test("phases that are asked for ahead are handed over in order", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const iterator = turnstile.iterator(nothing);
  const asked = [iterator.next(), iterator.next()];
  for (const phase of ["prepare", "infer"] as const) {
    expect(await passes(turnstile)).toBe(true);
    turnstile.deliver(report(phase));
  }
  expect(await Promise.all(asked)).toEqual([value("prepare"), value("infer")]);
  expect(await passes(turnstile)).toBe(false);
});

test("who comes while a phase is under way gets that phase if they ask before it ends", async () => {
  const turnstile = new Stepper();
  expect(await passes(turnstile)).toBe(true);
  turnstile.close();
  const asked = turnstile.iterator(nothing).next();
  turnstile.deliver(report("infer"));
  expect(await asked).toEqual(value("infer"));
});

test("only one may pace the driver, also after it was let go", () => {
  const turnstile = new Stepper();
  expect([turnstile.close(), turnstile.close()]).toEqual([true, false]);
  turnstile.open();
  expect(turnstile.close()).toBe(false);
});

test("opening lets a waiting driver through for good", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const first = turnstile.pass();
  turnstile.open();
  expect([(await seen(first)).settled, await passes(turnstile), await passes(turnstile)]).toEqual([
    true,
    true,
    true,
  ]);
});

test("opening what was never closed does not keep anybody from pacing it later", () => {
  const turnstile = new Stepper();
  turnstile.open();
  expect(turnstile.close()).toBe(true);
});

test("whoever asked before the driver was let go still gets the next phases", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const asked = turnstile.iterator(nothing).next();
  turnstile.open();
  turnstile.deliver(report("decide"));
  expect(await asked).toEqual(value("decide"));
});

test("at the end everyone who waits is told so, and everyone who asks later", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const iterator = turnstile.iterator(nothing);
  const asked = [iterator.next(), iterator.next()];
  turnstile.end();
  expect(await Promise.all([...asked, iterator.next()])).toEqual([DONE, DONE, DONE]);
});

test("when the run breaks off everyone who waits learns why, and everyone who asks later", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const iterator = turnstile.iterator(nothing);
  const cause = new Error("disk full");
  const asked = iterator.next();
  turnstile.fail(cause);
  turnstile.end();
  await expect(asked).rejects.toBe(cause);
  await expect(iterator.next()).rejects.toBe(cause);
  expect(await iterator.return?.()).toEqual(DONE);
});

test("after the end there is an empty iteration", async () => {
  const turnstile = new Stepper();
  turnstile.end();
  expect(turnstile.close()).toBe(true);
  const phases: unknown[] = [];
  for await (const phase of turnstile.iterator(nothing)) phases.push(phase);
  expect(phases).toEqual([]);
});

test("breaking off abandons the run, waits for its end, and answers who still waits", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  const iterator = turnstile.iterator(() => isOver);
  const asked = iterator.next();
  const left = iterator.return?.();
  if (left === undefined) throw new Error("an iterator that can be broken off");
  expect((await seen(left)).settled).toBe(false);
  turnstile.end();
  end();
  expect(await Promise.all([asked, left])).toEqual([DONE, DONE]);
});

test("an iteration that ran to the end abandons nothing", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  let abandoned = 0;
  const iterator = turnstile.iterator(() => {
    abandoned += 1;
    return Promise.resolve();
  });
  turnstile.end();
  expect([await iterator.return?.(), abandoned]).toEqual([DONE, 0]);
});

test("a loop over the phases sees them all, in order, and the driver never gets ahead", async () => {
  const turnstile = new Stepper();
  turnstile.close();
  const phases = ["prepare", "infer", "evaluate", "decide", "ended"] as const;
  const driven: Phase[] = [];
  const drive = async (): Promise<void> => {
    for (const phase of phases) {
      await turnstile.pass();
      driven.push(phase);
      turnstile.deliver(report(phase));
    }
    await turnstile.pass();
    turnstile.end();
  };
  const driver = drive();
  const held: unknown[] = [];
  for await (const { phase } of turnstile.iterator(nothing)) {
    await answered();
    held.push([phase, driven.length]);
  }
  await driver;
  expect(held).toEqual(phases.map((phase, index) => [phase, index + 1]));
});
