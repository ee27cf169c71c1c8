// Goal: leases, the queue and the accounts of a tree are exact: which calls run, wait or are
// refused, in which order.
// Method: scripted requests and settlements; every answer is compared when it is, or is not yet,
// available.

import { getEventListeners } from "node:events";

import { expect, test } from "vitest";

import { BudgetLedger } from "../../src/budget/ledger.ts";
import { AccountSchema } from "../../src/protocol/account.ts";
import { AgentIdSchema, LeaseIdSchema } from "../../src/protocol/ids.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { NO_AMOUNTS } from "../../src/policies/budget.ts";
import { proves } from "../harness/proves.ts";
import {
  answered,
  ask,
  callUsage,
  granted,
  LedgerFixture,
  type Asked,
} from "../support/ledger-fixture.ts";

const FORTY = ask(30, 10);
const CHILDREN = ["lead/a", "lead/b", "lead/c"] as const;

/** Returns a root with a limit of 100 tokens and three children. */
function family(): LedgerFixture {
  const fixture = new LedgerFixture();
  fixture.open("lead", { totalTokens: 100 });
  for (const path of CHILDREN) fixture.open(path);
  return fixture;
}

async function askAll(fixture: LedgerFixture, paths: readonly string[]): Promise<readonly Asked[]> {
  const asked: Asked[] = [];
  for (const path of paths) asked.push(await fixture.ask(path, FORTY));
  return asked;
}

function outcomes(asked: readonly Asked[]): readonly Asked["outcome"][] {
  return asked.map(({ outcome }) => outcome);
}

proves(
  ["X2", "R144"],
  "grants two of three requests for 40 of 100 tokens, and the third after the first has settled",
  async () => {
    const fixture = family();
    const asked = await askAll(fixture, CHILDREN);
    expect(outcomes(asked)).toEqual([granted(1, 30, 10), granted(2, 30, 10), undefined]);
    fixture.clock.advance(7);
    await fixture.settle("lease_1", callUsage(15, 5));
    expect(outcomes(asked)).toEqual([
      granted(1, 30, 10),
      granted(2, 30, 10),
      granted(3, 30, 10, 7),
    ]);
    expect(fixture.account("lead").reserved.totalTokens).toBe(80);
  },
);

const TOO_MUCH = {
  type: "refused",
  refusal: { axis: "totalTokens", accountPath: "lead", maximum: 100, spent: 0, requested: 121 },
  waitedMs: 0,
};

proves(
  ["X2"],
  "refuses a request for 120 of 100 tokens at once, and serves the next one",
  async () => {
    const fixture = family();
    await askAll(fixture, CHILDREN.slice(0, 1));
    const refused = await fixture.ask("lead/b", ask(120, 10));
    expect(refused.outcome).toEqual(TOO_MUCH);
    expect((await fixture.ask("lead/c", FORTY)).outcome).toEqual(granted(2, 30, 10));
  },
);

proves(
  ["X2"],
  "refuses a request for 120 of 100 tokens at once while another request waits",
  async () => {
    const fixture = family();
    await askAll(fixture, CHILDREN);
    const hopeless = await fixture.ask("lead/a", ask(120, 10));
    expect(hopeless.outcome).toEqual(TOO_MUCH);
  },
);

