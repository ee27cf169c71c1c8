// Goal: no descendant uses the reserve of an account; a grant serves all waiting requests at once;
// thresholds are reported once.
// Method: scripted ledgers; complete refusals, accounts and answers compared.

import { describe, expect, test } from "vitest";

import type { ReachedThreshold } from "../../src/budget/lease.ts";
import { BudgetLedger } from "../../src/budget/ledger.ts";
import type { LedgerAxis } from "../../src/protocol/account.ts";
import { AccountSchema } from "../../src/protocol/account.ts";
import { AgentIdSchema } from "../../src/protocol/ids.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { proves } from "../harness/proves.ts";
import { answered, ask, callUsage, granted, LedgerFixture } from "../support/ledger-fixture.ts";
import { thrownBy } from "../support/thrown.ts";

const LEAD = AgentIdSchema().parse("lead");
const CHILD = AgentIdSchema().parse("lead/a");
const BY = "The operator.";

/** Returns a lead with 100 tokens of which it reserves 20, and a child. */
function keeping(): LedgerFixture {
  const fixture = new LedgerFixture();
  fixture.open("lead", { totalTokens: 100 }, { reserve: { totalTokens: 20 } });
  fixture.open("lead/a");
  return fixture;
}

async function spend(fixture: LedgerFixture, path: string, tokens: number): Promise<void> {
  const { outcome } = await fixture.ask(path, ask(tokens, 1));
  if (outcome?.type !== "granted") throw new Error("Expected a lease.");
  await fixture.settle(outcome.lease.leaseId, callUsage(tokens, 0));
}

function told(): { readonly fixture: LedgerFixture; readonly reached: (readonly unknown[])[] } {
  const reached: (readonly unknown[])[] = [];
  const note = ({ accountPath, axis, threshold, spent, maximum }: ReachedThreshold): void =>
    void reached.push([accountPath, axis, threshold, spent, maximum]);
  return { fixture: new LedgerFixture(note), reached };
}

