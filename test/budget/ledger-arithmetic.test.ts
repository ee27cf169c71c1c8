// Goal: the arithmetic of the ledger is exact at every boundary, for every axis, on the account and
// on every ancestor.
// Method: hand-made accounts, one operation at a time, complete values compared.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { LeaseAsk } from "../../src/budget/lease.ts";
import type { ModelPrice } from "../../src/model/model-price.ts";
import { openAccount } from "../../src/budget/ledger.ts";
import {
  NO_AMOUNTS,
  toLedgerLimits,
  toSpendAxis,
  type Amounts,
  type SpendLimits,
} from "../../src/policies/budget.ts";
import {
  AccountSchema,
  BUDGET_AXES,
  LEDGER_AXES,
  type LedgerAccount,
} from "../../src/protocol/account.ts";
import { AgentIdSchema } from "../../src/protocol/ids.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";
import { core, type Path } from "../support/ledger-path.ts";
import { ask, callUsage } from "../support/ledger-fixture.ts";

const DOLLARS: ModelPrice = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

/** Returns accounts from the leaf up: `lead/a/b`, `lead/a`, `lead`. */
function pathOf(...limitsFromLeaf: readonly SpendLimits[]): Path {
  const accounts: LedgerAccount[] = [];
  for (const [index, limits] of limitsFromLeaf.toReversed().entries()) {
    const path = ["lead", "a", "b"].slice(0, index + 1).join("/");
    const fields = {
      agentId: AgentIdSchema().parse(path),
      agentPath: path,
      limits,
      deadlineAtMs: undefined,
      nowMs: 0,
    };
    accounts.unshift(openAccount(fields, accounts[0]));
  }
  return accounts;
}

function hold(given: Partial<Amounts>): Amounts {
  return { ...NO_AMOUNTS, ...given };
}

function reserved(path: Path, question: LeaseAsk): { path: Path; hold: Amounts } {
  const outcome = core.reserve(path, question, 0);
  if (outcome.type !== "granted")
    throw new Error(`Expected a lease, got ${JSON.stringify(outcome)}.`);
  return outcome;
}

/** Returns the path after a call that used exactly these tokens. */
function spent(path: Path, inputTokens: number, outputTokens: number): Path {
  const lease = reserved(path, ask(inputTokens, outputTokens));
  return core.settle(lease.path, lease.hold, callUsage(inputTokens, outputTokens));
}

test("reserves every axis of a call on the account and all its ancestors", () => {
  const path = pathOf({}, { totalTokens: 1_000 }, {});
  const lease = reserved(path, ask(30, 20, DOLLARS));
  const expected = hold({
    steps: 1,
    totalTokens: 50,
    inputTokens: 30,
    cachedInputTokens: 30,
    outputTokens: 20,
    costMicroUsd: 70,
  });
  expect(lease.hold).toEqual(expected);
  expect(lease.path).toEqual(path.map((account) => ({ ...account, reserved: expected })));
  expect(path).toEqual(pathOf({}, { totalTokens: 1_000 }, {}));
});

test("restores an account from JSON unchanged", () => {
  const { path } = reserved(pathOf({ totalTokens: 100 }, { costMicroUsd: 5 }), ask(1, 1, DOLLARS));
  expect(
    AccountSchema()
      .array()
      .parse(JSON.parse(JSON.stringify(path))),
  ).toEqual(path);
});

const CLAMPED: readonly (readonly [string, SpendLimits, LeaseAsk, number])[] = [
  ["wanted, without limits", {}, ask(10, 50), 50],
  [
    "wanted, where the room is exactly that",
    { totalTokens: 60, outputTokens: 50 },
    ask(10, 50),
    50,
  ],
  ["left in total tokens", { totalTokens: 59 }, ask(10, 50), 49],
  ["left in output tokens", { outputTokens: 7 }, ask(10, 50), 7],
  ["payable after the input", { costMicroUsd: 29 }, ask(10, 50, DOLLARS), 9],
  ["payable, where the price divides the rest", { costMicroUsd: 30 }, ask(10, 50, DOLLARS), 10],
  [
    "wanted, where output is free",
    { costMicroUsd: 10 },
    ask(10, 50, { inputUsdPerMillion: 1, outputUsdPerMillion: 0 }),
    50,
  ],
  [
    "allowed by the tightest of three axes",
    { totalTokens: 40, outputTokens: 20, costMicroUsd: 26 },
    ask(10, 50, DOLLARS),
    8,
  ],
  ["one, where no more is left", { totalTokens: 11 }, ask(10, 50), 1],
];

