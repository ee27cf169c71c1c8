// Goal: every axis can be limited at any level, and the tightest limit on the path applies.
// Method: a chain of three accounts; one axis is tight at one level, loose at the others; a
// grandchild spends until it is refused.

import { expect, test } from "vitest";

import type { BudgetRefusal } from "../../src/budget/lease.ts";
import { BudgetLedger } from "../../src/budget/ledger.ts";
import type { NewAccount } from "../../src/budget/ledger.ts";
import type { LedgerAxis } from "../../src/protocol/account.ts";
import { AccountSchema } from "../../src/protocol/account.ts";
import { AgentIdSchema } from "../../src/protocol/ids.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";
import { ask, callUsage, granted, LedgerFixture } from "../support/ledger-fixture.ts";

const LEVELS = ["lead", "lead/a", "lead/a/b"] as const;
const LEAF = "lead/a/b";
const TIGHT = 10;
const LOOSE = 1_000;
const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };

/** Returns a chain in which `axis` is limited to 10 at `level` and to 1,000 elsewhere. */
function chain(axis: LedgerAxis, level: string): LedgerFixture {
  const fixture = new LedgerFixture();
  for (const path of LEVELS) fixture.open(path, { [axis]: path === level ? TIGHT : LOOSE });
  return fixture;
}

/** Returns the refusal of an account whose time is over. */
function timeOver(accountPath: string, maximum: number, spent: number): BudgetRefusal {
  return { axis: "timeMs", accountPath, maximum, spent, requested: 0 };
}

/** Returns the refusal of the first call that no longer fits; every call uses its whole lease. */
async function spendAll(
  fixture: LedgerFixture,
  inputTokens: number,
  outputTokens: number,
): Promise<BudgetRefusal> {
  for (;;) {
    const { outcome } = await fixture.ask(LEAF, ask(inputTokens, outputTokens, PRICE));
    if (outcome?.type === "refused") return outcome.refusal;
    if (outcome?.type !== "granted") throw new Error("Expected an answer at once.");
    const { lease } = outcome;
    const cost = {
      costUsd: (lease.inputTokens + lease.maxOutputTokens) / 1_000_000,
      cachedInputTokens: lease.inputTokens,
    };
    await fixture.settle(lease.leaseId, callUsage(lease.inputTokens, lease.maxOutputTokens, cost));
  }
}

for (const level of LEVELS) {
  const refusal = (axis: string, requested: number) => ({
    axis,
    accountPath: level,
    maximum: TIGHT,
    spent: TIGHT,
    requested,
  });

  proves(["X3"], `steps, tightest at ${level}: allows 10 calls, then refuses`, async () => {
    const fixture = chain("steps", level);
    expect(await spendAll(fixture, 1, 1)).toEqual(refusal("steps", 1));
  });

  proves(
    ["X3"],
    `totalTokens, tightest at ${level}: clamps the last reply, then refuses`,
    async () => {
      const fixture = chain("totalTokens", level);
      expect(await spendAll(fixture, 1, 6)).toEqual(refusal("totalTokens", 2));
    },
  );

  proves(
    ["X3"],
    `inputTokens, tightest at ${level}: refuses a call whose input does not fit`,
    async () => {
      const fixture = chain("inputTokens", level);
      expect(await spendAll(fixture, 5, 6)).toEqual(refusal("inputTokens", 5));
    },
  );

  proves(
    ["X3"],
    `cachedInputTokens, tightest at ${level}: refuses a call whose input does not fit as cached input`,
    async () => {
      const fixture = chain("cachedInputTokens", level);
      expect(await spendAll(fixture, 5, 6)).toEqual(refusal("cachedInputTokens", 5));
    },
  );

  proves(
    ["X3"],
    `outputTokens, tightest at ${level}: clamps the last reply, then refuses`,
    async () => {
      const fixture = chain("outputTokens", level);
      expect(await spendAll(fixture, 5, 6)).toEqual(refusal("outputTokens", 1));
    },
  );

  proves(
    ["X3"],
    `cost, tightest at ${level}: clamps the last reply to the affordable output, then refuses`,
    async () => {
      const fixture = chain("costMicroUsd", level);
      expect(await spendAll(fixture, 1, 6)).toEqual({
        axis: "costUsd",
        accountPath: level,
        maximum: TIGHT / 1_000_000,
        spent: TIGHT / 1_000_000,
        requested: 0.000002,
      });
    },
  );

  proves(["X3"], `toolCalls, tightest at ${level}: allows 10 calls, then refuses`, () => {
    const fixture = chain("toolCalls", level);
    const gate = fixture.ledger.getAccount(AgentIdSchema().parse(LEAF));
    const answers = Array.from({ length: 12 }, () => gate.chargeToolCall());
    const refused = refusal("toolCalls", 1);
    expect(answers).toEqual([...Array.from({ length: 10 }, () => undefined), refused, refused]);
  });

  proves(
    ["X3", "R58"],
    `timeMs, tightest at ${level}: starts nothing at or after the deadline`,
    async () => {
      const fixture = new LedgerFixture();
      fixture.clock.advance(3);
      for (const path of LEVELS) fixture.open(path, {}, 3 + (path === level ? TIGHT : LOOSE));
      const gate = fixture.ledger.getAccount(AgentIdSchema().parse(LEAF));
      fixture.clock.advance(9);
      expect((await fixture.ask(LEAF, ask(1, 1))).outcome).toEqual(granted(1, 1, 1));
      expect([gate.exhaustedForReply(), gate.chargeToolCall(), gate.remaining()]).toEqual([
        undefined,
        undefined,
        { timeMs: 1 },
      ]);
      fixture.clock.advance(1);
      const late = refusal("timeMs", 0);
      expect((await fixture.ask(LEAF, ask(1, 1))).outcome).toEqual({
        type: "refused",
        refusal: late,
        waitedMs: 0,
      });
      expect([gate.exhaustedForReply(), gate.chargeToolCall(), gate.remaining()]).toEqual([
        late,
        late,
        { timeMs: 0 },
      ]);
    },
  );
}

