// Arbitrary worlds for the equivalence property: a tree of scripts, the roles that follow them, and
// the hooks and guards around them. Everything in a world is plain data and depends only on an
// agent's own place and step, so that interleavings do not matter.

import * as fc from "fast-check";

import type { Budget } from "../../../src/policies/budget.ts";

/**
 * The acts of one agent, model call by model call; then it answers. `key` names the agent in its
 * task.
 */
export interface Plan {
  readonly key: string;
  readonly acts: readonly Act[];
}

export type Act =
  | { readonly type: "says"; readonly ending: "stop" | "length" | "unknown" | "error" }
  | { readonly type: "declines" | "empty" }
  | {
      readonly type: "fails";
      readonly how: "overloaded" | "lost" | "too long" | "refused" | "foreign";
    }
  | {
      readonly type: "calls";
      readonly calls: readonly Call[];
      /** The provider gives all calls of the reply one id. */
      readonly hasTwins: boolean;
      readonly isMeasured: boolean;
    };

export type Call =
  | { readonly type: "note"; readonly mode: NoteMode }
  | {
      readonly type: "pay";
      readonly mode: PayMode;
      readonly verdict: "approve" | "change" | "deny";
    }
  | { readonly type: "fetch"; readonly verdict: "result" | "failure" }
  | { readonly type: "finish"; readonly fits: boolean }
  | { readonly type: "unknown tool" | "broken JSON" | "misfit" | "unknown role" }
  | { readonly type: "spawn"; readonly role: number; readonly plan: Plan }
  | { readonly type: "queue"; readonly role: number; readonly plans: readonly Plan[] };

export type NoteMode = "text" | "json" | "nothing" | "slow" | "throws" | "denied";
export type PayMode = "always" | "reason" | "later" | "never" | "throws";

export const HOOK_NAMES = [
  "userInput",
  "instructions",
  "addMessage",
  "dropResult",
  "beforeTool",
  "afterTool",
  "subagentStart",
  "veto",
  "twice",
  "wrapTool",
  "requestStop",
  "processorThrows",
  "keepFew",
] as const;
export type HookName = (typeof HOOK_NAMES)[number];

export const CONDITION_NAMES = ["noted", "cutOff", "thirdStep", "bothTools"] as const;
export type ConditionName = (typeof CONDITION_NAMES)[number];

export interface RolePlan {
  readonly budget: Budget;
  readonly hooks: readonly HookName[];
  readonly conditions: readonly ConditionName[];
  readonly hasOutput: boolean;
  readonly wrapsUp: boolean;
  readonly window: number | undefined;
  readonly canCount: boolean;
  readonly inherits: boolean;
  readonly maxOutputTokens: number;
}

export interface World {
  readonly root: Plan;
  /** By depth, then by the number that a call names. */
  readonly roles: readonly (readonly RolePlan[])[];
  /** Hooks of all agents. */
  readonly hooks: readonly HookName[];
  readonly maxBreadth: number;
}

/** Roles at each depth. */
const WIDTHS = [1, 2, 2];
const DEEPEST = WIDTHS.length - 1;

/**
 * `wide`: several subagents in parallel, with budgets for leaves only, since timing decides which
 * of several gets the rest of a common budget. Otherwise one subagent at a time, with budgets at
 * any level.
 */
export function worlds(kind: "wide" | "narrow"): fc.Arbitrary<World> {
  const isWide = kind === "wide";
  return fc
    .record({
      root: plan(0),
      roles: fc.tuple(...WIDTHS.map((width, depth) => rolePlans(width, depth, isWide))),
      hooks: fc.subarray([...HOOK_NAMES], { maxLength: 2 }),
      maxBreadth: fc.constantFrom(5, 5, 1),
    })
    .map((world) => ({
      ...world,
      root: withKeys(isWide ? world.root : narrowed(world.root), "r"),
    }));
}

/**
 * The same world without limits on tool calls. An agent that exceeds such a limit stops instead of
 * calling an approver.
 */
export function withoutToolLimits(world: World): World {
  const roles = world.roles.map((plans) =>
    plans.map((plan) => {
      const { toolCalls: _limit, ...budget } = plan.budget;
      return { ...plan, budget };
    }),
  );
  return { ...world, roles };
}

function rolePlans(
  width: number,
  depth: number,
  isWide: boolean,
): fc.Arbitrary<readonly RolePlan[]> {
  const isLeaf = depth === DEEPEST;
  const budget = isLeaf || !isWide ? budgets(isLeaf) : fc.constant({});
  return fc.array(
    fc.record({
      budget: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: budget }),
      hooks: fc.oneof(
        { weight: 2, arbitrary: fc.constant([]) },
        { weight: 1, arbitrary: fc.subarray([...HOOK_NAMES], { maxLength: 3 }) },
      ),
      conditions: fc.oneof(
        { weight: 3, arbitrary: fc.constant([]) },
        { weight: 1, arbitrary: fc.subarray([...CONDITION_NAMES], { minLength: 1 }) },
      ),
      hasOutput: often(3, false, true),
      wrapsUp: fc.boolean(),
      window: fc.constantFrom(undefined, undefined, 40, 200),
      canCount: fc.boolean(),
      inherits: fc.boolean(),
      maxOutputTokens: fc.constantFrom(8_192, 20),
    }),
    { minLength: width, maxLength: width },
  );
}