for (const [what, limits, question, cap] of CLAMPED) {
  proves(["X1"], `clamps the output cap to what is ${what}`, () => {
    expect(reserved(pathOf(limits), question).hold.outputTokens).toBe(cap);
    expect(reserved(pathOf({}, limits, {}), question).hold.outputTokens).toBe(cap);
    expect(reserved(pathOf({}, {}, limits), question).hold.outputTokens).toBe(cap);
  });
}

test("clamps the output cap to unspent tokens, regardless of calls in flight", () => {
  const root = pathOf({ totalTokens: 100 });
  const first = reserved(root, ask(30, 30));
  expect(core.reserve(first.path, ask(30, 30), 0)).toEqual({ type: "wait" });
  const settled = core.settle(first.path, first.hold, callUsage(30, 30));
  expect(reserved(settled, ask(30, 30)).hold.outputTokens).toBe(10);
});

proves(["X2"], "waits for room that calls in flight hold, on any account of the path", () => {
  for (const path of [
    pathOf({ steps: 1 }, {}, {}),
    pathOf({}, { totalTokens: 99 }, {}),
    pathOf({}, {}, { outputTokens: 30 }),
  ]) {
    const first = reserved(path, ask(30, 20));
    expect(core.reserve(first.path, ask(30, 20), 0)).toEqual({ type: "wait" });
    const back = core.release(first.path, first.hold);
    expect(back).toEqual(path);
  }
});

const EXACT: readonly (readonly [SpendLimits, LeaseAsk, LeaseAsk])[] = [
  [{ inputTokens: 30 }, ask(30, 5), ask(31, 5)],
  [{ cachedInputTokens: 30 }, ask(30, 5), ask(31, 5)],
  [{ totalTokens: 31 }, ask(30, 5), ask(31, 5)],
  [{ costMicroUsd: 32 }, ask(30, 5, DOLLARS), ask(31, 5, DOLLARS)],
];

for (const [limits, fits, tooMuch] of EXACT) {
  const axis = Object.keys(limits).join();
  proves(
    ["X2"],
    `grants a call that needs exactly the remaining ${axis}, and refuses one more at once`,
    () => {
      expect(core.reserve(pathOf({}, limits), fits, 0).type).toBe("granted");
      expect(core.reserve(pathOf({}, limits), tooMuch, 0).type).toBe("refused");
    },
  );
}

proves(
  ["X2"],
  "names the tightest ancestor, its axis, its usage and the request in a refusal",
  () => {
    const path = spent(
      pathOf({ totalTokens: 90 }, { totalTokens: 50 }, { totalTokens: 100 }),
      20,
      20,
    );
    expect(core.reserve(path, ask(10, 5), 0)).toEqual({
      type: "refused",
      refusal: {
        axis: "totalTokens",
        accountPath: "lead/a",
        maximum: 50,
        spent: 40,
        requested: 11,
      },
    });
  },
);

test("names a common ancestor that a sibling made the tightest", () => {
  const [leaf, root] = pathOf({ totalTokens: 60 }, { totalTokens: 100 });
  if (leaf === undefined || root === undefined) throw new Error("two accounts");
  const [, usedRoot] = spent([{ ...leaf, agentPath: "lead/other" }, root], 30, 30);
  if (usedRoot === undefined) throw new Error("the root");
  expect(core.reserve([leaf, usedRoot], ask(40, 5), 0)).toEqual({
    type: "refused",
    refusal: { axis: "totalTokens", accountPath: "lead", maximum: 100, spent: 60, requested: 41 },
  });
});

proves(["X2", "X3"], "allows N steps, and refuses N + 1", () => {
  const one = spent(pathOf({ steps: 2 }), 1, 1);
  const two = spent(one, 1, 1);
  expect(core.reserve(two, ask(1, 1), 0)).toEqual({
    type: "refused",
    refusal: { axis: "steps", accountPath: "lead", maximum: 2, spent: 2, requested: 1 },
  });
});

const ZERO_ASKS: readonly (keyof SpendLimits)[] = [
  "steps",
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costMicroUsd",
];

for (const axis of ZERO_ASKS) {
  proves(["X3"], `refuses calls under a limit of zero ${axis}`, () => {
    const outcome = core.reserve(pathOf({}, { [axis]: 0 }), ask(1, 1, DOLLARS), 0);
    expect(
      outcome.type === "refused" ? [outcome.refusal.axis, outcome.refusal.maximum] : outcome,
    ).toEqual([toSpendAxis(axis), 0]);
  });
}

test("grants calls of a free model under a cost limit of zero", () => {
  const free = { inputUsdPerMillion: 0, outputUsdPerMillion: 0 };
  expect(reserved(pathOf({ costMicroUsd: 0 }), ask(10, 10, free)).hold.costMicroUsd).toBe(0);
});