describe("a reserve", () => {
  proves(
    ["X5"],
    "is withheld from a child, which is refused as if the reserve were spent",
    async () => {
      const fixture = keeping();
      expect((await fixture.ask("lead/a", ask(30, 90))).outcome).toEqual(granted(1, 30, 50));
      await fixture.settle("lease_1", callUsage(30, 50));
      const refusal = {
        axis: "totalTokens",
        accountPath: "lead",
        maximum: 100,
        spent: 80,
        requested: 2,
        reserve: 20,
      };
      const refused = await fixture.ask("lead/a", ask(1, 9));
      expect(refused.outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
      expect((await fixture.ask("lead", ask(10, 90))).outcome).toEqual(granted(2, 10, 10));
    },
  );

  proves(["X5"], "counts as remaining for the parent, not for its children", () => {
    const fixture = keeping();
    const gate = fixture.ledger.getAccount(CHILD);
    expect(fixture.ledger.getAccount(LEAD).remaining()).toEqual({ totalTokens: 100 });
    expect(fixture.ledger.getAccount(LEAD).remainingForChildren()).toEqual({ totalTokens: 80 });
    expect([gate.remaining(), gate.runRemaining()]).toEqual([
      { totalTokens: 80 },
      { totalTokens: 100 },
    ]);
  });

  proves(["X5"], "is not enough to start a child, and appears in the refusal", async () => {
    const fixture = keeping();
    expect(fixture.ledger.getAccount(LEAD).exhaustedForChild()).toBeUndefined();
    await fixture.ask("lead", ask(30, 50));
    await fixture.settle("lease_1", callUsage(30, 50));
    const refusal = {
      axis: "totalTokens",
      accountPath: "lead",
      maximum: 100,
      spent: 80,
      requested: 0,
      reserve: 20,
    };
    expect(fixture.ledger.getAccount(LEAD).exhaustedForChild()).toEqual(refusal);
    expect(fixture.ledger.getAccount(CHILD).exhaustedForReply()).toEqual(refusal);
    expect(fixture.ledger.getAccount(LEAD).exhaustedForReply()).toBeUndefined();
  });

  test("applies on every axis and to all descendants, and the tightest account on the path refuses", async () => {
    const fixture = new LedgerFixture();
    const limits = { steps: 5, toolCalls: 3, outputTokens: 100 };
    fixture.open("lead", limits, { reserve: { steps: 1, toolCalls: 1, outputTokens: 10 } });
    fixture.open("lead/a", limits, { reserve: { steps: 3, toolCalls: 1, outputTokens: 30 } });
    fixture.open("lead/a/b");
    const left = ["lead", "lead/a", "lead/a/b"].map((path) =>
      fixture.ledger.getAccount(AgentIdSchema().parse(path)).remaining(),
    );
    expect(left).toEqual([
      { steps: 5, toolCalls: 3, outputTokens: 100 },
      { steps: 4, toolCalls: 2, outputTokens: 90 },
      { steps: 2, toolCalls: 2, outputTokens: 70 },
    ]);
    const leaf = fixture.ledger.getAccount(AgentIdSchema().parse("lead/a/b"));
    expect([leaf.chargeToolCall(), leaf.chargeToolCall(), leaf.chargeToolCall()]).toEqual([
      undefined,
      undefined,
      { axis: "toolCalls", accountPath: "lead/a", maximum: 3, spent: 2, requested: 1, reserve: 1 },
    ]);
    expect(fixture.ledger.getAccount(LEAD).chargeToolCall()).toBeUndefined();
    await fixture.ask("lead/a/b", ask(1, 1));
    await fixture.settle("lease_1", callUsage(1, 1));
    const last = await fixture.ask("lead/a/b", ask(1, 200));
    const lastStep = { accountPath: "lead/a", maximum: 2 };
    expect(last.outcome).toMatchObject({
      type: "granted",
      lease: { maxOutputTokens: 69, lastStep },
    });
  });

  test("limits the extension of a child's lease", async () => {
    const fixture = keeping();
    await fixture.ask("lead/a", ask(30, 10));
    const tooMuch = await fixture.extend("lease_1", ask(30, 90));
    expect(tooMuch.outcome, "it waits for what the first attempt holds").toBeUndefined();
    tooMuch.cancel();
    const fitting = await fixture.extend("lease_1", ask(30, 10));
    expect(fitting.outcome).toMatchObject({ lease: { maxOutputTokens: 10, attempt: 2 } });
    expect(fixture.account("lead").reserved.totalTokens).toBe(80);
  });

  test("leaves nothing to children and everything to its owner if it exceeds the limit", async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { steps: 2 }, { reserve: { steps: 9 } });
    fixture.open("lead/a");
    expect(fixture.ledger.getAccount(LEAD).remainingForChildren()).toEqual({ steps: 0 });
    const refusal = {
      axis: "steps",
      accountPath: "lead",
      maximum: 2,
      spent: 0,
      requested: 1,
      reserve: 2,
    };
    expect((await fixture.ask("lead/a", ask(1, 1))).outcome).toMatchObject({ refusal });
    expect((await fixture.ask("lead", ask(1, 1))).outcome?.type).toBe("granted");
  });

  test("withholds nothing on an axis without its own limit", async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { steps: 1 });
    fixture.open("lead/a", {}, { reserve: { steps: 1 } });
    fixture.open("lead/a/b");
    expect((await fixture.ask("lead/a/b", ask(1, 1))).outcome?.type).toBe("granted");
  });

  proves(["X5"], "refuses a waiting child once only the reserve remains", async () => {
    const fixture = keeping();
    fixture.open("lead/b");
    await fixture.ask("lead/a", ask(30, 50));
    const waiter = await fixture.ask("lead/b", ask(10, 10));
    expect(waiter.outcome).toBeUndefined();
    await fixture.settle("lease_1", callUsage(30, 45));
    expect(waiter.outcome).toMatchObject({
      type: "refused",
      refusal: { spent: 75, requested: 11, reserve: 20 },
    });
  });
});