test("refuses nothing on accounts without limits", async () => {
  const fixture = new LedgerFixture();
  fixture.open("lead");
  fixture.open("lead/a");
  expect((await fixture.ask("lead/a", ask(1_000_000, 1_000_000))).outcome).toEqual(
    granted(1, 1_000_000, 1_000_000),
  );
});

proves(["R58"], "applies the deadline of the parent to a child with a later one", () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", {}, 50);
  fixture.open("lead/a", {}, 80);
  fixture.open("lead/b", {}, 20);
  fixture.open("lead/c");
  const deadlines = ["lead", "lead/a", "lead/b", "lead/c"].map((path) =>
    fixture.ledger.getAccount(AgentIdSchema().parse(path)).deadlineAtMs(),
  );
  expect(deadlines).toEqual([50, 50, 20, 50]);
});

test("names the ancestor that set a deadline in a refusal, with the time since its start", async () => {
  const fixture = new LedgerFixture();
  fixture.clock.advance(100);
  fixture.open("lead", {}, 150);
  fixture.clock.advance(20);
  fixture.open("lead/a", {}, 900);
  fixture.clock.advance(40);
  const { outcome } = await fixture.ask("lead/a", ask(1, 1));
  const refusal = timeOver("lead", 50, 60);
  expect(outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
});

test("leaves no negative time after a deadline", () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", {}, 10);
  fixture.clock.advance(25);
  expect(fixture.ledger.getAccount(AgentIdSchema().parse("lead")).remaining()).toEqual({
    timeMs: 0,
  });
});

test("starts nothing with a time limit of zero", async () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", {}, 0);
  const { outcome } = await fixture.ask("lead", ask(1, 1));
  const refusal = timeOver("lead", 0, 0);
  expect(outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
});

type Times = Pick<NewAccount, "timeMs" | "deadlineAtMs">;

/** Returns three accounts below each other; each may have a time limit or a fixed deadline. */
function timed(...times: readonly Times[]): LedgerFixture {
  const fixture = new LedgerFixture();
  for (const [index, time] of times.entries()) {
    const path = LEVELS[index] ?? LEAF;
    const above = LEVELS[index - 1];
    const parent =
      above === undefined ? undefined : fixture.ledger.getAccount(AgentIdSchema().parse(above));
    fixture.ledger.open(
      { agentId: AgentIdSchema().parse(path), agentPath: path, limits: {}, ...time },
      parent,
    );
  }
  return fixture;
}