test("rounds the cost of a lease up, and assumes uncached input", () => {
  const price = {
    inputUsdPerMillion: 0.25,
    cachedInputUsdPerMillion: 0.025,
    outputUsdPerMillion: 2,
  };
  expect(reserved(pathOf({}), ask(10, 1, price)).hold.costMicroUsd).toBe(5);
});

proves(["S7.7"], "reserves and clamps at the cached input price if that is higher", () => {
  const price = { inputUsdPerMillion: 1, cachedInputUsdPerMillion: 4, outputUsdPerMillion: 2 };
  expect(reserved(pathOf({}), ask(10, 5, price)).hold.costMicroUsd).toBe(50);
  expect(reserved(pathOf({ costMicroUsd: 46 }), ask(10, 5, price)).hold).toMatchObject({
    outputTokens: 3,
    costMicroUsd: 46,
  });
  expect(core.reserve(pathOf({ costMicroUsd: 41 }), ask(10, 5, price), 0)).toMatchObject({
    type: "refused",
    refusal: { axis: "costUsd", requested: 0.000042 },
  });
});

proves(
  ["R143", "R145"],
  "books a settlement as own usage and once in the total of every ancestor, and releases the hold",
  () => {
    const path = pathOf({}, {}, { totalTokens: 100 });
    const lease = reserved(path, ask(30, 20, DOLLARS));
    const usage = callUsage(28, 3, { cachedInputTokens: 8, reasoningTokens: 1, costUsd: 0.000009 });
    const settled = core.settle(lease.path, lease.hold, usage);
    expect(settled).toEqual([
      { ...path[0], own: usage, total: usage },
      { ...path[1], total: usage },
      { ...path[2], total: usage },
    ]);
  },
);

proves(
  ["X1"],
  "books usage beyond a lease as excess on every account, and exhausts its axes",
  () => {
    const path = pathOf({}, { totalTokens: 60, outputTokens: 20 });
    const lease = reserved(path, ask(30, 20));
    const settled = core.settle(lease.path, lease.hold, callUsage(45, 26));
    const excess = hold({ totalTokens: 21, inputTokens: 15, outputTokens: 6 });
    expect(settled.map((account) => account.excess)).toEqual([excess, excess]);
    expect(settled.map((account) => account.total.totalTokens)).toEqual([71, 71]);
    expect(settled.map((account) => account.reserved)).toEqual([NO_AMOUNTS, NO_AMOUNTS]);
    expect(core.reserve(settled, ask(1, 1), 0)).toEqual({
      type: "refused",
      refusal: { axis: "totalTokens", accountPath: "lead", maximum: 60, spent: 71, requested: 2 },
    });
    expect(core.exhausted(settled, 0)).toEqual({
      axis: "totalTokens",
      accountPath: "lead",
      maximum: 60,
      spent: 71,
      requested: 0,
    });
  },
);

test("adds up several excesses", () => {
  const twice = [1, 2].reduce<Path>((path) => {
    const lease = reserved(path, ask(5, 5));
    return core.settle(lease.path, lease.hold, callUsage(7, 5));
  }, pathOf({}));
  expect(twice[0]?.excess).toEqual(hold({ totalTokens: 4, inputTokens: 4 }));
});

test("restores the accounts when a lease is released", () => {
  const path = pathOf({ steps: 1 }, { totalTokens: 100 });
  const lease = reserved(path, ask(30, 20));
  expect(core.release(lease.path, lease.hold)).toEqual(path);
});

proves(["X3"], "allows N tool calls of any agents in the tree, and refuses N + 1", () => {
  const path = pathOf({ toolCalls: 9 }, {}, { toolCalls: 2 });
  const twice = [1, 2].reduce<Path>((current) => {
    const charged = core.chargeToolCall(current, 0);
    if ("axis" in charged) throw new Error("Expected it to be charged.");
    return charged;
  }, path);
  const two = { ...NO_USAGE, toolCalls: 2 };
  expect(twice).toEqual([
    { ...path[0], own: two, total: two },
    { ...path[1], total: two },
    { ...path[2], total: two },
  ]);
  expect(core.chargeToolCall(twice, 0)).toEqual({
    axis: "toolCalls",
    accountPath: "lead",
    maximum: 2,
    spent: 2,
    requested: 1,
  });
  expect(core.chargeToolCall(pathOf({ toolCalls: 0 }), 0)).toEqual({
    axis: "toolCalls",
    accountPath: "lead",
    maximum: 0,
    spent: 0,
    requested: 1,
  });
});

