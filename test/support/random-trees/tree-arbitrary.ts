// Arbitrary worlds of the tree property. Every tree ends by itself: scripts are finite, and the
// steps of a run are limited.

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

import type { BudgetAxis } from "../../../src/protocol/account.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import type { BudgetShare } from "../../../src/policies/budget-share.ts";
import type { FailurePolicy } from "../../../src/policies/delegation-policy.ts";
import {
  HOOK_POINT_NAMES,
  nameOf,
  TOOL_KINDS,
  type Act,
  type Moment,
  type Report,
  type ToolKind,
  type World,
  type Which,
  type WorldCall,
  type WorldGuard,
  type WorldHook,
  type WorldRole,
} from "./tree-world.ts";

const ROLE_COUNT = 3;

/**
 * The rate of faults: in calm worlds few occur, and trees grow; in wild ones anything may happen.
 */
type Mood = "calm" | "wild";

/** Any world. */
export function worlds(): Arbitrary<World> {
  return oneof(
    { weight: 3, arbitrary: worldsOf("calm") },
    { weight: 2, arbitrary: worldsOf("wild") },
  );
}

function worldsOf(mood: Mood): Arbitrary<World> {
  const isCalm = mood === "calm";
  return record({
    roles: tuple(rootRole(mood), ...Array.from({ length: ROLE_COUNT - 1 }, () => role(mood))),
    limits: isCalm
      ? record({
          maxDepth: weighted([6, 3], [1, 2]),
          maxBreadthPerParent: weighted([3, 6], [1, 3]),
          maxTotalSubagents: weighted([3, 14], [1, 7]),
        })
      : record({
          maxDepth: weighted([12, 3], [5, 2], [3, 1], [1, 0]),
          maxBreadthPerParent: weighted([12, 4], [5, 2], [3, 1], [1, 0]),
          maxTotalSubagents: weighted([12, 8], [5, 3], [3, 1], [1, 0]),
        }),
    budget: runBudget(mood),
    concurrency: record({
      modelCalls: weighted([4, 8], [1, 2], [1, 1]),
      toolCalls: weighted([4, 8], [1, 2], [1, 1]),
    }),
    maxAttempts: integer({ min: 1, max: 3 }),
    failingId: seldom(
      7,
      undefined,
      record({ count: integer({ min: 1, max: 8 }), how: weighted([2, "throws"], [1, "twin"]) }),
    ),
    sink: weighted([8, "none"], [1, "throws"], [1, "fails later"]),
    tracing: record({
      failsAt: weighted([16, "nothing"], [1, "place"], [1, "within"], [1, "within, late"]),
      call: integer({ min: 1, max: 30 }),
    }),
    approver: record({
      type: weighted(
        [6, "nobody"],
        [3, "approves"],
        [1, "denies"],
        [1, "throws"],
        [1, "slow"],
        [1, "never"],
      ),
      answerTimeoutMs: weighted([4, undefined], [1, 300]),
      unansweredPolicy: weighted([6, "pause"], [1, "deny"]),
    }),
    moments: array(moment(), { maxLength: 5, size: "max" }),
    answers: array(boolean(), { maxLength: 6, size: "max" }),
    pauseMs: constantFrom(0, 50, 100_000),
    grants: array(record({ which: nat(5), amount: constantFrom(1, 2, 5, 100) }), {
      maxLength: 3,
      size: "max",
    }),
    revivals: weighted([2, 0], [1, 1], [1, 2]),
    forkAt: seldom(5, undefined, integer({ min: 1, max: 4 })),
  });
}

/** A root that usually delegates in its first reply; otherwise trees would stay small. */
function rootRole(mood: Mood): Arbitrary<WorldRole> {
  const spawns = array(spawnCall(), { minLength: 1, maxLength: 4, size: "max" });
  const first = record({ delegates: weighted([9, true], [1, false]), spawns });
  return record({ plain: role(mood), first }).map(
    ({ plain, first: { delegates, spawns: list } }) => {
      const begin: Act = { type: "calls", calls: list, report: "exact", ticks: 0 };
      return delegates ? { ...plain, counting: "counts", script: [begin, ...plain.script] } : plain;
    },
  );
}

