// Goal: the work of the ledger for waiting requests grows linearly with their number, whatever they
// wait for and however they leave; and no request is forgotten.
// Method: 10,000 agents at once; every read of a request is counted, and compared with a crowd of
// half the size.

import { expect, test } from "vitest";

import type { LeaseAsk, LeaseOutcome } from "../../src/budget/lease.ts";
import type { NewAccount } from "../../src/budget/ledger.ts";
import { BudgetLedger } from "../../src/budget/ledger.ts";
import { AgentIdSchema, LeaseIdSchema, type AgentId } from "../../src/protocol/ids.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { proves } from "../harness/proves.ts";
import { callUsage } from "../support/ledger-fixture.ts";

const SIZE = 10_000;

type Opened = Omit<NewAccount, "agentId" | "agentPath" | "nowMs">;

interface CrowdOptions {
  readonly lead: Opened;
  /** The account between the lead and the crowd. */
  readonly middle?: Opened;
  readonly member?: (index: number) => Opened;
  readonly maxOutputTokens?: number;
}

class Crowd {
  readonly clock = new ManualClock();
  readonly #holders = new Map<string, AgentId>();
  readonly ledger = new BudgetLedger(this.clock, {
    onOperation: (done) => {
      if (done.operation === "lease") this.#holders.set(done.lease.leaseId, done.agentId);
    },
  });
  readonly controllers: AbortController[] = [];
  looks = 0;
  readonly #answers: Promise<LeaseOutcome>[] = [];

  constructor(size: number, options: CrowdOptions) {
    const { lead, middle = { limits: {} }, member = () => ({ limits: {} }) } = options;
    const [root, between] = [this.#open("lead", lead, null), "lead/middle"];
    const above = this.#open(between, middle, root);
    const ask = this.#counted({ inputTokens: 6, maxOutputTokens: options.maxOutputTokens ?? 4 });
    for (let index = 0; index < size; index += 1) {
      const agentId = this.#open(`${between}/${index}`, member(index), above);
      const controller = new AbortController();
      this.controllers.push(controller);
      this.#answers.push(this.ledger.getAccount(agentId).requestLease(ask, controller.signal));
    }
  }

  #open(path: string, account: Opened, parentId: AgentId | null): AgentId {
    const agentId = AgentIdSchema().parse(path);
    const parent = parentId === null ? undefined : this.ledger.getAccount(parentId);
    this.ledger.open({ ...account, agentId, agentPath: path }, parent);
    return agentId;
  }

