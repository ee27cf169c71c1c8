// Time of a step by activity. Each instant counts once: the four parts add up to at most the
// duration of the step.

import { lazyObject, repeatSchema, z } from "./lazy-schema.ts";

/**
 * Milliseconds of a step by activity.
 *
 * `inferenceMs`, `toolsMs`, `hooksMs` and `formattingMs` add up to at most the duration of the
 * step. They exclude guards and waits for budget, slots and answers. `beforeModel` hooks,
 * `processStep` hooks and `stop` hooks run outside the step.
 *
 * @example
 * ```ts
 * for (const { number, telemetry } of result.steps)
 *   console.log(number, telemetry.timing.inferenceMs, telemetry.timing.toolsMs);
 * ```
 */
export interface StepTiming {
  /**
   * Milliseconds in model calls, including attempts, waits between attempts, and summaries of long
   * results.
   */
  readonly inferenceMs: number;
  /**
   * Milliseconds in which at least one tool ran. Parallel calls count once. A delegation counts
   * until its subagent ends or pauses.
   */
  readonly toolsMs: number;
  /**
   * Sum of the milliseconds of all tool calls. Parallel calls count separately, so it can exceed
   * the step.
   */
  readonly toolsSumMs: number;
  /** Milliseconds in hooks around calls, while no model and no tool was active. */
  readonly hooksMs: number;
  /** Milliseconds spent on converting tool results to text, while nothing else was active. */
  readonly formattingMs: number;
}

export const StepTimingSchema = lazyObject(() =>
  repeatSchema(
    z.number().nonnegative(),
    ...(["inferenceMs", "toolsMs", "toolsSumMs", "hooksMs", "formattingMs"] as const),
  ),
) satisfies () => z.ZodType<StepTiming>;

/** An activity with its start and end. */
export const TimeSpanSchema = lazyObject(() => ({
  spent: z.enum(["inference", "tool", "hooks", "formatting"]),
  fromMs: z.number(),
  /** Later than `fromMs`. */
  toMs: z.number(),
}));
export type TimeSpan = Readonly<z.infer<ReturnType<typeof TimeSpanSchema>>>;

export const NO_TIMING: StepTiming = Object.freeze({
  inferenceMs: 0,
  toolsMs: 0,
  toolsSumMs: 0,
  hooksMs: 0,
  formattingMs: 0,
});

/** Returns the span as a list. Empty if no time passed. */
export function toSpans(
  spent: TimeSpan["spent"],
  fromMs: number,
  toMs: number,
): readonly TimeSpan[] {
  return toMs > fromMs ? [{ spent, fromMs, toMs }] : NONE;
}

const NONE: readonly TimeSpan[] = Object.freeze([]);

/** Returns the result of an effect with its time span. Returns it unchanged if no time passed. */
export function attachTimeSpans<Result extends object>(
  result: Result,
  spans: readonly TimeSpan[],
): Result & { readonly spans?: readonly TimeSpan[] } {
  return spans.length === 0 ? result : { ...result, spans };
}

/** Timing field of each activity. Of simultaneous activities, the first in `KINDS` counts. */
const FIELDS = {
  inference: "inferenceMs",
  tool: "toolsMs",
  hooks: "hooksMs",
  formatting: "formattingMs",
} as const;
const KINDS = ["inference", "tool", "hooks", "formatting"] as const;

/**
 * Returns the timing of overlapping spans, in any order. Each instant counts for one of the four
 * activities.
 */
export function computeTiming(spans: readonly TimeSpan[]): StepTiming {
  if (spans.length === 0) return NO_TIMING;
  const timing = { ...NO_TIMING };
  const underWay = { inference: 0, tool: 0, hooks: 0, formatting: 0 };
  let sinceMs = 0;
  const edges = spans.flatMap(({ spent, fromMs, toMs }) => [
    { atMs: fromMs, spent, by: 1 },
    { atMs: toMs, spent, by: -1 },
  ]);
  for (const { atMs, spent, by } of edges.toSorted((left, right) => left.atMs - right.atMs)) {
    const counted = KINDS.find((kind) => underWay[kind] > 0);
    if (counted !== undefined) timing[FIELDS[counted]] += atMs - sinceMs;
    underWay[spent] += by;
    sinceMs = atMs;
  }
  for (const { spent, fromMs, toMs } of spans)
    if (spent === "tool") timing.toolsSumMs += toMs - fromMs;
  return timing;
}

export function addTiming(left: StepTiming, right: StepTiming): StepTiming {
  if (right === NO_TIMING) return left;
  return {
    inferenceMs: left.inferenceMs + right.inferenceMs,
    toolsMs: left.toolsMs + right.toolsMs,
    toolsSumMs: left.toolsSumMs + right.toolsSumMs,
    hooksMs: left.hooksMs + right.hooksMs,
    formattingMs: left.formattingMs + right.formattingMs,
  };
}