function role(mood: Mood): Arbitrary<WorldRole> {
  const isCalm = mood === "calm";
  const rarely = isCalm ? 12 : 4;
  return record({
    script: array(act(mood), { minLength: 0, maxLength: 6, size: "max" }),
    subagents: array(weighted([isCalm ? 40 : 12, true], [1, false]), {
      minLength: ROLE_COUNT,
      maxLength: ROLE_COUNT,
    }),
    budget: seldom(rarely, {}, anyBudget()),
    limits: seldom(
      rarely,
      {},
      constantFrom(
        { maxDepth: 1 },
        { maxDepth: 2 },
        { maxDepth: 5 },
        { maxBreadthPerParent: 1 },
        { maxBreadthPerParent: 3 },
        { maxTotalSubagents: 1 },
        { maxTotalSubagents: 2 },
      ),
    ),
    maxOutputTokens: weighted([2, 5], [2, 20], [1, 500]),
    hasOutput: weighted([5, false], [1, true]),
    counting: isCalm
      ? constant("counts" as const)
      : weighted([16, "counts"], [4, "cannot count"], [1, "throws"], [1, "nonsense"]),
    inherits: boolean(),
    windowSize: nat(4),
    tells: boolean(),
    deniedTools: weighted([4, []], [1, ["quick"]], [1, ["slow", "asks"]]),
    allowedTools: weighted([6, undefined], [1, ["quick", "slow"]], [1, []]),
    guards: seldom(rarely, [], array(guard(), { minLength: 1, maxLength: 2 })),
    hooks: seldom(rarely, [], array(hook(), { minLength: 1, maxLength: 2 })),
    background: weighted([5, true], [1, false]),
    parentEndPolicy: weighted([2, "await"], [1, "cancel"], [2, "detach"]),
    failurePolicy: weighted<FailurePolicy>(
      [3, "isolate"],
      [2, "fail_fast"],
      [1, { quorum: 1 }],
      [1, { quorum: 2 }],
    ),
    share: share(),
    reserve: seldom(
      3,
      {},
      constantFrom<Budget>({ steps: 1 }, { totalTokens: 60 }, { toolCalls: 1 }),
    ),
    maxIdentical: weighted<number | "unlimited">([3, 2], [1, 1], [1, 0], [2, "unlimited"]),
    hasDynamicRoles: weighted([5, false], [1, true]),
    wrapsUp: weighted([4, false], [1, true]),
    compacts: weighted([6, false], [1, true]),
  });
}

function share(): Arbitrary<BudgetShare> {
  return oneof(
    { weight: 4, arbitrary: constant({ type: "pool" as const }) },
    {
      weight: 1,
      arbitrary: record({ type: constant("pool" as const), maxShare: constantFrom(0.5, 0.25) }),
    },
    { weight: 1, arbitrary: record({ type: constant("fixed" as const), budget: anyBudget() }) },
    { weight: 1, arbitrary: constant({ type: "even" as const }) },
    {
      weight: 1,
      arbitrary: constant({ type: "weighted" as const, weights: { [nameOf(1)]: 3 } }),
    },
  );
}

function guard(): Arbitrary<WorldGuard> {
  return record({
    tool: constantFrom<ToolKind>("quick", "slow", "asks"),
    says: weighted([3, "deny"], [1, "ask"], [1, "throws"]),
  });
}

function hook(): Arbitrary<WorldHook> {
  return record({
    point: constantFrom(...HOOK_POINT_NAMES),
    nth: integer({ min: 1, max: 4 }),
    does: weighted([2, "throws"], [1, "rejects"], [2, "patches"]),
  });
}

