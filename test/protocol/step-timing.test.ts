// Goal: overlapping spans count each instant once, for one kind in a fixed order.
// Method: random spans, compared with a count of every millisecond.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  addTiming,
  NO_TIMING,
  toSpans,
  computeTiming,
  type StepTiming,
  type TimeSpan,
} from "../../src/protocol/step-timing.ts";
import { proves } from "../harness/proves.ts";

const KINDS = ["inference", "tool", "hooks", "formatting"] as const;

const spans = fc.array(
  fc
    .record({
      spent: fc.constantFrom(...KINDS),
      fromMs: fc.nat({ max: 30 }),
      lasts: fc.integer({ min: 1, max: 15 }),
    })
    .map(({ spent, fromMs, lasts }): TimeSpan => ({ spent, fromMs, toMs: fromMs + lasts })),
  { maxLength: 12 },
);

/** Computes the same timing by counting. */
function counted(list: readonly TimeSpan[]): StepTiming {
  const counts = { inference: 0, tool: 0, hooks: 0, formatting: 0 };
  for (let ms = 0; ms < 50; ms += 1) {
    const first = KINDS.find((kind) =>
      list.some(({ spent, fromMs, toMs }) => spent === kind && fromMs <= ms && ms < toMs),
    );
    if (first !== undefined) counts[first] += 1;
  }
  const sums = list.map(({ spent, fromMs, toMs }) => (spent === "tool" ? toMs - fromMs : 0));
  return {
    inferenceMs: counts.inference,
    toolsMs: counts.tool,
    toolsSumMs: sums.reduce((sum, one) => sum + one, 0),
    hooksMs: counts.hooks,
    formattingMs: counts.formatting,
  };
}

proves(["R174"], "every millisecond counts once, for the first of the active kinds", () => {
  fc.assert(
    fc.property(spans, (list) => {
      expect(computeTiming(list)).toEqual(counted(list));
    }),
    { numRuns: 500 },
  );
});

test("an empty list of spans has no timing, and an interval without duration has no span", () => {
  expect(computeTiming([])).toBe(NO_TIMING);
  expect([toSpans("tool", 5, 5), toSpans("tool", 5, 4), toSpans("tool", 5, 6)]).toEqual([
    [],
    [], // The clock was set back.
    [{ spent: "tool", fromMs: 5, toMs: 6 }],
  ]);
});

test("timings are added field by field", () => {
  const one = { inferenceMs: 1, toolsMs: 2, toolsSumMs: 3, hooksMs: 4, formattingMs: 5 };
  expect(addTiming(one, one)).toEqual({
    inferenceMs: 2,
    toolsMs: 4,
    toolsSumMs: 6,
    hooksMs: 8,
    formattingMs: 10,
  });
  expect([addTiming(one, NO_TIMING), addTiming(NO_TIMING, one)]).toEqual([one, one]);
});
