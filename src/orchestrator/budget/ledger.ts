// BudgetLedger: who may still spend what, over the whole tree of one run. Owns the accounts and those who wait for room on them.
// What an account holds and books: agent-account.ts. The arithmetic: ledger-arithmetic.ts. Whose turn it is: waiting-line.ts.
//
// B5. Waiters are served in order: none is granted an account that blocks an earlier waiter. They cannot deadlock, since only
//     calls in flight hold leases, and those settle by themselves.
// X6. A threshold of a limit is reached once: what is spent only grows. A grant makes a new limit, with thresholds of its own.

import type { LeaseOutcome } from "../../agent/budget-gate.ts";
import { invariant } from "../../kernel/assert.ts";
import { onAbort } from "../../kernel/cancel.ts";
import type { Clock } from "../../kernel/clock.ts";
import { SPEND_AXES } from "../../policies/budget.ts";
import type { Account, AccountGrant } from "../../protocol/account.ts";
import { LeaseIdSchema, type AgentId, type LeaseId } from "../../protocol/ids.ts";
import type { Usage } from "../../protocol/usage.ts";
import { AgentAccount, emitReached, type AccountAsk, type LedgerWatch } from "./agent-account.ts";
import type { LedgerAccount } from "./ledger-account.ts";
import { openAccount, reserve, type NewAccount, type ReserveOutcome } from "./ledger-arithmetic.ts";
import { grantTo, type GivenBudget } from "./ledger-grant.ts";
import type { Booking, KeptHold } from "./ledger-operation.ts";
import { WaitingLine } from "./waiting-line.ts";

interface Waiter extends AccountAsk {
  readonly askedAtMs: number;
  readonly resolve: (outcome: LeaseOutcome) => void;
}

export class BudgetLedger {
  readonly clock: Clock;
  readonly watch: LedgerWatch;
  /** Undefined until the first has to wait. */
  line: WaitingLine<Waiter> | undefined;
  readonly #accounts = new Map<AgentId, AgentAccount>();
  #leaseCount = 0;

  constructor(clock: Clock, watch: LedgerWatch = {}) {
    this.clock = clock;
    this.watch = watch;
  }

  /** Opens an account below its parent's; the first one is the root's. */
  open(account: Omit<NewAccount, "nowMs">, parentId: AgentId | null): AgentAccount {
    const parent = parentId === null ? undefined : this.gate(parentId);
    return this.#add(openAccount({ ...account, nowMs: this.clock.nowMs() }, parent), parent);
  }

  #add(account: Account, parent: AgentAccount | undefined): AgentAccount {
    invariant(!this.#accounts.has(account.agentId), "an account is opened once");
    const added = new AgentAccount(this, account, parent);
    this.#accounts.set(account.agentId, added);
    return added;
  }