proves(["X2"], "refuses a queued request as soon as it can never fit", async () => {
  const fixture = family();
  fixture.open("lead/a/x", { steps: 1 });
  await fixture.ask("lead/a/x", ask(30, 20));
  await fixture.ask("lead/b", ask(30, 20));
  const first = await fixture.ask("lead/c", ask(50, 10));
  const second = await fixture.ask("lead/a/x", FORTY);
  expect(outcomes([first, second])).toEqual([undefined, undefined]);
  await fixture.settle("lease_1", callUsage(30, 19));
  expect(first.outcome).toBeUndefined();
  const refusal = { axis: "steps", accountPath: "lead/a/x", maximum: 1, spent: 1, requested: 1 };
  expect(second.outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
});

proves(["X2"], "refuses a waiting request that a settlement made impossible", async () => {
  const fixture = family();
  const asked = await askAll(fixture, CHILDREN);
  fixture.clock.advance(5);
  await fixture.settle("lease_1", callUsage(60, 20));
  const refusal = { ...TOO_MUCH.refusal, spent: 80, requested: 31 };
  expect(asked[2]?.outcome).toEqual({ type: "refused", refusal, waitedMs: 5 });
});

test("grants a waiting request returned tokens, and clamps its cap to the remaining ones", async () => {
  const fixture = family();
  const asked = await askAll(fixture, CHILDREN);
  await fixture.settle("lease_1", callUsage(30, 5));
  expect(asked[2]?.outcome).toBeUndefined();
  await fixture.settle("lease_2", callUsage(25, 5));
  expect(asked[2]?.outcome).toEqual(granted(3, 30, 5));
});

test("serves the queue after a release like after a settlement", async () => {
  const fixture = family();
  const asked = await askAll(fixture, CHILDREN);
  await fixture.release("lease_2");
  expect(asked[2]?.outcome).toEqual(granted(3, 30, 10));
  expect(fixture.account("lead").total).toEqual(NO_USAGE);
});

proves(["X2"], "serves the queue of a contested account in order", async () => {
  const fixture = family();
  await askAll(fixture, CHILDREN.slice(0, 2));
  const large = await fixture.ask("lead/c", ask(50, 10));
  const small = await fixture.ask("lead/a", ask(5, 5));
  expect(outcomes([large, small])).toEqual([undefined, undefined]);
  await fixture.release("lease_1");
  expect(outcomes([large, small])).toEqual([granted(3, 50, 10), undefined]);
  await fixture.release("lease_2");
  expect(small.outcome).toEqual(granted(4, 5, 5));
});

test("grants a request of one subtree while another subtree waits", async () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", { totalTokens: 1_000 });
  fixture.open("lead/a", { totalTokens: 50 });
  fixture.open("lead/b", { totalTokens: 50 });
  const asked = [
    await fixture.ask("lead/a", FORTY),
    await fixture.ask("lead/a", FORTY),
    await fixture.ask("lead/b", FORTY),
  ];
  expect(outcomes(asked)).toEqual([granted(1, 30, 10), undefined, granted(2, 30, 10)]);
});

// B5. The second request waits behind the first on lead/a; its claim on lead must count all the
// same.
test("grants no request on an account that blocks an earlier one, even one behind another", async () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", { totalTokens: 100 });
  fixture.open("lead/a", { totalTokens: 60 });
  fixture.open("lead/b");
  const running = [await fixture.ask("lead/b", ask(15, 5)), await fixture.ask("lead/a", FORTY)];
  const first = await fixture.ask("lead/a", ask(15, 10));
  const second = await fixture.ask("lead/a", ask(40, 10));
  const late = await fixture.ask("lead/b", ask(25, 5));
  expect(outcomes(running)).toEqual([granted(1, 15, 5), granted(2, 30, 10)]);
  expect(outcomes([first, second, late])).toEqual([undefined, undefined, undefined]);
});

// B5. lead had room when the request came; the next call took that room, and none may follow it.
test("grants no request on an account that blocks an earlier one only since another grant", async () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", { outputTokens: 26 });
  fixture.open("lead/a", { outputTokens: 24 });
  await fixture.ask("lead/a", ask(0, 1));
  const waiter = await fixture.ask("lead/a", ask(0, 24));
  const next = [await fixture.ask("lead", ask(0, 2)), await fixture.ask("lead", ask(0, 1))];
  expect(outcomes([waiter, ...next])).toEqual([undefined, granted(2, 0, 2), undefined]);
});

// B5. The request shrinks since an ancestor can pay for less; the account that it waited for has
// not changed.
test("grants a waiting request whose shrunken cap fits an account that had no room for the larger one", async () => {
  const fixture = new LedgerFixture();
  const price = { inputUsdPerMillion: 0, outputUsdPerMillion: 2 };
  fixture.open("lead", { costMicroUsd: 100 });
  fixture.open("lead/a", { outputTokens: 30 });
  fixture.open("lead/b");
  await fixture.ask("lead/a", ask(0, 20));
  await fixture.ask("lead/b", ask(0, 25, price));
  const waiter = await fixture.ask("lead/a", ask(0, 25, price));
  expect((await fixture.ask("lead/b", ask(0, 1))).outcome).toEqual(granted(3, 0, 1));
  expect(waiter.outcome).toBeUndefined();
  await fixture.settle("lease_2", callUsage(0, 42, { costUsd: 0.000085 }));
  expect(waiter.outcome).toEqual(granted(4, 0, 7));
});

