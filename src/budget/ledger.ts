// BudgetLedger: the budget accounts of all agents of a run. Owns the accounts. Does not own holds
// and bookings (budget-account.ts), decisions (lease-decision.ts) and waiting calls (lease-queue.ts).
//
// A threshold of a limit is reached once, since spent amounts only grow. A grant makes a new limit,
// with thresholds of its own.

import { invariant } from "../kernel/invariant.ts";
import { NO_AMOUNTS, type SpendLimits } from "../policies/budget.ts";
import { LEDGER_AXES, type AccountGrant, type LedgerAccount } from "../protocol/account.ts";
import type { AgentId, LeaseId } from "../protocol/ids.ts";
import { NO_USAGE } from "../protocol/usage.ts";
import { BudgetAccount } from "./budget-account.ts";
import type { LedgerWatch } from "./lease.ts";
import type { LeaseQueue, LedgerParts } from "./lease-queue.ts";
import { checkRaisable, type BudgetGrant } from "./ledger-grant.ts";
import type { PersistedHold } from "./ledger-operation.ts";
import type { Now } from "./lease-decision.ts";

export class BudgetLedger implements LedgerParts {
  readonly clock: Now;
  watch: LedgerWatch;
  /** `undefined` until the first agent has to wait. */
  queue: LeaseQueue | undefined;
  /** Number of leases given so far. */
  leaseCount = 0;
  readonly #accounts = new Map<AgentId, BudgetAccount>();

  constructor(clock: Now, watch: LedgerWatch = {}) {
    this.clock = clock;
    this.watch = watch;
  }

  /** Opens an account below its parent's. The first one is the root's, and has no parent. */
  open(account: Omit<NewAccount, "nowMs">, parent?: BudgetAccount): BudgetAccount {
    return this.#add(openAccount({ ...account, nowMs: this.clock.nowMs() }, parent), parent);
  }

  /** Adds a stored account below its parent's, which must come first. */
  adopt(account: LedgerAccount): void {
    const { parentAgentId } = account;
    this.#add(account, parentAgentId === null ? undefined : this.getAccount(parentAgentId));
  }

  #add(account: LedgerAccount, parent: BudgetAccount | undefined): BudgetAccount {
    invariant(!this.#accounts.has(account.agentId), "an account is opened once");
    const added = new BudgetAccount(this, account, parent);
    this.#accounts.set(account.agentId, added);
    return added;
  }

  /** Removes the account of an agent whose setup failed: nothing was reserved or spent on it. */
  forget(agentId: AgentId): void {
    const { steps = 0, inputTokens = 0 } = this.#accounts.get(agentId)?.reserved ?? {};
    invariant(steps + inputTokens === 0, "an account that was used cannot be removed");
    this.#accounts.delete(agentId);
  }

  /**
   * Adds the accounts of a paused run, in the order of its snapshot. Numbers further leases from
   * `leaseCount`. The caller excludes the time of the pause, for every agent that has not ended.
   * `leases` contains the leases that are still open.
   */
  restore(
    accounts: readonly LedgerAccount[],
    leaseCount: number,
    leases: readonly PersistedHold[] = [],
  ): void {
    const isFresh = this.#accounts.size === 0 && this.leaseCount === 0;
    invariant(isFresh, "accounts are restored into a new ledger");
    invariant(Number.isSafeInteger(leaseCount) && leaseCount >= 0, "leases are counted from 0 up");
    for (const account of accounts) {
      const isFree = LEDGER_AXES.every((axis) => account.reserved[axis] === 0);
      invariant(isFree || leases.length > 0, "B2: a reservation is an open lease");
      this.adopt(account);
    }
    this.leaseCount = leaseCount;
    for (const lease of leases) this.getAccount(lease.agentId).adopt(lease);
  }

  /** Returns the account that holds an open lease. */
  findHolder(leaseId: LeaseId): BudgetAccount | undefined {
    return [...this.#accounts.values()].find((account) => account.getLease(leaseId) !== undefined);
  }

  /** Returns the account of an agent. */
  getAccount(agentId: AgentId): BudgetAccount {
    const account = this.#accounts.get(agentId);
    invariant(account !== undefined, `${agentId} has an account`);
    return account;
  }

  /** Returns all accounts as plain values, in the order of their opening. */
  snapshot(nowMs = this.clock.nowMs()): readonly LedgerAccount[] {
    return Array.from(this.#accounts.values(), (account) => account.snapshotAt(nowMs));
  }

  /**
   * Stops reporting, because the run has ended. A result refers to the ledger, which must not
   * retain the run.
   */
  close(): void {
    this.watch = {};
  }

  /**
   * Raises limits of an account, serves the agents that waited for it, and returns the record of
   * the grant. Only existing limits can be raised. The caller checks the grant before, and computes
   * the deadline again afterwards. `field` names the grant in the error.
   *
   * @throws EspalierError `invalid_argument` for an axis on which the account has no limit.
   */
  grant(agentId: AgentId, request: BudgetGrant, field = "grant"): AccountGrant {
    const account = this.getAccount(agentId);
    checkRaisable(account, request, field);
    const grant = account.raise({ ...request, atMs: this.clock.nowMs() });
    this.watch.onOperation?.({ operation: "grant", agentId, grant });
    this.queue?.raise(account);
    this.queue?.serve();
    return grant;
  }
}

export interface NewAccount {
  readonly agentId: AgentId;
  readonly agentPath: string;
  readonly limits: SpendLimits;
  /** Part of the limits that descendants must leave. Default: nothing. */
  readonly reserve?: SpendLimits | undefined;
  /** Time limit from now on, without the time in which the account's clock is paused. */
  readonly timeMs?: number | undefined;
  /** Fixed deadline, which never moves. The earlier of both limits applies. */
  readonly deadlineAtMs?: number | undefined;
  readonly nowMs: number;
}

/** Opens an account below `parent`. A fixed deadline can only be tightened on the way down. */
export function openAccount(
  account: NewAccount,
  parent: Pick<LedgerAccount, "agentId" | "fixedDeadlineAtMs"> | undefined,
): LedgerAccount {
  const { deadlineAtMs = Infinity } = account;
  const fixedDeadlineAtMs = Math.min(deadlineAtMs, parent?.fixedDeadlineAtMs ?? Infinity);
  return {
    agentId: account.agentId,
    parentAgentId: parent?.agentId ?? null,
    agentPath: account.agentPath,
    limits: account.limits,
    reserve: account.reserve ?? {},
    grants: [],
    fixedDeadlineAtMs: fixedDeadlineAtMs === Infinity ? null : fixedDeadlineAtMs,
    timeLimitMs: account.timeMs ?? null,
    openedAtMs: account.nowMs,
    pausedMs: 0,
    own: NO_USAGE,
    total: NO_USAGE,
    reserved: NO_AMOUNTS,
    excess: NO_AMOUNTS,
  };
}
