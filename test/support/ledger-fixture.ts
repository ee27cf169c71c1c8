// A ledger under test: accounts named by their path in the tree, a manual clock, and answers that
// can be inspected without waiting.

import type { BudgetAccount } from "../../src/budget/budget-account.ts";
import type { LeaseAsk, LeaseOutcome, ReachedThreshold } from "../../src/budget/lease.ts";
import type { ModelPrice } from "../../src/model/model-price.ts";
import { BudgetLedger, type NewAccount } from "../../src/budget/ledger.ts";
import type { LedgerAccount } from "../../src/protocol/account.ts";
import type { SpendLimits } from "../../src/policies/budget.ts";
import { AgentIdSchema, LeaseIdSchema, type AgentId } from "../../src/protocol/ids.ts";
import { NO_USAGE, type Usage } from "../../src/protocol/usage.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

/** A request of a test: input tokens, output cap, and optionally a price. */
export function ask(inputTokens: number, maxOutputTokens: number, price?: ModelPrice): LeaseAsk {
  return { inputTokens, maxOutputTokens, price };
}

/** The usage of one model call. */
export function callUsage(
  inputTokens: number,
  outputTokens: number,
  more: Partial<Usage> = {},
): Usage {
  const tokens = { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
  return { ...NO_USAGE, modelCalls: 1, steps: 1, ...tokens, ...more };
}

/** A request to the ledger, and its answer once available. */
export interface Asked {
  readonly outcome: LeaseOutcome | undefined;
  /** Aborts the one that waits. */
  cancel(): void;
}

export class LedgerFixture {
  readonly clock = new ManualClock();
  readonly ledger: BudgetLedger;
  /** Whose each lease is. */
  readonly #holders = new Map<string, AgentId>();

  constructor(onThreshold?: (reached: ReachedThreshold) => void) {
    this.ledger = new BudgetLedger(this.clock, {
      onThreshold,
      onOperation: (done) => {
        if (done.operation === "lease") this.#holders.set(done.lease.leaseId, done.agentId);
      },
    });
  }

  /** The account that holds, or held, a lease. */
  holderOf(leaseId: string): BudgetAccount {
    const agentId = this.#holders.get(leaseId);
    if (agentId === undefined) throw new Error(`There was no lease ${leaseId}.`);
    return this.ledger.getAccount(agentId);
  }

  /**
   * Opens the account of `path` below the account of its parent path. A number is a fixed deadline.
   */
  open(
    path: string,
    limits: SpendLimits = {},
    more: number | Pick<NewAccount, "reserve" | "deadlineAtMs" | "timeMs"> = {},
  ): void {
    const slash = path.lastIndexOf("/");
    const parent =
      slash === -1
        ? undefined
        : this.ledger.getAccount(AgentIdSchema().parse(path.slice(0, slash)));
    const others = typeof more === "number" ? { deadlineAtMs: more } : more;
    this.ledger.open(
      { agentId: AgentIdSchema().parse(path), agentPath: path, limits, ...others },
      parent,
    );
  }

  /** Asks, and gives the promise of the ledger time to resolve if it is answered at once. */
  async ask(path: string, question: LeaseAsk): Promise<Asked> {
    const agentId = AgentIdSchema().parse(path);
    return await this.#asked((signal) =>
      this.ledger.getAccount(agentId).requestLease(question, signal),
    );
  }

  async #asked(wait: (signal: AbortSignal) => Promise<LeaseOutcome>): Promise<Asked> {
    const controller = new AbortController();
    let outcome: LeaseOutcome | undefined;
    void wait(controller.signal).then((answer) => (outcome = answer));
    await answered();
    return {
      get outcome() {
        return outcome;
      },
      cancel: () => controller.abort(),
    };
  }

  /** Asks that an open lease cover one more attempt, up to this cap. */
  async extend(leaseId: string, { inputTokens, maxOutputTokens, price }: LeaseAsk): Promise<Asked> {
    const sizes = { inputTokens, maxOutputTokens };
    const lease = { leaseId: LeaseIdSchema().parse(leaseId), ...sizes };
    return await this.#asked((signal) => this.holderOf(leaseId).extend(lease, { price }, signal));
  }

  /** Ends an attempt under a lease. */
  async charge(leaseId: string, usage: Usage, attempt = 1): Promise<void> {
    this.holderOf(leaseId).charge({ leaseId: LeaseIdSchema().parse(leaseId), attempt }, usage);
    await answered();
  }

  async settle(leaseId: string, usage: Usage): Promise<void> {
    this.holderOf(leaseId).settle({ leaseId: LeaseIdSchema().parse(leaseId) }, usage);
    await answered();
  }

  async release(leaseId: string): Promise<void> {
    this.holderOf(leaseId).release({ leaseId: LeaseIdSchema().parse(leaseId) });
    await answered();
  }

  account(path: string): LedgerAccount {
    const account = this.ledger.snapshot().find((candidate) => candidate.agentPath === path);
    if (account === undefined) throw new Error(`There is no account ${path}.`);
    return account;
  }
}

/** Lets answers that were given reach those who asked. */
export async function answered(): Promise<void> {
  await Promise.resolve();
  await Promise.resolve();
}

/** The answer that grants a lease. */
export function granted(
  number: number,
  inputTokens: number,
  maxOutputTokens: number,
  waitedMs = 0,
): LeaseOutcome {
  const leaseId = LeaseIdSchema().parse(`lease_${number}`);
  return {
    type: "granted",
    lease: { leaseId, inputTokens, maxOutputTokens },
    waitedMs,
  };
}
