// BudgetLedger: who may still spend what, over the whole tree of one run.
// Owns: the accounts, the open leases and the waiting line. The arithmetic is in ledger-core.ts; this holds its result.
//
// B2. A lease is settled or released exactly once; a second attempt throws.
// B5. Waiters are served in order: nobody is granted an account that blocks an earlier waiter. They cannot deadlock, since only
//     calls in flight hold leases, and those settle by themselves.
//
// An account whose clock stands still is brought up to date whenever it is read, so that its time limit does not come nearer, also
// for somebody who waits in the line meanwhile.

import { invariant } from "../kernel/assert.ts";
import type { Clock } from "../kernel/clock.ts";
import type {
  BudgetGate,
  BudgetRefusal,
  Lease,
  LeaseAsk,
  LeaseOutcome,
  Remaining,
} from "../agent/budget-gate.ts";
import { SPEND_AXES, type Amounts } from "../policies/budget.ts";
import type { Account } from "../protocol/account.ts";
import { LeaseIdSchema, type AgentId, type LeaseId } from "../protocol/ids.ts";
import { subtractUsage, type Usage, type UsageReport } from "../protocol/usage.ts";
import * as core from "./ledger-core.ts";

interface OpenLease {
  readonly agentId: AgentId;
  readonly hold: Amounts;
}

interface Waiter {
  readonly agentId: AgentId;
  readonly ask: LeaseAsk;
  readonly askedAtMs: number;
  readonly resolve: (outcome: LeaseOutcome) => void;
}