/**
 * Limits on one or two axes. Tool calls are limited for leaves only: over a limit an agent stops,
 * and a paused subagent is cancelled. A time limit is shorter than any pause.
 */
function budgets(isLeaf: boolean): fc.Arbitrary<Budget> {
  const tokens = fc.constantFrom(60, 300, 2_000);
  const all: fc.Arbitrary<Required<Budget>> = fc.record({
    steps: fc.integer({ min: 0, max: 6 }),
    totalTokens: tokens,
    inputTokens: tokens,
    cachedInputTokens: tokens,
    outputTokens: fc.constantFrom(3, 12, 40),
    costUsd: fc.constantFrom(0.000_1, 0.01),
    timeMs: fc.constant(500),
    toolCalls: fc.integer({ min: 0, max: 4 }),
  });
  const axes = isLeaf ? AXES : AXES.filter((axis) => axis !== "toolCalls");
  return fc
    .record({ all, kept: fc.subarray([...axes], { minLength: 1, maxLength: 2 }) })
    .map(({ all: limits, kept }) => Object.fromEntries(kept.map((axis) => [axis, limits[axis]])));
}

const AXES = [
  "steps",
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costUsd",
  "timeMs",
  "toolCalls",
] as const;

function plan(depth: number): fc.Arbitrary<Plan> {
  const acts = fc.array(act(depth), { maxLength: 5 - depth, size: "max" });
  const first = depth < DEEPEST ? callsAct(depth, 1) : act(depth);
  return fc
    .tuple(first, acts)
    .map(([head, rest]) => ({ key: "", acts: [head, ...rest] }) satisfies Plan);
}

function act(depth: number): fc.Arbitrary<Act> {
  return fc.oneof(
    { weight: 8, arbitrary: callsAct(depth, 0) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant("says" as const),
        ending: fc.constantFrom("stop", "length", "unknown", "error"),
      }),
    },
    { weight: 1, arbitrary: fc.record({ type: fc.constantFrom("declines", "empty", "empty") }) },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant("fails" as const),
        how: fc.constantFrom(
          "overloaded",
          "overloaded",
          "lost",
          "lost",
          "too long",
          "refused",
          "foreign",
        ),
      }),
    },
  );
}

function callsAct(depth: number, least: number): fc.Arbitrary<Act> {
  return fc.record({
    type: fc.constant("calls" as const),
    calls: fc.array(call(depth), { minLength: Math.max(1, least), maxLength: 4, size: "max" }),
    hasTwins: often(5, false, true),
    isMeasured: often(3, true, false),
  });
}

function call(depth: number): fc.Arbitrary<Call> {
  const simple = [
    {
      weight: 4,
      arbitrary: fc.record({
        type: fc.constant("note" as const),
        mode: fc.constantFrom("text", "json", "nothing", "slow", "throws", "denied", "denied"),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        type: fc.constant("pay" as const),
        mode: fc.constantFrom("always", "reason", "later", "never", "throws"),
        verdict: fc.constantFrom("approve", "approve", "change", "deny"),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant("fetch" as const),
        verdict: fc.constantFrom("result", "failure"),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant("finish" as const), fits: often(2, true, false) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constantFrom("unknown tool", "broken JSON", "misfit", "unknown role"),
      }),
    },
  ] satisfies fc.WeightedArbitrary<Call>[];
  if (depth === DEEPEST) return fc.oneof(...simple);
  return fc.oneof(
    ...simple,
    {
      weight: 4,
      arbitrary: fc.record({
        type: fc.constant("spawn" as const),
        role: fc.nat({ max: 1 }),
        plan: plan(depth + 1),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant("queue" as const),
        role: fc.nat({ max: 1 }),
        plans: fc.array(plan(depth + 1), { minLength: 1, maxLength: 2 }),
      }),
    },
  );
}

/** At most one subagent in each reply. */
function narrowed({ key, acts }: Plan): Plan {
  return {
    key,
    acts: acts.map((one) => {
      if (one.type !== "calls") return one;
      const first = one.calls.findIndex(({ type }) => type === "spawn" || type === "queue");
      return { ...one, calls: one.calls.map((call, index) => alone(call, index === first)) };
    }),
  };
}

function alone(call: Call, isFirst: boolean): Call {
  if (call.type !== "spawn" && call.type !== "queue") return call;
  if (!isFirst) return { type: "note", mode: "slow" };
  if (call.type === "spawn") return { ...call, plan: narrowed(call.plan) };
  return { ...call, plans: call.plans.slice(0, 1).map(narrowed) };
}

/** Gives every agent a key of its own: its place in the script. */
function withKeys({ acts }: Plan, key: string): Plan {
  return {
    key,
    acts: acts.map((one, step) =>
      one.type === "calls"
        ? {
            ...one,
            calls: one.calls.map((call, index) => {
              const place = `${key}.${step}-${index}`;
              if (call.type === "spawn") return { ...call, plan: withKeys(call.plan, place) };
              if (call.type !== "queue") return call;
              const plans = call.plans.map((each, at) => withKeys(each, `${place}-${at}`));
              return { ...call, plans };
            }),
          }
        : one,
    ),
  };
}

function often<const T, const U>(usually: number, usual: T, other: U): fc.Arbitrary<T | U> {
  return fc.constantFrom<(T | U)[]>(...Array.from({ length: usually }, () => usual), other);
}