proves(["X2"], "removes an aborted request from the queue, and serves the next one", async () => {
  const fixture = family();
  await askAll(fixture, CHILDREN.slice(0, 2));
  const large = await fixture.ask("lead/c", ask(50, 10));
  const small = await fixture.ask("lead/a", ask(5, 5));
  fixture.clock.advance(3);
  large.cancel();
  await answered();
  expect(outcomes([large, small])).toEqual([
    { type: "cancelled", waitedMs: 3 },
    granted(3, 5, 5, 3),
  ]);
  await fixture.release("lease_1");
  await fixture.release("lease_2");
  expect(large.outcome).toEqual({ type: "cancelled", waitedMs: 3 });
});

test("grants nothing to a request that was aborted before, and reserves nothing", async () => {
  const fixture = family();
  const agentId = AgentIdSchema().parse("lead/a");
  const answer = await fixture.ledger.getAccount(agentId).requestLease(FORTY, AbortSignal.abort());
  expect(answer).toEqual({ type: "cancelled", waitedMs: 0 });
  expect(fixture.account("lead").reserved).toEqual(NO_AMOUNTS);
});

test("ignores an abort after the answer", async () => {
  const fixture = family();
  const asked = await fixture.ask("lead/a", FORTY);
  asked.cancel();
  await answered();
  expect(asked.outcome).toEqual(granted(1, 30, 10));
  expect(fixture.account("lead").reserved.totalTokens).toBe(40);
});

test("removes the abort listener of an answered request", async () => {
  const fixture = family();
  await askAll(fixture, CHILDREN.slice(0, 2));
  const { signal } = new AbortController();
  const answer = fixture.ledger
    .getAccount(AgentIdSchema().parse("lead/c"))
    .requestLease(FORTY, signal);
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  await fixture.release("lease_1");
  expect([(await answer).type, getEventListeners(signal, "abort").length]).toEqual(["granted", 0]);
});

test("throws B2 for a second settlement or release of a lease, and books nothing", async () => {
  const fixture = family();
  await askAll(fixture, CHILDREN.slice(0, 2));
  await fixture.settle("lease_1", callUsage(10, 5));
  await fixture.release("lease_2");
  const before = fixture.ledger.snapshot();
  const accounts = ["lead", ...CHILDREN].map((path) =>
    fixture.ledger.getAccount(AgentIdSchema().parse(path)),
  );
  for (const leaseId of ["lease_1", "lease_2", "lease_3"].map((id) => LeaseIdSchema().parse(id)))
    for (const account of accounts) {
      const broken = `B2: ${leaseId} is settled or released once`;
      expect(() => account.settle({ leaseId }, callUsage(1, 1))).toThrow(broken);
      expect(() => account.release({ leaseId })).toThrow(broken);
    }
  expect(fixture.ledger.snapshot()).toEqual(before);
});

test("settles and releases leases of the shared ledger through an account", async () => {
  const fixture = family();
  const gate = fixture.ledger.getAccount(AgentIdSchema().parse("lead/a"));
  const first = await fixture.ask("lead/a", FORTY);
  const second = await fixture.ask("lead/a", FORTY);
  const [one, two] = [first.outcome, second.outcome];
  if (one?.type !== "granted" || two?.type !== "granted") throw new Error("two leases");
  gate.settle(one.lease, callUsage(10, 5));
  expect(gate.releaseOpen()).toEqual([two.lease.leaseId]);
  expect(gate.remaining()).toEqual({ totalTokens: 85 });
  expect(() => gate.settle(one.lease, callUsage(1, 1))).toThrow("B2");
});

