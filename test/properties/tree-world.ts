// Worlds for the tree property: random roles, budgets, limits, scripts, faults and moments, as
// plain values that fast-check can shrink and print. How they are played is in tree-stage.ts; what
// must hold afterwards in tree-laws.ts.

import {
  array,
  boolean,
  constant,
  constantFrom,
  integer,
  nat,
  oneof,
  record,
  subarray,
  tuple,
  type Arbitrary,
  type WeightedArbitrary,
} from "fast-check";

import type { Budget, BudgetAxis } from "../../src/policies/budget.ts";
import type { SubagentLimits } from "../../src/policies/subagent-limits.ts";

/** How a tool of the stage behaves. `never`: it neither settles nor heeds its signal. */
export const TOOL_KINDS = [
  "quick",
  "slow",
  "throws",
  "unshowable",
  "cyclic",
  "listens",
  "never",
] as const;

export type ToolKind = (typeof TOOL_KINDS)[number];

export type WorldCall =
  | { readonly type: "spawn"; readonly role: number }
  | { readonly type: "tool"; readonly kind: ToolKind }
  | { readonly type: "finish"; readonly fits: boolean }
  | { readonly type: "unknown role" | "unknown tool" | "broken JSON" | "misfit" };

/** What a provider says of its usage. */
export type Report = "exact" | "none" | "too much" | "nonsense";

/** What a model does when it is asked. */
export type Act =
  | {
      readonly type: "says";
      readonly report: Report;
      readonly ticks: number;
      readonly cutOff: boolean;
    }
  | {
      readonly type: "calls";
      readonly calls: readonly WorldCall[];
      readonly report: Report;
      readonly ticks: number;
    }
  | {
      readonly type: "fails";
      readonly isRetryable: boolean;
      readonly ticks: number;
      /** Output tokens that had come when the call broke; undefined: it never began. */
      readonly lost: number | undefined;
    }
  | { readonly type: "throws"; readonly what: number }
  | { readonly type: "hangs"; readonly heedsSignal: boolean }
  | { readonly type: "empty" | "no reply" };

export interface WorldRole {
  readonly script: readonly Act[];
  readonly subagents: readonly boolean[];
  readonly budget: Budget;
  readonly maxOutputTokens: number;
  readonly hasOutput: boolean;
  readonly counting: "counts" | "cannot count" | "throws" | "nonsense";
  readonly inherits: boolean;
  readonly windowSize: number;
}

/** Something that happens from outside, some ticks after the last such thing. */
export interface Moment {
  readonly afterTicks: number;
  readonly act:
    | { readonly type: "advance"; readonly byMs: number }
    | { readonly type: "cancel" | "request stop" }
    | { readonly type: "cancel agent"; readonly which: number };
}

export interface World {
  readonly roles: readonly WorldRole[];
  readonly limits: SubagentLimits;
  readonly budget: Budget;
  readonly concurrency: { readonly modelCalls: number; readonly toolCalls: number };
  readonly maxAttempts: number;
  /** The id whose minting throws, counted from the first that a child needs. */
  readonly failingId: number | undefined;
  readonly sink: "none" | "throws" | "fails later";
  readonly tracing: {
    readonly failsAt: "nothing" | "place" | "within" | "within, late";
    readonly call: number;
  };
  readonly moments: readonly Moment[];
}

const ROLE_COUNT = 3;

export function nameOf(role: number): string {
  return `role${role}`;
}

/** Any world. Every tree ends by itself: scripts are finite, and the steps of a run are limited. */
export function worlds(): Arbitrary<World> {
  return record({
    roles: tuple(rootRole(), ...Array.from({ length: ROLE_COUNT - 1 }, role)),
    limits: record({
      maxDepth: weighted([12, 3], [5, 2], [3, 1], [1, 0]),
      maxBreadthPerParent: weighted([12, 4], [5, 2], [3, 1], [1, 0]),
      maxTotalSubagents: weighted([12, 8], [5, 3], [3, 1], [1, 0]),
    }),
    budget: runBudget(),
    concurrency: record({
      modelCalls: weighted([2, 8], [1, 2], [1, 1]),
      toolCalls: weighted([2, 8], [1, 2], [1, 1]),
    }),
    maxAttempts: integer({ min: 1, max: 3 }),
    failingId: seldom(7, undefined, integer({ min: 1, max: 8 })),
    sink: weighted([6, "none"], [1, "throws"], [1, "fails later"]),
    tracing: record({
      failsAt: weighted([10, "nothing"], [1, "place"], [1, "within"], [1, "within, late"]),
      call: integer({ min: 1, max: 30 }),
    }),
    moments: array(moment(), { maxLength: 4, size: "max" }),
  });
}

/** A root that delegates in its first reply, as a rule: else there would be little of a tree. */
function rootRole(): Arbitrary<WorldRole> {
  const spawns = array(spawnCall(), { minLength: 1, maxLength: 4, size: "max" });
  const first = record({ delegates: weighted([9, true], [1, false]), spawns });
  return record({ plain: role(), first }).map(({ plain, first: { delegates, spawns: list } }) => {
    const begin: Act = { type: "calls", calls: list, report: "exact", ticks: 0 };
    return delegates ? { ...plain, counting: "counts", script: [begin, ...plain.script] } : plain;
  });
}