describe("a grant", () => {
  proves(["X7"], "raises the limits, and is recorded with its author and its time", async () => {
    const fixture = new LedgerFixture();
    fixture.ledger.open({
      agentId: LEAD,
      agentPath: "lead",
      limits: { steps: 1, costMicroUsd: 5 },
      timeMs: 100,
    });
    fixture.clock.advance(7);
    fixture.ledger.grant(LEAD, { budget: { steps: 2, costUsd: 0.29, timeMs: 50 }, by: BY });
    expect(fixture.ledger.getAccount(LEAD).remaining()).toEqual({
      steps: 3,
      costUsd: 0.290005,
      timeMs: 143,
    });
    fixture.clock.advance(1);
    fixture.ledger.grant(LEAD, { budget: { steps: 1, timeMs: 0 }, by: "Again." });
    const { limits, timeLimitMs, grants } = fixture.account("lead");
    expect({ limits, timeLimitMs, grants }).toEqual({
      limits: { steps: 4, costMicroUsd: 290_005 },
      timeLimitMs: 150,
      grants: [
        { by: BY, atMs: 7, budget: { steps: 2, costUsd: 0.29, timeMs: 50 } },
        { by: "Again.", atMs: 8, budget: { steps: 1 } },
      ],
    });
  });

  proves(["X7"], "serves waiting requests in their order, with larger caps", async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { totalTokens: 100 });
    for (const path of ["lead/a", "lead/b", "lead/c"]) fixture.open(path);
    await fixture.ask("lead/a", ask(30, 50));
    const waiters = [
      await fixture.ask("lead/b", ask(10, 200)),
      await fixture.ask("lead/c", ask(10, 10)),
    ];
    fixture.clock.advance(3);
    fixture.ledger.grant(LEAD, { budget: { totalTokens: 60 }, by: BY });
    await answered();
    expect(waiters.map(({ outcome }) => outcome)).toEqual([undefined, undefined]);
    fixture.ledger.grant(LEAD, { budget: { totalTokens: 200 }, by: BY });
    await answered();
    expect(waiters.map(({ outcome }) => outcome)).toEqual([
      granted(2, 10, 200, 3),
      granted(3, 10, 10, 3),
    ]);
  });

  test("does not let a request through at its size from before the grant", async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { totalTokens: 100 });
    fixture.open("lead/a");
    await fixture.ask("lead/a", ask(50, 10));
    await fixture.settle("lease_1", callUsage(50, 10));
    await fixture.ask("lead/a", ask(10, 10));
    const waiter = await fixture.ask("lead/a", ask(10, 50));
    fixture.ledger.grant(LEAD, { budget: { totalTokens: 30 }, by: BY });
    await answered();
    expect(waiter.outcome).toBeUndefined();
    await fixture.release("lease_2");
    expect(waiter.outcome).toEqual(granted(3, 10, 50));
  });

  proves(
    ["X7"],
    "is refused for an axis without its own limit, and moves no fixed deadline",
    () => {
      const fixture = new LedgerFixture();
      fixture.open("lead", { steps: 1 }, { deadlineAtMs: 50 });
      fixture.open("lead/a", { totalTokens: 5 });
      const before = fixture.ledger.snapshot();
      const tries = [
        [LEAD, { timeMs: 10 }, "timeMs", 10],
        [CHILD, { totalTokens: 1, steps: 2 }, "steps", 2],
        [CHILD, { costUsd: 0.5 }, "costUsd", 0.5],
      ] as const;
      for (const [agentId, budget, axis, got] of tries) {
        const field = `grant.budget.${axis}`;
        const expected = `left out, since ${agentId} has no own limit on this axis`;
        expect(thrownBy(() => fixture.ledger.grant(agentId, { budget, by: BY }))).toEqual({
          code: "invalid_argument",
          message: `Expected ${field} to be ${expected}, got ${got}. Grant an axis that is limited there, or grant it to the agent that has the limit.`,
          data: { field, expected, got: String(got) },
        });
      }
      expect(fixture.ledger.snapshot()).toEqual(before);
    },
  );

  test("moves the deadline of a time limit", () => {
    const clock = new ManualClock();
    const ledger = new BudgetLedger(clock);
    const lead = ledger.open({ agentId: LEAD, agentPath: "lead", limits: {}, timeMs: 100 });
    ledger.open({ agentId: CHILD, agentPath: "lead/a", limits: {}, timeMs: 400 }, lead);
    ledger.grant(LEAD, { budget: { timeMs: 50 }, by: BY });
    expect([
      ledger.getAccount(LEAD).deadlineAtMs(),
      ledger.getAccount(LEAD).ownDeadlineAtMs(),
      ledger.getAccount(CHILD).deadlineAtMs(),
    ]).toEqual([150, 150, 150]);
  });

  test("never exceeds the largest safe number in sum, nor lowers a limit", () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { totalTokens: 10, costMicroUsd: 1 });
    const huge = { totalTokens: Number.MAX_SAFE_INTEGER, costUsd: Number.MAX_VALUE };
    for (let times = 0; times < 3; times += 1) fixture.ledger.grant(LEAD, { budget: huge, by: BY });
    const { limits } = fixture.account("lead");
    expect(limits).toEqual({
      totalTokens: Number.MAX_SAFE_INTEGER,
      costMicroUsd: 2 ** 51,
    });
    AccountSchema()
      .array()
      .parse(JSON.parse(JSON.stringify(fixture.ledger.snapshot())));
  });

  proves(["X7"], "raises the limits of a restored ledger, which keeps earlier grants", async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { steps: 1 }, { reserve: { steps: 1 } });
    await fixture.ask("lead", ask(1, 1));
    await fixture.settle("lease_1", callUsage(1, 1));
    fixture.ledger.grant(LEAD, { budget: { steps: 1 }, by: "First." });
    const stored = AccountSchema()
      .array()
      .parse(JSON.parse(JSON.stringify(fixture.ledger.snapshot())));
    const resumed = new BudgetLedger(fixture.clock);
    resumed.restore(stored, 1);
    resumed.grant(LEAD, { budget: { steps: 3 }, by: "Second." });
    expect(resumed.getAccount(LEAD).remaining()).toEqual({ steps: 4 });
    expect(resumed.getAccount(LEAD).remainingForChildren()).toEqual({ steps: 3 });
    expect(resumed.snapshot()[0]?.grants.map(({ by }) => by)).toEqual(["First.", "Second."]);
  });
});

