// Random trees of accounts and random operations on them.

import * as fc from "fast-check";

import type { ModelPrice } from "../../../src/model/model-price.ts";
import { type SpendLimits } from "../../../src/policies/budget.ts";
import { LEDGER_AXES, type LedgerAxis } from "../../../src/protocol/account.ts";
import { UsageSchema, type Usage } from "../../../src/protocol/usage.ts";

/** An account: the index of its parent (modulo the number of earlier accounts), and its limits. */
export interface Seed {
  readonly parent: number;
  readonly limits: SpendLimits;
  /** The amounts that descendants must leave. */
  readonly reserve: SpendLimits;
  /** The time until a fixed deadline. */
  readonly lifeMs: number | undefined;
  /** A time limit that does not elapse while the clock is paused. */
  readonly limitMs: number | undefined;
}

/** An operation. Numbers that select an item are taken modulo the number of items. */
export type Operation =
  | { readonly type: "open"; readonly seed: Seed }
  | {
      readonly type: "ask";
      readonly agent: number;
      readonly input: number;
      readonly output: number;
      readonly price: number;
      readonly least: number | undefined;
    }
  /** `input` and `output` are added to the lease's amounts: below, exactly, or beyond. */
  | {
      readonly type: "settle";
      readonly lease: number;
      readonly input: number;
      readonly output: number;
      readonly cached: number;
    }
  | { readonly type: "release"; readonly lease: number }
  | {
      /**
       * The usage of a running attempt, relative to its lease, and the amount that a further one
       * requests.
       */
      readonly type: "extend";
      readonly lease: number;
      readonly attempt: number;
      /** `undefined` if no attempt has ended, so that several run in parallel. */
      readonly used: number | undefined;
      readonly input: number;
      readonly output: number;
      readonly price: number;
    }
  /** Ends an attempt of a call, which may wait for a further one. */
  | {
      readonly type: "charge";
      readonly lease: number;
      readonly attempt: number;
      readonly used: number;
    }
  /** Raises a limit of the account, occasionally one that it may not have. */
  | {
      readonly type: "grant";
      readonly agent: number;
      readonly axis: number;
      readonly isForeign: boolean;
      readonly percent: number;
      readonly moreMs: number | undefined;
    }
  | { readonly type: "endAgain"; readonly lease: number }
  /** Settles a lease with a usage that cannot be booked. */
  | {
      readonly type: "settleAbsurd";
      readonly lease: number;
      readonly field: keyof Usage;
      readonly figure: number;
    }
  | { readonly type: "chargeToolCall"; readonly agent: number }
  | { readonly type: "cancel"; readonly waiter: number }
  /** Pauses the agent's clock, or resumes it if it is paused. */
  | { readonly type: "turn"; readonly agent: number }
  /** Time that counts against no limit of the agent, such as the time between two executions. */
  | { readonly type: "exclude"; readonly agent: number; readonly ms: number }
  /** Releases everything that the agent holds. */
  | { readonly type: "releaseAll"; readonly agent: number }
  /** Continues in another process with the stored accounts and open leases. */
  | { readonly type: "restart" }
  | { readonly type: "advance"; readonly byMs: number };

export interface Schedule {
  readonly seeds: readonly Seed[];
  readonly operations: readonly Operation[];
}

const FREE: ModelPrice = { inputUsdPerMillion: 0, outputUsdPerMillion: 0 };
export const PRICES: readonly ModelPrice[] = [
  { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
  { inputUsdPerMillion: 2, outputUsdPerMillion: 0 },
  { inputUsdPerMillion: 1, cachedInputUsdPerMillion: 4, outputUsdPerMillion: 1 },
  { inputUsdPerMillion: 0, outputUsdPerMillion: 3 },
  {
    inputUsdPerMillion: 1,
    cacheWriteUsdPerMillion: 3,
    outputUsdPerMillion: 1,
    tiers: [
      { aboveInputTokens: 10, inputUsdPerMillion: 2, outputUsdPerMillion: 4 },
      { aboveInputTokens: 22, inputUsdPerMillion: 5, outputUsdPerMillion: 6 },
    ],
  },
  FREE,
];

const nat = fc.nat({ max: 1_000 });

/** Axes with limits that admit some calls, delay others and refuse the rest; occasionally zero. */
export const MOST: Readonly<Record<LedgerAxis, number>> = {
  steps: 12,
  totalTokens: 240,
  inputTokens: 200,
  cachedInputTokens: 200,
  outputTokens: 120,
  costMicroUsd: 360,
  toolCalls: 4,
};

const oneLimit = fc.record({
  axis: fc.constantFrom(...LEDGER_AXES),
  percent: fc.oneof(
    { weight: 1, arbitrary: fc.constant(0) },
    { weight: 20, arbitrary: fc.integer({ min: 20, max: 100 }) },
  ),
});

const limits: fc.Arbitrary<SpendLimits> = fc
  .array(oneLimit, { maxLength: 2 })
  .map((list) =>
    Object.fromEntries(
      list.map(({ axis, percent }) => [axis, Math.ceil((MOST[axis] * percent) / 100)]),
    ),
  );

const seed: fc.Arbitrary<Seed> = fc.record({
  parent: nat,
  lifeMs: fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined, freq: 10 }),
  limitMs: fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined, freq: 6 }),
  limits,
  reserve: fc.option(limits, { nil: {}, freq: 3 }).map(quarter),
});