proves(["R142"], "leaves a child the smaller of its limit and its parent's rest", () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", { totalTokens: 100 });
  fixture.open("lead/wide", { totalTokens: 200 });
  fixture.open("lead/narrow", { totalTokens: 30 });
  fixture.open("lead/free");
  fixture.open("other");
  fixture.open("other/own", { totalTokens: 200 });
  fixture.ledger.getAccount(AgentIdSchema().parse("lead"));
  const left = (path: string): unknown =>
    fixture.ledger.getAccount(AgentIdSchema().parse(path)).remaining();
  expect(["lead/wide", "lead/narrow", "lead/free", "other/own", "other"].map(left)).toEqual([
    { totalTokens: 100 },
    { totalTokens: 30 },
    { totalTokens: 100 },
    { totalTokens: 200 },
    {},
  ]);
});

proves(
  ["R142", "R143"],
  "subtracts the usage of a child from its parent and its sibling",
  async () => {
    const fixture = family();
    await fixture.ask("lead/a", FORTY);
    await fixture.settle("lease_1", callUsage(20, 10));
    const [lead, a, b] = ["lead", "lead/a", "lead/b"].map((path) => AgentIdSchema().parse(path));
    if (lead === undefined || a === undefined || b === undefined) throw new Error("three agents");
    expect([
      fixture.ledger.getAccount(lead).remaining(),
      fixture.ledger.getAccount(b).remaining(),
    ]).toEqual([{ totalTokens: 70 }, { totalTokens: 70 }]);
    expect(fixture.ledger.getAccount(lead).usage()).toEqual({
      own: NO_USAGE,
      descendants: callUsage(20, 10),
      total: callUsage(20, 10),
    });
    expect(fixture.ledger.getAccount(a).usage()).toEqual({
      own: callUsage(20, 10),
      descendants: NO_USAGE,
      total: callUsage(20, 10),
    });
  },
);

proves(
  ["R145"],
  "counts a grandchild's usage once in each ancestor, and applies the tightest limit on its path",
  async () => {
    const fixture = new LedgerFixture();
    fixture.open("lead", { totalTokens: 100 });
    fixture.open("lead/a", { totalTokens: 50 });
    fixture.open("lead/a/x", { totalTokens: 80 });
    await fixture.ask("lead", ask(5, 5));
    await fixture.settle("lease_1", callUsage(5, 5));
    await fixture.ask("lead/a/x", ask(20, 90));
    await fixture.settle("lease_2", callUsage(20, 10));
    const report = (path: string): unknown =>
      fixture.ledger.getAccount(AgentIdSchema().parse(path)).usage();
    const [ten, thirty] = [callUsage(5, 5), callUsage(20, 10)];
    const total = { ...callUsage(25, 15), modelCalls: 2, steps: 2 };
    expect(report("lead/a/x")).toEqual({ own: thirty, descendants: NO_USAGE, total: thirty });
    expect(report("lead/a")).toEqual({ own: NO_USAGE, descendants: thirty, total: thirty });
    expect(report("lead")).toEqual({ own: ten, descendants: thirty, total });
    expect(fixture.ledger.getAccount(AgentIdSchema().parse("lead/a/x")).remaining()).toEqual({
      totalTokens: 20,
    });
  },
);

test("reports the remaining budget of the root as that of the run for any agent", async () => {
  const fixture = family();
  fixture.open("lead/a/x", { totalTokens: 10, steps: 3 });
  await fixture.ask("lead/b", FORTY);
  const gate = fixture.ledger.getAccount(AgentIdSchema().parse("lead/a/x"));
  expect([gate.remaining(), gate.runRemaining()]).toEqual([
    { totalTokens: 10, steps: 3 },
    { totalTokens: 60 },
  ]);
});

test("refuses a child as soon as a limit leaves it no step", async () => {
  const fixture = new LedgerFixture();
  fixture.open("lead", { steps: 1, toolCalls: 0 });
  const agentId = AgentIdSchema().parse("lead");
  expect(fixture.ledger.getAccount(agentId).exhaustedForChild()).toBeUndefined();
  await fixture.ask("lead", FORTY);
  await fixture.settle("lease_1", callUsage(1, 1));
  const refusal = { axis: "steps", accountPath: "lead", maximum: 1, spent: 1, requested: 0 };
  expect(fixture.ledger.getAccount(agentId).exhaustedForChild()).toEqual(refusal);
});