export class BudgetLedger {
  readonly #clock: Clock;
  readonly #accounts = new Map<AgentId, Account>();
  /** Accounts whose clock stands still, and up to when that is booked. */
  readonly #still = new Map<AgentId, number>();
  readonly #leases = new Map<LeaseId, OpenLease>();
  readonly #leasesOf = new Map<AgentId, Set<LeaseId>>();
  #line: Waiter[] = [];
  /** Accounts that have no room for somebody in the line. */
  #blocked = new Set<AgentId>();
  /** A lease was given since the line was asked: more accounts may have no room for somebody in it. */
  #hasGiven = false;
  /** The earliest deadline of somebody in the line. */
  #dueAtMs = Infinity;
  #leaseCount = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Opens an account below its parent's; the first one is the root's. */
  open(account: Omit<core.NewAccount, "nowMs">, parentId: AgentId | null): void {
    invariant(!this.#accounts.has(account.agentId), "an account is opened once");
    const parent = parentId === null ? undefined : this.#account(parentId);
    const nowMs = this.#clock.nowMs();
    this.#accounts.set(account.agentId, core.openAccount({ ...account, nowMs }, parent));
  }

  /**
   * Takes over the accounts of a paused run, in the order of its snapshot; its leases go on from number `leaseCount`. The time in
   * between is the caller's to book with `standStill`, for every agent that lives on.
   */
  restore(accounts: readonly Account[], leaseCount: number): void {
    const isFresh = this.#accounts.size === 0 && this.#leaseCount === 0;
    invariant(isFresh, "accounts are restored into a fresh ledger");
    invariant(Number.isSafeInteger(leaseCount) && leaseCount >= 0, "leases are counted from 0 up");
    for (const account of accounts) {
      const { agentId, parentId, reserved } = account;
      const isFree = SPEND_AXES.every((axis) => reserved[axis] === 0);
      invariant(isFree, "B2: no lease outlives the process that gave it");
      invariant(!this.#accounts.has(agentId), "an account is opened once");
      invariant(parentId === null || this.#accounts.has(parentId), "a parent comes first");
      this.#accounts.set(agentId, account);
    }
    this.#leaseCount = leaseCount;
  }

  /** Leases that were given so far. */
  get leaseCount(): number {
    return this.#leaseCount;
  }

  /** Asks for a lease. Waits in line while calls in flight may make room; never rejects. */
  reserve(agentId: AgentId, ask: LeaseAsk, signal: AbortSignal): Promise<LeaseOutcome> {
    if (signal.aborted) return Promise.resolve({ type: "cancelled", waitedMs: 0 });
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#line = this.#line.filter((other) => other !== waiter);
        resolve({ type: "cancelled", waitedMs: this.#clock.nowMs() - waiter.askedAtMs });
        this.#serve();
      };
      const waiter: Waiter = {
        agentId,
        ask,
        askedAtMs: this.#clock.nowMs(),
        resolve: (outcome) => {
          signal.removeEventListener("abort", leave);
          resolve(outcome);
        },
      };
      this.#refresh();
      if (this.#admit(waiter)) return;
      this.#line.push(waiter);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** Books what a call used and gives the rest of its lease back (B2, B3). */
  settle(leaseId: LeaseId, usage: Usage): void {
    const { agentId, hold } = this.#take(leaseId);
    this.#store(core.settle(this.#path(agentId), hold, usage));
    this.#serve();
  }

  /** Gives an unused lease back (B2). */
  release(leaseId: LeaseId): void {
    const { agentId, hold } = this.#take(leaseId);
    this.#store(core.release(this.#path(agentId), hold));
    this.#serve();
  }

  /** Gives back what an agent that has ended still holds. */
  releaseOpen(agentId: AgentId): readonly LeaseId[] {
    const open = [...(this.#leasesOf.get(agentId) ?? [])];
    for (const leaseId of open) this.release(leaseId);
    return open;
  }

  /**
   * Lets an open lease cover one more attempt of its call. Gives the output cap of that attempt; 0 if it cannot be paid now: a call
   * under way does not wait, nor does it overtake those who do.
   */
  extend({ leaseId, inputTokens, maxOutputTokens }: Lease, price: LeaseAsk["price"]): number {
    const lease = this.#leases.get(leaseId);
    invariant(lease !== undefined, `B2: ${leaseId} is open`);
    this.#refresh();
    const path = this.#path(lease.agentId);
    const ask: LeaseAsk = { inputTokens, maxOutputTokens, price, steps: 0 };
    const outcome = core.reserve(path, ask, this.#clock.nowMs());
    if (outcome.type !== "granted" || this.#isBlocked(path)) return 0;
    this.#store(outcome.path);
    this.#hasGiven = true;
    this.#leases.set(leaseId, { ...lease, hold: core.joined(lease.hold, outcome.hold) });
    return outcome.hold.outputTokens;
  }

  /** The agent's narrow view of its account. */
  gate(agentId: AgentId): BudgetGate {
    return {
      settle: (lease, usage) => this.settle(lease.leaseId, usage),
      releaseOpen: () => this.releaseOpen(agentId),
      chargeToolCall: () => this.#chargeToolCall(agentId),
      exhausted: () => core.exhausted(this.#path(agentId), this.#clock.nowMs(), core.REPLY_AXES),
      remaining: () => this.remaining(agentId),
      runRemaining: () => core.remaining(this.#path(agentId).slice(-1), this.#clock.nowMs()),
    };
  }

  /** Left to an agent: on each limited axis the least on its path. */
  remaining(agentId: AgentId): Remaining {
    return core.remaining(this.#path(agentId), this.#clock.nowMs());
  }

  /** The limit that would keep a new child of this agent from taking even one step, if there is one. */
  exhaustedForChild(agentId: AgentId): BudgetRefusal | undefined {
    return core.exhausted(this.#path(agentId), this.#clock.nowMs(), ["steps", ...core.REPLY_AXES]);
  }

  /** What an agent and its subtree have consumed. */
  usage(agentId: AgentId): UsageReport {
    const { own, total } = this.#account(agentId);
    return { own, descendants: subtractUsage(total, own), total };
  }

  /** When the agent must have ended, as the clocks on its path have gone so far; null: no limit in time. */
  deadlineAtMs(agentId: AgentId): number | null {
    return core.deadlineAtMs(this.#path(agentId));
  }

  /** The deadline at which the agent itself has to be ended; null: there is none, or its ancestors watch it, or it stands still. */
  ownDeadlineAtMs(agentId: AgentId): number | null {
    return core.ownDeadlineAtMs(this.#path(agentId), this.#still.get(agentId));
  }

  /** The agent's clock stands still from now on, until `goOn`. */
  stand(agentId: AgentId): void {
    invariant(!this.#still.has(agentId), "a clock that goes can stand still");
    this.#still.set(agentId, this.#clock.nowMs());
  }

  /** The agent's clock goes on; the time in which it stood is booked. */
  goOn(agentId: AgentId): void {
    invariant(this.#still.has(agentId), "a clock that stands still can go on");
    this.#account(agentId);
    this.#still.delete(agentId);
  }

  /** Books time in which the agent's clock stood still: the time between pause and resume. */
  standStill(agentId: AgentId, ms: number): void {
    this.#accounts.set(agentId, core.standStill(this.#account(agentId), ms));
  }

  /** For how long the agent's clock has stood still so far. */
  stoodMs(agentId: AgentId): number {
    return this.#account(agentId).stoodMs;
  }

  /** All accounts, as plain values, in the order in which they were opened. */
  snapshot(): readonly Account[] {
    for (const agentId of this.#still.keys()) this.#account(agentId);
    return [...this.#accounts.values()];
  }

  /** Before somebody new is judged: those in the line go first, with their claims as they are by now. */
  #refresh(): void {
    if (this.#line.length === 0) return;
    if (this.#hasGiven || this.#clock.nowMs() >= this.#dueAtMs) this.#serve();
  }

  /** Asks everybody in the line again, in order: something has changed. */
  #serve(): void {
    this.#hasGiven = false;
    this.#blocked = new Set();
    this.#dueAtMs = Infinity;
    if (this.#line.length === 0) return;
    this.#line = this.#line.filter((waiter) => !this.#admit(waiter));
  }

  /** Answers a waiter whose turn it is, or whose wish can never be met. False: it waits behind all who were asked before. */
  #admit(waiter: Waiter): boolean {
    const path = this.#path(waiter.agentId);
    const outcome = core.reserve(path, waiter.ask, this.#clock.nowMs());
    if (outcome.type === "wait") {
      invariant(this.#leases.size > 0, "B5: somebody waits and nobody holds a lease");
      for (const blocker of outcome.blockers) this.#blocked.add(blocker);
    }
    if (outcome.type === "wait" || (outcome.type === "granted" && this.#isBlocked(path))) {
      this.#dueAtMs = Math.min(this.#dueAtMs, core.deadlineAtMs(path) ?? Infinity);
      return false;
    }
    this.#answer(waiter, outcome);
    return true;
  }

  #isBlocked(path: core.AccountPath): boolean {
    return path.some((account) => this.#blocked.has(account.agentId));
  }

  #answer(waiter: Waiter, outcome: Exclude<core.ReserveOutcome, { readonly type: "wait" }>): void {
    const waitedMs = this.#clock.nowMs() - waiter.askedAtMs;
    if (outcome.type === "refused") {
      waiter.resolve({ type: "refused", refusal: outcome.refusal, waitedMs });
      return;
    }
    this.#store(outcome.path);
    this.#hasGiven = true;
    this.#leaseCount += 1;
    const leaseId = LeaseIdSchema.parse(`lease_${this.#leaseCount}`);
    this.#leases.set(leaseId, { agentId: waiter.agentId, hold: outcome.hold });
    const others = this.#leasesOf.get(waiter.agentId);
    if (others === undefined) this.#leasesOf.set(waiter.agentId, new Set([leaseId]));
    else others.add(leaseId);
    const { inputTokens, outputTokens: maxOutputTokens } = outcome.hold;
    waiter.resolve({
      type: "granted",
      lease: { leaseId, inputTokens, maxOutputTokens, lastStep: core.lastStep(outcome.path) },
      waitedMs,
    });
  }

  #chargeToolCall(agentId: AgentId): BudgetRefusal | undefined {
    const charged = core.chargeToolCall(this.#path(agentId), this.#clock.nowMs());
    if ("axis" in charged) return charged;
    this.#store(charged);
    return undefined;
  }

  #take(leaseId: LeaseId): OpenLease {
    const lease = this.#leases.get(leaseId);
    invariant(lease !== undefined, `B2: ${leaseId} is settled or released once`);
    this.#leases.delete(leaseId);
    this.#leasesOf.get(lease.agentId)?.delete(leaseId);
    return lease;
  }

  #store(path: core.AccountPath): void {
    for (const account of path) this.#accounts.set(account.agentId, account);
  }

  #path(agentId: AgentId): core.AccountPath {
    const path: Account[] = [];
    for (let id: AgentId | null = agentId; id !== null;) {
      const account: Account = this.#account(id);
      path.push(account);
      id = account.parentId;
    }
    return path;
  }

  #account(agentId: AgentId): Account {
    const account = this.#accounts.get(agentId);
    invariant(account !== undefined, `${agentId} has an account`);
    return this.#still.size === 0 ? account : this.#upToDate(account);
  }

  /** Books what has passed since the account's clock stands still, if it does. */
  #upToDate(account: Account): Account {
    const nowMs = this.#clock.nowMs();
    const sinceMs = this.#still.get(account.agentId) ?? nowMs;
    if (nowMs <= sinceMs) return account;
    const upToDate = core.standStill(account, nowMs - sinceMs);
    this.#accounts.set(account.agentId, upToDate);
    this.#still.set(account.agentId, nowMs);
    return upToDate;
  }
}