/** Reserves are small compared with limits, or nothing would be left to distribute. */
function quarter(amounts: SpendLimits): SpendLimits {
  return Object.fromEntries(
    Object.entries(amounts).map(([axis, amount]) => [axis, Math.ceil(amount / 4)]),
  );
}

const asking: fc.Arbitrary<Operation> = fc.record({
  type: fc.constant("ask" as const),
  agent: nat,
  input: fc.integer({ min: 0, max: 40 }),
  output: fc.integer({ min: 1, max: 30 }),
  price: nat,
  least: fc.option(fc.integer({ min: 2, max: 20 }), { nil: undefined, freq: 2 }),
});

const granting: fc.Arbitrary<Operation> = fc.record({
  type: fc.constant("grant" as const),
  agent: nat,
  axis: nat,
  isForeign: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, fc.boolean()),
  percent: fc.integer({ min: 1, max: 50 }),
  moreMs: fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined, freq: 2 }),
});

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 8, arbitrary: asking },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant("settle" as const),
      lease: nat,
      input: fc.integer({ min: -40, max: 6 }),
      output: fc.integer({ min: -30, max: 6 }),
      cached: fc.nat({ max: 50 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("release" as const), lease: nat }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("extend" as const),
      lease: nat,
      attempt: nat,
      used: fc.option(fc.integer({ min: -40, max: 6 }), { nil: undefined, freq: 3 }),
      input: fc.integer({ min: 0, max: 20 }),
      output: fc.integer({ min: 1, max: 20 }),
      price: nat,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant("charge" as const),
      lease: nat,
      attempt: nat,
      used: fc.integer({ min: -40, max: 6 }),
    }),
  },
  { weight: 1, arbitrary: granting },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("endAgain" as const), lease: nat }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant("settleAbsurd" as const),
      lease: nat,
      field: fc.constantFrom(...UsageSchema().keyof().options),
      figure: fc.constantFrom(NaN, Infinity, -1, 0.5, 2 ** 53, 1e300),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("chargeToolCall" as const), agent: nat }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("cancel" as const), waiter: nat }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("turn" as const), agent: nat }) },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.record({
        type: fc.constant("exclude" as const),
        agent: nat,
        ms: fc.integer({ min: 0, max: 10 }),
      }),
      fc.record({ type: fc.constant("releaseAll" as const), agent: nat }),
      fc.constant({ type: "restart" as const }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant("advance" as const),
      byMs: fc.integer({ min: 1, max: 15 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("open" as const), seed }) },
);

/** Trees of up to seven accounts and up to `length` operations. */
export function schedules(length: number): fc.Arbitrary<Schedule> {
  return fc.record({
    seeds: fc.array(seed, { minLength: 1, maxLength: 7, size: "max" }),
    operations: fc.array(operation, { maxLength: length, size: "max" }),
  });
}

/**
 * A crowd of up to `length` waiting requests on four accounts, in which occasionally a call ends or
 * a grant arrives: most requests wait, and for long.
 */
export function crowds(length: number): fc.Arbitrary<Schedule> {
  const crowded = fc.oneof(
    { weight: 6, arbitrary: asking },
    { weight: 4, arbitrary: operation },
    { weight: 1, arbitrary: granting },
  );
  return fc.record({
    seeds: fc.array(seed, { minLength: 4, maxLength: 4 }),
    operations: fc.array(crowded, { minLength: length, maxLength: length, size: "max" }),
  });
}