for (const level of LEVELS) {
  proves(["X3"], `ends the time limit of ${level} for all agents below it`, async () => {
    const fixture = timed(...LEVELS.map((path) => ({ timeMs: path === level ? TIGHT : LOOSE })));
    const gate = fixture.ledger.getAccount(AgentIdSchema().parse(LEAF));
    fixture.clock.advance(9);
    expect([gate.exhaustedForReply(), gate.remaining()]).toEqual([undefined, { timeMs: 1 }]);
    fixture.clock.advance(1);
    const late = timeOver(level, 10, 10);
    expect([gate.exhaustedForReply(), gate.chargeToolCall()]).toEqual([late, late]);
    expect((await fixture.ask(LEAF, ask(1, 1))).outcome).toEqual({
      type: "refused",
      refusal: late,
      waitedMs: 0,
    });
  });

  test(`consumes no time limit of ${level} while its clock is paused, and grants requests`, async () => {
    const fixture = timed(...LEVELS.map((path) => ({ timeMs: path === level ? TIGHT : LOOSE })));
    const [owner, leaf] = [AgentIdSchema().parse(level), AgentIdSchema().parse(LEAF)];
    const gate = fixture.ledger.getAccount(leaf);
    fixture.clock.advance(4);
    fixture.ledger.getAccount(owner).pauseClock();
    fixture.clock.advance(60);
    expect([gate.exhaustedForReply(), gate.remaining()]).toEqual([undefined, { timeMs: 6 }]);
    expect((await fixture.ask(LEAF, ask(1, 1))).outcome).toEqual(granted(1, 1, 1));
    fixture.clock.advance(40);
    fixture.ledger.getAccount(owner).resumeClock();
    expect([
      fixture.ledger.getAccount(owner).pausedMs,
      fixture.ledger.getAccount(leaf).deadlineAtMs(),
    ]).toEqual([100, 110]);
    fixture.clock.advance(6);
    expect(gate.exhaustedForReply()).toEqual(timeOver(level, 10, 10));
  });

  proves(
    ["R58"],
    `applies the fixed deadline of ${level} while every clock is paused`,
    async () => {
      const fixture = timed(
        ...LEVELS.map((path) => (path === level ? { deadlineAtMs: TIGHT } : { timeMs: 5 })),
      );
      fixture.clock.advance(1);
      for (const path of LEVELS)
        fixture.ledger.getAccount(AgentIdSchema().parse(path)).pauseClock();
      fixture.clock.advance(8);
      expect((await fixture.ask(LEAF, ask(1, 1))).outcome).toEqual(granted(1, 1, 1));
      fixture.clock.advance(1);
      const refusal = timeOver(level, 10, 10);
      expect((await fixture.ask(LEAF, ask(1, 1))).outcome).toEqual({
        type: "refused",
        refusal,
        waitedMs: 0,
      });
    },
  );
}

test("applies the earlier of a time limit and a fixed deadline of one account", () => {
  const lead = AgentIdSchema().parse("lead");
  const fixture = timed({ timeMs: 10, deadlineAtMs: 15 });
  expect([
    fixture.ledger.getAccount(lead).deadlineAtMs(),
    fixture.ledger.getAccount(lead).ownDeadlineAtMs(),
  ]).toEqual([10, 10]);
  fixture.ledger.getAccount(lead).excludeTime(4);
  expect([
    fixture.ledger.getAccount(lead).deadlineAtMs(),
    fixture.ledger.getAccount(lead).ownDeadlineAtMs(),
  ]).toEqual([14, 14]);
  fixture.ledger.getAccount(lead).excludeTime(4);
  expect([
    fixture.ledger.getAccount(lead).deadlineAtMs(),
    fixture.ledger.getAccount(lead).ownDeadlineAtMs(),
  ]).toEqual([15, 15]);
  fixture.clock.advance(15);
  expect(fixture.ledger.getAccount(lead).exhaustedForChild()).toEqual(timeOver("lead", 15, 15));
});

function watched(...times: readonly Times[]): readonly (number | null)[] {
  const fixture = timed(...times);
  return LEVELS.map((path) =>
    fixture.ledger.getAccount(AgentIdSchema().parse(path)).ownDeadlineAtMs(),
  );
}

test("watches only an agent's own deadlines that can come before those of its ancestors", () => {
  expect(watched({ deadlineAtMs: 50 }, {}, {})).toEqual([50, null, null]);
  expect(watched({ deadlineAtMs: 50 }, { timeMs: 50 }, { timeMs: 49 })).toEqual([50, null, 49]);
  expect(watched({ deadlineAtMs: 50 }, { deadlineAtMs: 60 }, { deadlineAtMs: 40 })).toEqual([
    50,
    null,
    40,
  ]);
  // The parent's clock may be paused while the child's runs: then the child's limit comes first.
  expect(watched({ timeMs: 50 }, { timeMs: 50 }, {})).toEqual([50, 50, null]);
});