  #counted(ask: Omit<LeaseAsk, "price">): LeaseAsk {
    const look = (): void => void (this.looks += 1);
    return {
      ...ask,
      price: undefined,
      get inputTokens() {
        look();
        return ask.inputTokens;
      },
    };
  }

  settle(number: number, tokens: readonly [input: number, output: number] = [6, 4]): void {
    const leaseId = LeaseIdSchema().parse(`lease_${number}`);
    const holder = this.#holders.get(leaseId);
    if (holder === undefined) throw new Error(`There was no lease ${leaseId}.`);
    this.ledger.getAccount(holder).settle({ leaseId }, callUsage(...tokens));
  }

  /** Returns how many requests were granted, refused and cancelled. */
  async counts(): Promise<Readonly<Record<string, number>>> {
    const counts: Record<string, number> = {};
    for (const { type } of await Promise.all(this.#answers)) counts[type] = (counts[type] ?? 0) + 1;
    return counts;
  }
}

/**
 * Opens a crowd that leaves as `leave` says; returns the outcomes and how often each request was
 * read.
 */
async function crowd(
  options: CrowdOptions,
  leave: (crowd: Crowd, size: number) => void,
): Promise<{ readonly counts: unknown; readonly looksPerHead: number; readonly growth: number }> {
  const looks: number[] = [];
  let counts: unknown;
  for (const size of [SIZE / 2, SIZE]) {
    const one = new Crowd(size, options);
    leave(one, size);
    counts = await one.counts();
    looks.push(one.looks);
  }
  const [half = 0, whole = 0] = looks;
  return { counts, looksPerHead: whole / SIZE, growth: whole / half };
}

const ENOUGH = SIZE * 10;
const LINEAR = { looks: 60, growth: 2.1 };

function mortal(index: number): Opened {
  return { limits: {}, timeMs: index + 1 };
}

function expectLinear({ looksPerHead, growth }: Awaited<ReturnType<typeof crowd>>): void {
  expect(looksPerHead).toBeLessThan(LINEAR.looks);
  expect(growth).toBeLessThan(LINEAR.growth);
}

proves(
  ["X2"],
  "serves 10,000 agents that wait for one budget in turn, with linear work",
  async () => {
    // Each call holds half of the tokens that may be held at once, and gives them back unused.
    const done = await crowd({ lead: { limits: { totalTokens: 20 } } }, (one, size) => {
      for (let number = 1; number <= size; number += 1) one.settle(number, [0, 0]);
    });
    expect(done.counts).toEqual({ granted: SIZE });
    expectLinear(done);
  },
);

test("serves them with linear work if the budget is that of an account below the root", async () => {
  const done = await crowd(
    { lead: { limits: {} }, middle: { limits: { totalTokens: 20 } } },
    (one, size) => {
      for (let number = 1; number <= size; number += 1) one.settle(number, [0, 0]);
    },
  );
  expect(done.counts).toEqual({ granted: SIZE });
  expectLinear(done);
});

test("serves them with linear work if every account has limits, times and a reserve", async () => {
  const limits = { totalTokens: ENOUGH + 100, outputTokens: ENOUGH };
  const done = await crowd(
    {
      lead: { limits, reserve: { totalTokens: 80 }, timeMs: 60_000 },
      middle: { limits: { ...limits, steps: SIZE }, deadlineAtMs: 50_000 },
      member: (index) => ({ limits: { steps: 1 }, timeMs: 1_000 + index }),
      maxOutputTokens: ENOUGH,
    },
    (one, size) => {
      for (let number = 1; number <= size; number += 1) one.settle(number);
    },
  );
  expect(done.counts).toEqual({ granted: SIZE });
  expectLinear(done);
});

test("refuses most of them with linear work if all want more than the budget", async () => {
  const done = await crowd(
    { lead: { limits: { totalTokens: 1_000 } }, maxOutputTokens: 5_000 },
    (one) => {
      for (let number = 1; number <= 100; number += 1) one.settle(number);
    },
  );
  expect(done.counts).toEqual({ granted: 100, refused: SIZE - 100 });
  expectLinear(done);
});

test("refuses all impossible requests by one settlement", async () => {
  const done = await crowd({ lead: { limits: { totalTokens: 10 } } }, (one) => one.settle(1));
  expect(done.counts).toEqual({ granted: 1, refused: SIZE - 1 });
  expectLinear(done);
});

test("removes aborted requests with linear work, from either end of the queue", async () => {
  for (const turn of ["first", "last"]) {
    const done = await crowd({ lead: { limits: { totalTokens: 10 } } }, ({ controllers }) => {
      const order = turn === "first" ? controllers : controllers.toReversed();
      for (const controller of order) controller.abort();
    });
    expect(done.counts).toEqual({ granted: 1, cancelled: SIZE - 1 });
    expectLinear(done);
  }
});

test("refuses each request when its own time is over, one after the other", async () => {
  const options = { lead: { limits: { totalTokens: 10 } }, member: mortal };
  const done = await crowd(options, (one, size) => {
    const lead = one.ledger.getAccount(AgentIdSchema().parse("lead"));
    for (let index = 1; index < size; index += 1) {
      one.clock.advance(1);
      const tooMuch = { inputTokens: 100, maxOutputTokens: 1, price: undefined };
      void lead.requestLease(tooMuch, new AbortController().signal);
    }
    one.clock.advance(1);
    one.settle(1);
  });
  expect(done.counts).toEqual({ granted: 1, refused: SIZE - 1 });
  expectLinear(done);
});

test("settles calls elsewhere with work independent of the waiting requests", async () => {
  const looks: number[] = [];
  for (const size of [100, SIZE]) {
    const one = new Crowd(size, {
      lead: { limits: { steps: ENOUGH } },
      middle: { limits: { totalTokens: 10 } },
    });
    const other = AgentIdSchema().parse("other");
    one.ledger.open(
      { agentId: other, agentPath: "lead/other", limits: {} },
      one.ledger.getAccount(AgentIdSchema().parse("lead")),
    );
    const before = one.looks;
    const { signal } = new AbortController();
    const free = { inputTokens: 1, maxOutputTokens: 1, price: undefined };
    for (let number = 2; number < 102; number += 1) {
      void one.ledger.getAccount(other).requestLease(free, signal);
      one.settle(number, [1, 1]);
    }
    looks.push(one.looks - before);
  }
  expect(looks[1]).toBe(looks[0]);
});