  /** Takes an account back whose agent could not be set up: nothing was held or spent on it. */
  forget(agentId: AgentId): void {
    invariant(this.#accounts.get(agentId)?.hasLeases !== true, "an account that was used stays");
    this.#accounts.delete(agentId);
  }

  /**
   * Takes over the accounts of a paused run, in the order of its snapshot; its leases are numbered on from `leaseCount`. The time in
   * between is the caller's to exclude, for every agent that has not ended. `leases`: those that are open still.
   */
  restore(
    accounts: readonly Account[],
    leaseCount: number,
    leases: readonly KeptHold[] = [],
  ): void {
    const isFresh = this.#accounts.size === 0 && this.#leaseCount === 0;
    invariant(isFresh, "accounts are restored into a fresh ledger");
    invariant(Number.isSafeInteger(leaseCount) && leaseCount >= 0, "leases are counted from 0 up");
    for (const account of accounts) {
      const { parentId, reserved } = account;
      const isFree = SPEND_AXES.every((axis) => reserved[axis] === 0);
      invariant(isFree || leases.length > 0, "B2: what is reserved is an open lease");
      const parent = parentId === null ? undefined : this.#accounts.get(parentId);
      invariant(parentId === null || parent !== undefined, "a parent comes first");
      this.#add(account, parent);
    }
    this.#leaseCount = leaseCount;
    for (const lease of leases) this.gate(lease.agentId).adopt(lease);
  }

  /** Leases that were given so far. */
  get leaseCount(): number {
    return this.#leaseCount;
  }

  /** The account that the agent holds. */
  gate(agentId: AgentId): AgentAccount {
    const account = this.#accounts.get(agentId);
    invariant(account !== undefined, `${agentId} has an account`);
    return account;
  }

  /** The agent's account as it stands, as a plain value. */
  account(agentId: AgentId): Account {
    return this.gate(agentId).snapshot();
  }

  /** All accounts, as plain values, in the order in which they were opened. */
  snapshot(): readonly Account[] {
    const nowMs = this.clock.nowMs();
    return Array.from(this.#accounts.values(), (account) => account.snapshotAt(nowMs));
  }

  /** Does once more what a journal tells of a call in flight. Nothing, if it does not fit. */
  redo(done: Booking): void {
    for (const account of this.#accounts.values()) if (account.redo(done)) return;
  }

  /**
   * Raises limits of one account, serves those who waited for it (X7), and gives what is on record of it. Only limits that the account has
   * can be raised; its deadline has to be looked at anew. `field` names the grant in the error. The grant itself must be checked before.
   *
   * @throws EspalierError `invalid_option` for an axis on which the account has no limit.
   */
  grant(agentId: AgentId, given: GivenBudget, field = "grant"): AccountGrant {
    const account = this.gate(agentId);
    const grant = grantTo(account, { ...given, atMs: this.clock.nowMs() }, field);
    this.watch.onOperation?.({ operation: "grant", agentId, grant });
    this.line?.touch(account);
    this.line?.raise(account);
    this.serve();
    return grant;
  }

  // For its accounts

  nextLeaseId(): LeaseId {
    this.#leaseCount += 1;
    return LeaseIdSchema.parse(`lease_${this.#leaseCount}`);
  }

  /** Waits in line while calls in flight may make room; never rejects. */
  ask(asked: AccountAsk, signal: AbortSignal): Promise<LeaseOutcome> {
    if (signal.aborted) return Promise.resolve({ type: "cancelled", waitedMs: 0 });
    this.serve();
    const { account, ask } = asked;
    const outcome = reserve(account, ask, this.clock);
    const isFree = outcome.type === "refused" || this.line?.isContested(account) !== true;
    return outcome.type !== "wait" && isFree
      ? Promise.resolve(answer(asked, outcome, 0))
      : this.#wait(asked, signal);
  }

  #wait(asked: AccountAsk, signal: AbortSignal): Promise<LeaseOutcome> {
    const { promise, resolve } = Promise.withResolvers<LeaseOutcome>();
    const askedAtMs = this.clock.nowMs();
    const line = (this.line ??= new WaitingLine());
    const stopListening = onAbort(signal, () => {
      line.leave(place);
      resolve({ type: "cancelled", waitedMs: this.clock.nowMs() - askedAtMs });
      this.serve();
    });
    const served = (outcome: LeaseOutcome): void => {
      stopListening();
      resolve(outcome);
    };
    const place = line.join({ ...asked, askedAtMs, resolve: served }, askedAtMs);
    return promise;
  }

  /** So much was spent: emits the thresholds that this has reached. */
  spent(account: LedgerAccount, usage: Usage): void {
    if (this.watch.onThreshold === undefined) return;
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting)
      this.#emitReached(at, usage);
  }

  #emitReached(at: LedgerAccount, usage: Usage): void {
    for (const axis of at.axes) {
      const maximum = at.limits[axis];
      if (maximum === undefined || usage[axis] === 0) continue;
      const spent = at.total[axis];
      emitReached(this.watch, at, { axis, maximum, before: spent - usage[axis], spent });
    }
  }

  /** Answers those in the line whose turn it is, or who would be refused, in the order in which they asked. */
  serve(): void {
    const line = this.line;
    if (line === undefined || line.size === 0) return;
    const nowMs = this.clock.nowMs();
    const clock = { nowMs: () => nowMs };
    const served = line.serve(nowMs, (waiter) => {
      const { account, ask, askedAtMs } = waiter;
      const outcome = reserve(account, ask, clock);
      invariant(outcome.type !== "wait", "B5: who is served need not wait");
      return answer(waiter, outcome, nowMs - askedAtMs);
    });
    invariant(line.size === 0 || this.#isHeld(), "B5: an agent waits and no lease holds room");
    for (const { waiter, outcome } of served) waiter.resolve(outcome);
  }

  /** Whether room is held: all leases are in the root's account. */
  #isHeld(): boolean {
    const [root] = this.#accounts.values();
    return root !== undefined && SPEND_AXES.some((axis) => root.reserved[axis] > 0);
  }
}

function answer(
  { account, leaseId }: AccountAsk,
  outcome: Exclude<ReserveOutcome, { readonly type: "wait" }>,
  waitedMs: number,
): LeaseOutcome {
  if (outcome.type === "refused") return { type: "refused", refusal: outcome.refusal, waitedMs };
  return leaseId === undefined
    ? account.openLease(outcome.hold, waitedMs)
    : account.extendLease(leaseId, outcome.hold, waitedMs);
}