proves(
  ["X2"],
  "refuses a queued request whose clock was paused at its extended deadline",
  async () => {
    const fixture = timed({}, { timeMs: 10 });
    fixture.ledger.open(
      { agentId: AgentIdSchema().parse("lead/a/b"), agentPath: LEAF, limits: { steps: 2 } },
      fixture.ledger.getAccount(AgentIdSchema().parse("lead/a")),
    );
    await fixture.ask(LEAF, ask(1, 1));
    await fixture.ask(LEAF, ask(1, 1));
    const waiter = await fixture.ask(LEAF, ask(1, 1));
    const parent = AgentIdSchema().parse("lead/a");
    fixture.ledger.getAccount(parent).pauseClock();
    fixture.clock.advance(30);
    await fixture.ask("lead", ask(1, 1));
    expect(waiter.outcome).toBeUndefined();
    fixture.ledger.getAccount(parent).resumeClock();
    fixture.clock.advance(9);
    await fixture.ask("lead", ask(1, 1));
    expect(waiter.outcome).toBeUndefined();
    fixture.clock.advance(1);
    await fixture.ask("lead", ask(1, 1));
    const refusal = timeOver("lead/a", 10, 10);
    expect(waiter.outcome).toEqual({ type: "refused", refusal, waitedMs: 40 });
  },
);

test("counts the time between pause and resume only against fixed deadlines", () => {
  const fixture = new LedgerFixture();
  const [lead, child] = [AgentIdSchema().parse("lead"), AgentIdSchema().parse("lead/a")];
  fixture.ledger.open({ agentId: lead, agentPath: "lead", limits: {}, timeMs: 10 });
  fixture.ledger.open(
    { agentId: child, agentPath: "lead/a", limits: {}, deadlineAtMs: 1_500 },
    fixture.ledger.getAccount(lead),
  );
  fixture.clock.advance(4);
  fixture.ledger.getAccount(lead).pauseClock();
  fixture.clock.advance(3);
  const stored = JSON.stringify(fixture.ledger.snapshot());
  fixture.clock.advance(993);
  const resumed = new BudgetLedger(fixture.clock);
  resumed.restore(AccountSchema().array().parse(JSON.parse(stored)), 0);
  resumed.getAccount(lead).excludeTime(993);
  expect([resumed.getAccount(lead).pausedMs, resumed.getAccount(lead).remaining()]).toEqual([
    996,
    { timeMs: 6 },
  ]);
  resumed.getAccount(lead).excludeTime(1_000);
  expect(resumed.getAccount(child).remaining()).toEqual({ timeMs: 500 });
  for (const ms of [-1, Number.NaN, Infinity])
    expect(() => resumed.getAccount(lead).excludeTime(ms)).toThrow("paused for 0 ms or more");
});

test("throws when a paused clock is paused again, or a running one resumed", () => {
  const { ledger } = timed({});
  const lead = AgentIdSchema().parse("lead");
  expect(() => ledger.getAccount(lead).resumeClock()).toThrow(
    "resumeClock() requires a paused clock",
  );
  ledger.getAccount(lead).pauseClock();
  expect(() => ledger.getAccount(lead).pauseClock()).toThrow(
    "pauseClock() requires a running clock",
  );
  ledger.getAccount(lead).resumeClock();
  expect(ledger.getAccount(lead).pausedMs).toBe(0);
});

proves(
  ["R142"],
  "reports updated usage after each booking for the agent and its ancestors, and leaves earlier reports unchanged",
  async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { totalTokens: 100 });
    fixture.open("lead/a", {});
    const [lead, leaf] = ["lead", "lead/a"].map((path) =>
      fixture.ledger.getAccount(AgentIdSchema().parse(path)),
    );
    if (lead === undefined || leaf === undefined) throw new Error("two accounts");
    const first = [lead.usage(), leaf.usage()];
    const nothing = { own: NO_USAGE, descendants: NO_USAGE, total: NO_USAGE };
    leaf.chargeToolCall();
    const called = { ...NO_USAGE, toolCalls: 1 };
    const second = [lead.usage(), leaf.usage()];
    await fixture.ask("lead/a", ask(5, 5));
    await fixture.settle("lease_1", callUsage(5, 5));
    const both = { ...callUsage(5, 5), toolCalls: 1 };
    expect([lead.usage(), leaf.usage()]).toEqual([
      { own: NO_USAGE, descendants: both, total: both },
      { own: both, descendants: NO_USAGE, total: both },
    ]);
    expect(second).toEqual([
      { own: NO_USAGE, descendants: called, total: called },
      { own: called, descendants: NO_USAGE, total: called },
    ]);
    expect(first).toEqual([nothing, nothing]);
  },
);