function role(): Arbitrary<WorldRole> {
  return record({
    script: array(act(), { minLength: 0, maxLength: 6, size: "max" }),
    subagents: array(weighted([12, true], [1, false]), {
      minLength: ROLE_COUNT,
      maxLength: ROLE_COUNT,
    }),
    budget: seldom(5, {}, anyBudget()),
    maxOutputTokens: weighted([2, 5], [2, 20], [1, 500]),
    hasOutput: weighted([5, false], [1, true]),
    counting: weighted([16, "counts"], [4, "cannot count"], [1, "throws"], [1, "nonsense"]),
    inherits: boolean(),
    windowSize: nat(4),
  });
}

function act(): Arbitrary<Act> {
  const report: Arbitrary<Report> = weighted(
    [8, "exact"],
    [2, "none"],
    [2, "too much"],
    [1, "nonsense"],
  );
  const ticks = weighted([3, 0], [1, 1], [1, 3]);
  return oneof(
    {
      weight: 12,
      arbitrary: record({
        type: constant("calls" as const),
        calls: array(call(), { minLength: 1, maxLength: 4, size: "max" }),
        report,
        ticks,
      }),
    },
    {
      weight: 4,
      arbitrary: record({
        type: constant("says" as const),
        report,
        ticks,
        cutOff: weighted([4, false], [1, true]),
      }),
    },
    {
      weight: 2,
      arbitrary: record({
        type: constant("fails" as const),
        isRetryable: boolean(),
        ticks,
        lost: weighted([3, undefined], [1, 3], [1, 40]),
      }),
    },
    { weight: 1, arbitrary: record({ type: constant("throws" as const), what: nat(20) }) },
    { weight: 1, arbitrary: record({ type: constant("hangs" as const), heedsSignal: boolean() }) },
    { weight: 1, arbitrary: record({ type: constantFrom("empty" as const, "no reply" as const) }) },
  );
}

function call(): Arbitrary<WorldCall> {
  return oneof(
    { weight: 10, arbitrary: spawnCall() },
    {
      weight: 5,
      arbitrary: record({
        type: constant("tool" as const),
        kind: weighted(
          [4, "quick"],
          [4, "slow"],
          [1, "throws"],
          [1, "unshowable"],
          [1, "cyclic"],
          [1, "listens"],
          [1, "never"],
        ),
      }),
    },
    {
      weight: 2,
      arbitrary: record({
        type: constant("finish" as const),
        fits: weighted([3, true], [1, false]),
      }),
    },
    {
      weight: 2,
      arbitrary: record({
        type: constantFrom("unknown role", "unknown tool", "broken JSON", "misfit"),
      }),
    },
  );
}

function spawnCall(): Arbitrary<WorldCall> {
  return record({ type: constant("spawn" as const), role: nat(ROLE_COUNT - 1) });
}

function moment(): Arbitrary<Moment> {
  return record({
    afterTicks: integer({ min: 0, max: 12 }),
    act: oneof(
      {
        weight: 3,
        arbitrary: record({
          type: constant("advance" as const),
          byMs: constantFrom(10, 100, 500, 1_000, 70_000),
        }),
      },
      {
        weight: 1,
        arbitrary: record({ type: constantFrom("cancel" as const, "request stop" as const) }),
      },
      { weight: 2, arbitrary: record({ type: constant("cancel agent" as const), which: nat(6) }) },
    ),
  });
}

/**
 * A budget of the whole run; always with a number of steps, so that no fault can make a run
 * endless.
 */
function runBudget(): Arbitrary<Budget> {
  const steps = constantFrom(60, 60, 60, 20, 8, 2);
  return record({ any: seldom(2, {}, anyBudget()), steps }).map(({ any, steps: most }) => {
    return { ...any, steps: most };
  });
}

/** Limits on one axis or two, tight and wide: with more, hardly any tree would grow. */
function anyBudget(): Arbitrary<Budget> {
  const tokens = constantFrom(0, 15, 60, 150, 300, 1_000);
  const whole: Arbitrary<Required<Budget>> = record({
    inputTokens: tokens,
    cachedInputTokens: tokens,
    outputTokens: tokens,
    totalTokens: tokens,
    costUsd: constantFrom(0, 0.000_05, 0.000_3, 0.01),
    steps: constantFrom(0, 1, 2, 5),
    toolCalls: constantFrom(0, 1, 3, 8),
    wallTimeMs: constantFrom(0, 100, 600, 5_000),
  });
  const axes = subarray<BudgetAxis>([...AXES], { minLength: 1, maxLength: 2 });
  return record({ whole, axes }).map(({ whole: limits, axes: kept }) => {
    return Object.fromEntries(kept.map((axis) => [axis, limits[axis]]));
  });
}

const AXES: readonly BudgetAxis[] = [
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "totalTokens",
  "costUsd",
  "steps",
  "toolCalls",
  "wallTimeMs",
];

/** `usual`, and once in a while something else. */
function seldom<const T, U>(usually: number, usual: T, other: Arbitrary<U>): Arbitrary<T | U> {
  const common: WeightedArbitrary<T | U> = { weight: usually, arbitrary: constant(usual) };
  const rare: WeightedArbitrary<T | U> = { weight: 1, arbitrary: other };
  return oneof(common, rare);
}

function weighted<const T>(...choices: readonly (readonly [number, T])[]): Arbitrary<T> {
  return oneof(...choices.map(([weight, value]) => ({ weight, arbitrary: constant(value) })));
}