describe("thresholds", () => {
  proves(
    ["X6"],
    "are reported once at 80 % and 95 % of a limit, for every account on the path",
    async () => {
      const { fixture, reached } = told();
      fixture.open("lead", { totalTokens: 100 });
      fixture.open("lead/a", { totalTokens: 50, steps: 20 });
      for (let step = 1; step <= 9; step += 1) await spend(fixture, "lead/a", 5);
      for (let step = 1; step <= 10; step += 1) await spend(fixture, "lead", 5);
      expect(reached).toEqual([
        ["lead/a", "totalTokens", 0.8, 40, 50],
        ["lead", "totalTokens", 0.8, 80, 100],
        ["lead", "totalTokens", 0.95, 95, 100],
      ]);
    },
  );

  proves(["X6"], "ignore reservations and releases, and count overdraft", async () => {
    const { fixture, reached } = told();
    fixture.open("lead", { totalTokens: 100 });
    await fixture.ask("lead", ask(50, 50));
    expect(reached).toEqual([]);
    await fixture.release("lease_1");
    expect(reached).toEqual([]);
    await fixture.ask("lead", ask(10, 10));
    await fixture.settle("lease_2", callUsage(110, 20));
    expect(reached).toEqual([
      ["lead", "totalTokens", 0.8, 130, 100],
      ["lead", "totalTokens", 0.95, 130, 100],
    ]);
  });

  test("are reported for tool calls", () => {
    const { fixture, reached } = told();
    fixture.open("lead", { toolCalls: 5 });
    const gate = fixture.ledger.getAccount(LEAD);
    for (let call = 1; call <= 6; call += 1) gate.chargeToolCall();
    expect(reached).toEqual([
      ["lead", "toolCalls", 0.8, 4, 5],
      ["lead", "toolCalls", 0.95, 5, 5],
    ]);
  });

  proves(
    ["X6", "X7"],
    "apply anew to a limit that a grant raised, and are not repeated by a restored ledger",
    async () => {
      const { fixture, reached } = told();
      fixture.open("lead", { totalTokens: 100 });
      await spend(fixture, "lead", 82);
      fixture.ledger.grant(LEAD, { budget: { totalTokens: 100 }, by: BY });
      await spend(fixture, "lead", 20);
      const resumed = new BudgetLedger(fixture.clock, {
        onThreshold: ({ threshold, spent }) => reached.push(["resumed", threshold, spent]),
      });
      resumed.restore(fixture.ledger.snapshot(), fixture.ledger.leaseCount);
      const { signal } = new AbortController();
      for (const tokens of [10, 60]) {
        const outcome = await resumed.getAccount(LEAD).requestLease(ask(tokens, 1), signal);
        if (outcome.type === "granted")
          resumed.getAccount(LEAD).settle(outcome.lease, callUsage(tokens, 0));
      }
      expect(reached).toEqual([
        ["lead", "totalTokens", 0.8, 82, 100],
        ["resumed", 0.8, 172],
      ]);
    },
  );

  test("are not reported for a limit of zero or an axis without limit", async () => {
    const { fixture, reached } = told();
    const axis: LedgerAxis = "toolCalls";
    fixture.open("lead", { [axis]: 0 });
    await spend(fixture, "lead", 5);
    expect(fixture.ledger.getAccount(LEAD).chargeToolCall()).toBeDefined();
    expect(reached).toEqual([]);
  });
});