test("counts tool calls and steps on separate axes", () => {
  const path = spent(pathOf({ steps: 1, totalTokens: 2, toolCalls: 1 }), 1, 1);
  expect("axis" in core.chargeToolCall(path, 0)).toBe(false);
});

for (const axis of BUDGET_AXES.filter((one) => !/^(?:steps|toolCalls|timeMs)$/.test(one))) {
  proves(["X3"], `exhausts ${axis} when their limit is reached, not before`, () => {
    const unit = axis === "costUsd" ? 1_000_000 : 1;
    const used = { ...callUsage(1, 1), [axis]: 9 / unit };
    const limits = toLedgerLimits({ [axis]: 10 / unit });
    const nine = core.settle(pathOf({}, limits), NO_AMOUNTS, used);
    expect(core.exhausted(nine, 0)).toBeUndefined();
    const ten = core.settle(nine, NO_AMOUNTS, { ...NO_USAGE, [axis]: 1 / unit });
    const all = { maximum: 10 / unit, spent: 10 / unit };
    expect(core.exhausted(ten, 0)).toEqual({ axis, accountPath: "lead", ...all, requested: 0 });
  });
}

test("exhausts no axis by reservations of calls in flight", () => {
  const lease = reserved(pathOf({ totalTokens: 60 }), ask(30, 30));
  expect(core.exhausted(lease.path, 0)).toBeUndefined();
});

proves(
  ["R142"],
  "returns the least remaining amount on the path per limited axis, without reservations",
  () => {
    const path = spent(
      pathOf({ totalTokens: 200, steps: 5 }, { totalTokens: 100, costMicroUsd: 40 }),
      10,
      20,
    );
    expect(core.remaining(path, 0)).toEqual({ steps: 4, totalTokens: 70, costUsd: 0.00004 });
    const lease = reserved(path, ask(10, 5, DOLLARS));
    expect(core.remaining(lease.path, 0)).toEqual({ steps: 3, totalTokens: 55, costUsd: 0.00002 });
    expect(core.remaining(pathOf({}, {}), 0)).toEqual({});
  },
);

test("returns no negative remaining amounts", () => {
  const over = core.settle(pathOf({ totalTokens: 10 }), NO_AMOUNTS, callUsage(20, 20));
  expect(core.remaining(over, 0)).toEqual({ totalTokens: 0 });
});

proves(["X1"], "grants no lease beyond the remaining budget at fractional prices", () => {
  fc.assert(
    fc.property(fractionalCall(), ({ price, room, inputTokens, wanted }) => {
      const outcome = core.reserve(
        pathOf({ costMicroUsd: room }),
        ask(inputTokens, wanted, price),
        0,
      );
      return outcome.type !== "granted" || outcome.hold.costMicroUsd <= room;
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

test("grants the largest affordable output cap at fractional prices", () => {
  fc.assert(
    fc.property(fractionalCall(), ({ price, room, inputTokens, wanted }) => {
      const path = pathOf({ costMicroUsd: room });
      const outcome = core.reserve(path, ask(inputTokens, wanted, price), 0);
      if (outcome.type !== "granted" || outcome.hold.outputTokens === wanted) return true;
      const more = outcome.hold.outputTokens + 1;
      const cost = Math.ceil(
        inputTokens * price.inputUsdPerMillion + more * price.outputUsdPerMillion,
      );
      return cost > room;
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

// A free model beside a priced one: if it waited, no settlement would ever let it through.
test("does not let a call wait for an overdrawn axis that it does not need", () => {
  const priced = reserved(pathOf({ costMicroUsd: 10 }), ask(2, 4, DOLLARS));
  const overdrawn = core.settle(priced.path, priced.hold, callUsage(5, 4, { costUsd: 0.000013 }));
  const free = { inputUsdPerMillion: 0, outputUsdPerMillion: 0 };
  expect(core.reserve(overdrawn, ask(5, 5, free), 0).type).not.toBe("wait");
});

test("covers every ledger axis in its amounts", () => {
  expect(Object.keys(NO_AMOUNTS).toSorted()).toEqual(LEDGER_AXES.toSorted());
});

function fractionalCall(): fc.Arbitrary<{
  price: ModelPrice;
  room: number;
  inputTokens: number;
  wanted: number;
}> {
  const cents = fc.integer({ min: 1, max: 500 }).map((amount) => amount / 100);
  return fc.record({
    price: fc.record({ inputUsdPerMillion: cents, outputUsdPerMillion: cents }),
    room: fc.integer({ min: 0, max: 2_000 }),
    inputTokens: fc.integer({ min: 0, max: 300 }),
    wanted: fc.integer({ min: 1, max: 5_000 }),
  });
}