function act(mood: Mood): Arbitrary<Act> {
  const report: Arbitrary<Report> = weighted(
    [8, "exact"],
    [2, "none"],
    [2, "too much"],
    [1, "nonsense"],
  );
  const ticks = weighted([4, 0], [2, 1], [2, 3], [1, 5]);
  const calls = array(call(), { minLength: 1, maxLength: 4, size: "max" });
  const cutOff = weighted([4, false], [1, true]);
  return oneof(
    {
      weight: mood === "calm" ? 60 : 14,
      arbitrary: record({ type: constant("calls" as const), calls, report, ticks }),
    },
    {
      weight: mood === "calm" ? 16 : 4,
      arbitrary: record({ type: constant("says" as const), report, ticks, cutOff }),
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
    { weight: 1, arbitrary: record({ type: constant("hangs" as const), obeysSignal: boolean() }) },
    { weight: 1, arbitrary: record({ type: constantFrom("empty" as const, "no reply" as const) }) },
  );
}

function call(): Arbitrary<WorldCall> {
  return oneof(
    { weight: 18, arbitrary: spawnCall() },
    { weight: 9, arbitrary: verb() },
    {
      weight: 7,
      arbitrary: record({
        type: constant("tool" as const),
        kind: oneof(
          { weight: 3, arbitrary: constantFrom(...TOOL_KINDS) },
          { weight: 2, arbitrary: constantFrom<ToolKind>("quick", "slow", "asks") },
        ),
      }),
    },
    { weight: 1, arbitrary: constant({ type: "external" as const }) },
    {
      weight: 2,
      arbitrary: record({
        type: constant("pair" as const),
        role: nat(ROLE_COUNT - 1),
        denied: weighted<ToolKind | undefined>([1, undefined], [1, "quick"]),
      }),
    },
    {
      weight: 1,
      arbitrary: record({ type: constant("draft" as const), steps: constantFrom(0, 1, 3) }),
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
  return record({
    type: constant("spawn" as const),
    role: nat(ROLE_COUNT - 1),
    isBackground: weighted([3, true], [2, false]),
    isSame: weighted([5, false], [1, true]),
    includeResultsFrom: seldom(6, undefined, which()),
  });
}

function verb(): Arbitrary<WorldCall> {
  return oneof(
    {
      weight: 4,
      arbitrary: record({
        type: constant("continue" as const),
        child: which(),
        isBackground: boolean(),
      }),
    },
    { weight: 1, arbitrary: constant({ type: "list" as const }) },
    {
      weight: 2,
      arbitrary: record({
        type: constant("wait" as const),
        child: seldom(1, undefined, which()),
        timeoutSeconds: weighted([2, undefined], [1, 0], [1, 0.3]),
      }),
    },
    { weight: 1, arbitrary: record({ type: constant("message" as const), child: which() }) },
    { weight: 2, arbitrary: record({ type: constant("cancel" as const), child: which() }) },
  );
}

function which(): Arbitrary<Which> {
  return weighted([4, 0], [2, 1], [1, 2], [1, 3]);
}

function moment(): Arbitrary<Moment> {
  return record({
    at: oneof(
      record({ ticks: integer({ min: 0, max: 12 }) }),
      record({ event: integer({ min: 1, max: 160 }) }),
    ),
    act: oneof(
      {
        weight: 4,
        arbitrary: record({
          type: constant("advance" as const),
          byMs: constantFrom(10, 100, 500, 1_000, 70_000),
        }),
      },
      { weight: 6, arbitrary: constant({ type: "pause" as const }) },
      {
        weight: 2,
        arbitrary: record({ type: constantFrom("cancel" as const, "request stop" as const) }),
      },
      { weight: 3, arbitrary: record({ type: constant("cancel agent" as const), which: nat(6) }) },
      { weight: 1, arbitrary: record({ type: constant("steer" as const), which: nat(6) }) },
      {
        weight: 2,
        arbitrary: record({
          type: constant("grant" as const),
          which: nat(6),
          amount: constantFrom(1, 3, 50),
        }),
      },
    ),
  });
}

/** A budget of the whole run; always with a step limit, so that no fault can make a run endless. */
function runBudget(mood: Mood): Arbitrary<Budget> {
  const isCalm = mood === "calm";
  const steps = isCalm ? constantFrom(60, 30) : constantFrom(60, 60, 60, 20, 8, 2);
  return record({ any: seldom(isCalm ? 8 : 2, {}, anyBudget()), steps }).map(
    ({ any, steps: most }) => {
      return { ...any, steps: most };
    },
  );
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
    timeMs: constantFrom(0, 100, 600, 5_000),
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
  "timeMs",
];

/** Usually `usual`, occasionally something else. */
function seldom<const T, U>(usually: number, usual: T, other: Arbitrary<U>): Arbitrary<T | U> {
  const common: WeightedArbitrary<T | U> = { weight: usually, arbitrary: constant(usual) };
  const rare: WeightedArbitrary<T | U> = { weight: 1, arbitrary: other };
  return oneof(common, rare);
}

function weighted<const T>(...choices: readonly (readonly [number, T])[]): Arbitrary<T> {
  return oneof(...choices.map(([weight, value]) => ({ weight, arbitrary: constant(value) })));
}