test("releases the open leases of an ended agent, and serves the queue", async () => {
  const fixture = family();
  const asked = await askAll(fixture, ["lead/a", "lead/a", "lead/b"]);
  fixture.ledger.getAccount(AgentIdSchema().parse("lead/a")).releaseOpen();
  await answered();
  expect(asked[2]?.outcome).toEqual(granted(3, 30, 10));
  expect(fixture.account("lead/a").reserved).toEqual(NO_AMOUNTS);
  expect(fixture.account("lead").reserved.totalTokens).toBe(40);
});

test("opens an account once, and only below an existing one", () => {
  const fixture = family();
  expect(() => fixture.open("lead/a")).toThrow("an account is opened once");
  expect(() => fixture.open("nobody/a")).toThrow("nobody has an account");
});

// If the call waited, the invariant of B5 would break in the settlement of another agent.
test("answers a free call beside an overdrawn cost limit, and lets other settlements proceed", async () => {
  const fixture = new LedgerFixture();
  const priced = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
  fixture.open("lead", { costMicroUsd: 100 });
  for (const path of CHILDREN) fixture.open(path);
  await fixture.ask("lead/a", ask(30, 10, priced));
  await fixture.ask("lead/b", ask(30, 10, priced));
  await fixture.settle("lease_1", callUsage(60, 10, { costUsd: 0.00007 }));
  const free = await fixture.ask(
    "lead/c",
    ask(10, 10, { inputUsdPerMillion: 0, outputUsdPerMillion: 0 }),
  );
  await fixture.settle("lease_2", callUsage(30, 10, { costUsd: 0.00004 }));
  expect(free.outcome).toBeDefined();
});

/** Returns the accounts of `family` after a settled call, as another process reads them. */
async function paused(): Promise<{ readonly fixture: LedgerFixture; readonly stored: string }> {
  const fixture = family();
  await fixture.ask("lead/a", FORTY);
  await fixture.settle("lease_1", callUsage(35, 15));
  return { fixture, stored: JSON.stringify(fixture.ledger.snapshot()) };
}

test("restores usage, limits and lease numbers from JSON", async () => {
  const { fixture, stored } = await paused();
  const resumed = new BudgetLedger(fixture.clock);
  resumed.restore(AccountSchema().array().parse(JSON.parse(stored)), fixture.ledger.leaseCount);
  expect([resumed.snapshot(), resumed.leaseCount]).toEqual([fixture.ledger.snapshot(), 1]);
  const { signal } = new AbortController();
  const lead = AgentIdSchema().parse("lead");
  expect(await resumed.getAccount(lead).requestLease(FORTY, signal)).toEqual(granted(2, 30, 10));
  expect(resumed.getAccount(lead).remaining()).toEqual({ totalTokens: 10 });
  resumed.open(
    { agentId: AgentIdSchema().parse("lead/d"), agentPath: "lead/d", limits: {} },
    resumed.getAccount(lead),
  );
  expect(resumed.leaseCount).toBe(2);
});

test("restores accounts without open leases, and only into a new ledger", async () => {
  const { fixture, stored } = await paused();
  const accounts = AccountSchema().array().parse(JSON.parse(stored));
  const fresh = (): BudgetLedger => new BudgetLedger(fixture.clock);
  expect(() => fixture.ledger.restore(accounts, 1)).toThrow("new ledger");
  expect(() => fresh().restore(accounts.toReversed(), 1)).toThrow("has an account");
  expect(() => fresh().restore([...accounts, ...accounts], 1)).toThrow("opened once");
  for (const count of [-1, 0.5])
    expect(() => fresh().restore(accounts, count)).toThrow("counted from 0 up");
  await fixture.ask("lead/a", FORTY);
  expect(() => fresh().restore(fixture.ledger.snapshot(), 2)).toThrow(
    "B2: a reservation is an open lease",
  );
});
