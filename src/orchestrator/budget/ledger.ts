// BudgetLedger: who may still spend what, over the whole tree of one run.
// Owns: the accounts, the open leases and the waiting line. The arithmetic is in ledger-core.ts; this holds its result. Whose turn it is
// says waiting-line.ts.
//
// B2. A lease is settled or released exactly once; a second attempt throws.
// B6. An operation works out what comes of it first, and writes then: what throws has changed nothing. The watch is told of what is done.
// B5. Waiters are served in order: nobody is granted an account that blocks an earlier waiter. They cannot deadlock, since only
//     calls in flight hold leases, and those settle by themselves.
// X6. A threshold of a limit is reached once: what is spent only grows. A grant makes a new limit, with thresholds of its own.
//
// An account whose clock stands still is brought up to date whenever it is read, so that its time limit does not come nearer, also
// for somebody who waits in the line meanwhile.

import { invariant } from "../../kernel/assert.ts";
import type { Clock } from "../../kernel/clock.ts";
import type {
  BudgetGate,
  BudgetRefusal,
  Lease,
  LeaseAsk,
  LeaseOutcome,
  Remaining,
} from "../../agent/budget-gate.ts";
import { mismatch } from "../../kernel/check.ts";
import { sameJson } from "../../kernel/json.ts";
import { SPEND_AXES, type Amounts, type Budget, type SpendAxis } from "../../policies/budget.ts";
import { reachedThresholds } from "../../policies/budget-thresholds.ts";
import type { Account, AccountGrant } from "../../protocol/account.ts";
import { LeaseIdSchema, type AgentId, type LeaseId } from "../../protocol/ids.ts";
import {
  addUsage,
  isCountable,
  NO_USAGE,
  subtractUsage,
  type Usage,
  type UsageReport,
} from "../../protocol/usage.ts";
import * as core from "./ledger-arithmetic.ts";
import { granted, unlimitedAxis } from "./ledger-grant.ts";
import type { Booking, KeptHold, LedgerOperation } from "./ledger-operation.ts";
import { WaitingLine, type Standing } from "./waiting-line.ts";

/** A part of a limit that is spent by now. */
export interface ReachedThreshold {
  /** Whose limit it is. */
  readonly agentId: AgentId;
  readonly accountPath: string;
  readonly axis: SpendAxis | "wallTimeMs";
  readonly threshold: number;
  readonly spent: number;
  readonly maximum: number;
}

/** Who is told what happens to a ledger. Must not throw. */
export interface LedgerWatch {
  /** Called once for each threshold of each limit, when what was spent is on the accounts. */
  readonly onThreshold?: (reached: ReachedThreshold) => void;
  /** Called with each operation, when it is done. */
  readonly onOperation?: (done: LedgerOperation) => void;
}

interface OpenLease {
  readonly agentId: AgentId;
  /** What each attempt of the call holds, the first one first; nothing once it has ended. */
  readonly holds: readonly Amounts[];
  /** What attempts that have ended used. */
  readonly charged: Usage;
}

interface Waiter {
  readonly agentId: AgentId;
  readonly ask: LeaseAsk;
  /** The open lease that is to cover one more attempt; undefined: it asks for a lease of its own. */
  readonly leaseId: LeaseId | undefined;
  readonly askedAtMs: number;
  readonly resolve: (outcome: LeaseOutcome) => void;
}

type Answerable = Exclude<core.ReserveOutcome, { readonly type: "wait" }>;

export class BudgetLedger {
  readonly #clock: Clock;
  readonly #accounts = new Map<AgentId, Account>();
  /** Accounts whose clock stands still, and up to when that is booked. */
  readonly #still = new Map<AgentId, number>();
  readonly #leases = new Map<LeaseId, OpenLease>();
  readonly #leasesOf = new Map<AgentId, Set<LeaseId>>();
  readonly #line = new WaitingLine<Waiter>((agentId) => this.#path(agentId));
  readonly #watch: LedgerWatch;
  #leaseCount = 0;

  constructor(clock: Clock, watch: LedgerWatch = {}) {
    this.#clock = clock;
    this.#watch = watch;
  }

  /** Opens an account below its parent's; the first one is the root's. */
  open(account: Omit<core.NewAccount, "nowMs">, parentId: AgentId | null): void {
    invariant(!this.#accounts.has(account.agentId), "an account is opened once");
    const parent = parentId === null ? undefined : this.#account(parentId);
    const nowMs = this.#clock.nowMs();
    this.#accounts.set(account.agentId, core.openAccount({ ...account, nowMs }, parent));
  }

  /** Takes an account back whose agent could not be set up: nothing was held or spent on it. */
  forget(agentId: AgentId): void {
    invariant(!this.#leasesOf.has(agentId), "an account that was used stays");
    this.#accounts.delete(agentId);
  }

  /**
   * Takes over the accounts of a paused run, in the order of its snapshot; its leases go on from number `leaseCount`. The time in
   * between is the caller's to book with `standStill`, for every agent that lives on. `leases`: those that are open still.
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
      const { agentId, parentId, reserved } = account;
      const isFree = SPEND_AXES.every((axis) => reserved[axis] === 0);
      invariant(isFree || leases.length > 0, "B2: what is reserved is an open lease");
      invariant(!this.#accounts.has(agentId), "an account is opened once");
      invariant(parentId === null || this.#accounts.has(parentId), "a parent comes first");
      this.#accounts.set(agentId, account);
    }
    this.#leaseCount = leaseCount;
    for (const { agentId, lease, hold, charged = NO_USAGE } of leases)
      this.#keep(lease.leaseId, { agentId, holds: [hold], charged });
  }

  /** Leases that were given so far. */
  get leaseCount(): number {
    return this.#leaseCount;
  }

  /** Asks for a lease. Waits in line while calls in flight may make room; never rejects. */
  reserve(agentId: AgentId, ask: LeaseAsk, signal: AbortSignal): Promise<LeaseOutcome> {
    return this.#ask({ agentId, ask, leaseId: undefined }, signal);
  }

  /**
   * Asks that an open lease cover one more attempt of its call, as `reserve` does. An attempt that has ended must be charged before: who
   * waits in line holds nothing.
   */
  extend(
    lease: Lease,
    { price, minOutputTokens }: Partial<Pick<LeaseAsk, "price" | "minOutputTokens">>,
    signal: AbortSignal,
  ): Promise<LeaseOutcome> {
    const { leaseId, inputTokens, maxOutputTokens } = lease;
    const { agentId } = this.#lease(leaseId);
    const ask: LeaseAsk = { inputTokens, maxOutputTokens, minOutputTokens, price, steps: 0 };
    return this.#ask({ agentId, ask, leaseId }, signal);
  }

  #ask(
    asked: Pick<Waiter, "agentId" | "ask" | "leaseId">,
    signal: AbortSignal,
  ): Promise<LeaseOutcome> {
    if (signal.aborted) return Promise.resolve({ type: "cancelled", waitedMs: 0 });
    return new Promise((resolve) => {
      const askedAtMs = this.#clock.nowMs();
      let leave: (() => void) | undefined;
      const answer = (outcome: LeaseOutcome): void => {
        if (leave !== undefined) signal.removeEventListener("abort", leave);
        resolve(outcome);
      };
      const waiter: Waiter = { ...asked, askedAtMs, resolve: answer };
      this.#serve();
      if (this.#admit(waiter)) return;
      const standing = this.#line.join(waiter);
      leave = () => {
        this.#line.leave(standing);
        resolve({ type: "cancelled", waitedMs: this.#clock.nowMs() - askedAtMs });
        this.#serve();
      };
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** An attempt under a lease has ended: books what it used, gives back what it held, and leaves the lease open. */
  charge({ leaseId, attempt = 1 }: Pick<Lease, "leaseId" | "attempt">, usage: Usage): void {
    const lease = this.#lease(leaseId);
    const hold = lease.holds[attempt - 1] ?? core.NO_AMOUNTS;
    const before = this.#path(lease.agentId);
    const after = core.settle(before, hold, usage);
    const holds = lease.holds.with(attempt - 1, core.NO_AMOUNTS);
    this.#leases.set(leaseId, { ...lease, holds, charged: addUsage(lease.charged, usage) });
    this.#store(after);
    this.#tell({ operation: "charge", leaseId, hold, usage });
    this.#tellThresholds(before, after);
    this.#serve();
  }

  /** Does once more what a journal tells of a call under way: in a replay it is not made. Nothing, if it does not fit. */
  redo(done: Booking): void {
    const { leaseId, hold } = done;
    const lease = this.#leases.get(leaseId);
    if (lease === undefined) return;
    if (done.operation === "charge") {
      const index = lease.holds.findIndex((held) => sameJson(held, hold));
      if (index !== -1) this.charge({ leaseId, attempt: index + 1 }, done.usage);
      return;
    }
    this.#store(core.held(this.#path(lease.agentId), hold));
    this.#leases.set(leaseId, { ...lease, holds: [...lease.holds, hold] });
    this.#tell(done);
  }

  /** Books what a call used in all, as far as it was not charged, and gives the rest of its lease back (B2, B3). */
  settle(leaseId: LeaseId, usage: Usage): void {
    const { agentId, holds, charged } = this.#lease(leaseId);
    invariant(isCountable(usage), "usage is in whole amounts from 0 up");
    const before = this.#path(agentId);
    const after = core.settle(before, sum(holds), subtractUsage(usage, charged));
    this.#drop(leaseId, agentId);
    this.#store(after);
    this.#tell({ operation: "settle", leaseId, usage });
    this.#tellThresholds(before, after);
    this.#serve();
  }

  /** Gives an unused lease back (B2). */
  release(leaseId: LeaseId): void {
    const { agentId, holds } = this.#lease(leaseId);
    const after = core.release(this.#path(agentId), sum(holds));
    this.#drop(leaseId, agentId);
    this.#store(after);
    this.#tell({ operation: "release", leaseId });
    this.#serve();
  }

  /** Gives back what an agent that has ended still holds. */
  releaseOpen(agentId: AgentId): readonly LeaseId[] {
    const open = [...(this.#leasesOf.get(agentId) ?? [])];
    for (const leaseId of open) this.release(leaseId);
    return open;
  }

  /** The agent's narrow view of its account. */
  gate(agentId: AgentId): BudgetGate {
    return {
      reserve: (ask, signal) => this.reserve(agentId, ask, signal),
      extend: (lease, ask, signal) => this.extend(lease, ask, signal),
      charge: (lease, usage) => this.charge(lease, usage),
      usage: () => this.usage(agentId),
      settle: (lease, usage) => this.settle(lease.leaseId, usage),
      releaseOpen: () => this.releaseOpen(agentId),
      chargeToolCall: () => this.#chargeToolCall(agentId),
      exhausted: () => core.exhausted(this.#path(agentId), this.#clock.nowMs(), core.REPLY_AXES),
      overshoots: () => core.overshoots(this.account(agentId)),
      remaining: () => this.remaining(agentId),
      remainingWith: ({ leaseId }) => this.#remainingWith(leaseId),
      runRemaining: () => core.remaining(this.#path(agentId).slice(-1), this.#clock.nowMs()),
    };
  }

  /** Left to an agent: on each limited axis the least on its path. */
  remaining(agentId: AgentId): Remaining {
    return core.remaining(this.#path(agentId), this.#clock.nowMs());
  }

  #remainingWith(leaseId: LeaseId): Remaining {
    const lease = this.#lease(leaseId);
    const path = core.release(this.#path(lease.agentId), sum(lease.holds));
    return core.remaining(path, this.#clock.nowMs());
  }

  /** Left to all new children of an agent together: its reserve is kept. */
  remainingForChildren(agentId: AgentId): Remaining {
    const nowMs = this.#clock.nowMs();
    return core.remaining(core.childPath(this.#path(agentId), nowMs), nowMs);
  }

  /** The limit that would keep a new child of this agent from taking even one step, if there is one. */
  exhaustedForChild(agentId: AgentId): BudgetRefusal | undefined {
    const nowMs = this.#clock.nowMs();
    const path = core.childPath(this.#path(agentId), nowMs);
    return core.exhausted(path, nowMs, ["steps", ...core.REPLY_AXES]);
  }

  /**
   * Raises limits of one account, and serves those who waited for it (X7). Only limits that the account has can be raised; whoever watches
   * its limit in time has to look at its deadline again. `field` names the grant in the error. The grant itself must be checked before.
   *
   * @throws EspalierError `invalid_option` for an axis on which the account has no limit.
   */
  grant(
    agentId: AgentId,
    given: { readonly budget: Budget; readonly by: string },
    field = "grant",
  ): void {
    const account = this.#account(agentId);
    const axis = unlimitedAxis(account, given.budget);
    if (axis !== undefined) {
      const expected = `left out, since ${account.path} has no limit of its own on it`;
      const advice = "Grant what is limited there, or to the agent whose limit it is.";
      throw mismatch(`${field}.budget.${axis}`, expected, given.budget[axis], advice);
    }
    const raised = granted(account, { ...given, atMs: this.#clock.nowMs() });
    this.#accounts.set(agentId, raised);
    const grant = raised.grants.at(-1);
    if (grant !== undefined) this.#tell({ operation: "grant", agentId, grant });
    this.#line.touch(this.#path(agentId));
    this.#line.raise(agentId);
    this.#serve();
  }

  /** What was granted to the agent last. */
  lastGrant(agentId: AgentId): AccountGrant | undefined {
    return this.#account(agentId).grants.at(-1);
  }

  /** The agent's account as it stands. */
  account(agentId: AgentId): Account {
    return this.#account(agentId);
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

  /** How much of its own limit in time the agent has spent; undefined: it has none. In milliseconds. */
  timeSpent(agentId: AgentId): ReturnType<typeof core.timeSpent> {
    return core.timeSpent(this.#account(agentId), this.#clock.nowMs());
  }

  /** Says which thresholds of its own limit in time the agent has reached since it had spent `before` milliseconds of it (X6). */
  tellTime(agentId: AgentId, before: number): void {
    const { path: accountPath } = this.#account(agentId);
    const { maximum = 0, spent = before } = this.timeSpent(agentId) ?? {};
    for (const threshold of reachedThresholds(maximum, before, spent))
      this.#watch.onThreshold?.({
        agentId,
        accountPath,
        axis: "wallTimeMs",
        threshold,
        spent,
        maximum,
      });
  }

  /** The agent's clock stands still from now on, until `goOn`. */
  stand(agentId: AgentId): void {
    invariant(!this.#still.has(agentId), "a clock that goes can stand still");
    const atMs = this.#clock.nowMs();
    this.#still.set(agentId, atMs);
    this.#tell({ operation: "stand", agentId, atMs });
  }

  /** The agent's clock goes on; the time in which it stood is booked. */
  goOn(agentId: AgentId): void {
    invariant(this.#still.has(agentId), "a clock that stands still can go on");
    const { stoodMs } = this.#account(agentId);
    this.#still.delete(agentId);
    this.#tell({ operation: "goOn", agentId, stoodMs });
  }

  /** Books time in which the agent's clock stood still: the time between pause and resume. */
  standStill(agentId: AgentId, ms: number): void {
    const account = core.standStill(this.#account(agentId), ms);
    this.#accounts.set(agentId, account);
    this.#tell({ operation: "goOn", agentId, stoodMs: account.stoodMs });
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

  /** Answers those in the line whose turn it is, or whose wish can never be met, in the order in which they asked. */
  #serve(): void {
    if (this.#line.size === 0) return;
    const answers: (readonly [Standing<Waiter>, LeaseOutcome])[] = [];
    for (const one of this.#line.takeHopeless(this.#clock.nowMs()))
      answers.push([one, this.#answer(one.waiter, this.#judge(one.waiter))]);
    this.#line.begin();
    for (let one = this.#line.takeNext(); one !== undefined; one = this.#line.takeNext())
      answers.push([one, this.#answer(one.waiter, this.#judge(one.waiter))]);
    invariant(this.#line.size === 0 || this.#isHeld(), "B5: somebody waits and nobody holds room");
    answers.sort(([left], [right]) => left.number - right.number);
    for (const [{ waiter }, outcome] of answers) waiter.resolve(outcome);
  }

  /** Whether room is held: all leases are in the root's account. */
  #isHeld(): boolean {
    const [root] = this.#accounts.values();
    return root !== undefined && SPEND_AXES.some((axis) => root.reserved[axis] > 0);
  }

  #judge({ agentId, ask }: Waiter): Answerable {
    const outcome = core.reserve(this.#path(agentId), ask, this.#clock.nowMs());
    invariant(outcome.type !== "wait", "B5: who is served need not wait");
    return outcome;
  }

  /** Answers somebody new, unless it has to wait. */
  #admit(waiter: Waiter): boolean {
    const path = this.#path(waiter.agentId);
    const outcome = core.reserve(path, waiter.ask, this.#clock.nowMs());
    if (outcome.type === "wait") return false;
    if (outcome.type === "granted" && this.#line.isContested(path)) return false;
    waiter.resolve(this.#answer(waiter, outcome));
    return true;
  }

  #answer(waiter: Waiter, outcome: Answerable): LeaseOutcome {
    const waitedMs = this.#clock.nowMs() - waiter.askedAtMs;
    if (outcome.type === "refused") return { type: "refused", refusal: outcome.refusal, waitedMs };
    if (waiter.leaseId !== undefined) return this.#extended(waiter.leaseId, outcome, waitedMs);
    this.#store(outcome.path);
    this.#leaseCount += 1;
    const leaseId = LeaseIdSchema.parse(`lease_${this.#leaseCount}`);
    const { agentId } = waiter;
    const { hold } = outcome;
    this.#keep(leaseId, { agentId, holds: [hold], charged: NO_USAGE });
    const { inputTokens, outputTokens: maxOutputTokens } = hold;
    const lastStep = core.lastStep(outcome.path);
    const kept = { leaseId, inputTokens, maxOutputTokens };
    const lease = lastStep === undefined ? kept : { ...kept, lastStep };
    this.#tell({ operation: "lease", agentId, lease, hold, waitedMs });
    return { type: "granted", lease: { ...kept, lastStep }, waitedMs };
  }

  #extended(
    leaseId: LeaseId,
    { path, hold }: Extract<Answerable, { readonly type: "granted" }>,
    waitedMs: number,
  ): LeaseOutcome {
    const open = this.#lease(leaseId);
    const holds = [...open.holds, hold];
    this.#store(path);
    this.#leases.set(leaseId, { ...open, holds });
    this.#tell({ operation: "extend", leaseId, hold });
    const { inputTokens, outputTokens: maxOutputTokens } = hold;
    const lease = { leaseId, inputTokens, maxOutputTokens, lastStep: undefined };
    return { type: "granted", lease: { ...lease, attempt: holds.length }, waitedMs };
  }

  #keep(leaseId: LeaseId, lease: OpenLease): void {
    const { agentId } = lease;
    this.#leases.set(leaseId, lease);
    const others = this.#leasesOf.get(agentId);
    if (others === undefined) this.#leasesOf.set(agentId, new Set([leaseId]));
    else others.add(leaseId);
  }

  #tell(done: LedgerOperation): void {
    this.#watch.onOperation?.(done);
  }

  #chargeToolCall(agentId: AgentId): BudgetRefusal | undefined {
    const before = this.#path(agentId);
    const charged = core.chargeToolCall(before, this.#clock.nowMs());
    if ("axis" in charged) return charged;
    this.#store(charged);
    this.#tell({ operation: "toolCall", agentId });
    this.#tellThresholds(before, charged);
    return undefined;
  }

  #lease(leaseId: LeaseId): OpenLease {
    const lease = this.#leases.get(leaseId);
    invariant(lease !== undefined, `B2: ${leaseId} is settled or released once`);
    return lease;
  }

  #drop(leaseId: LeaseId, agentId: AgentId): void {
    this.#leases.delete(leaseId);
    const others = this.#leasesOf.get(agentId);
    others?.delete(leaseId);
    if (others?.size === 0) this.#leasesOf.delete(agentId);
  }

  #store(path: core.AccountPath): void {
    for (const account of path) this.#accounts.set(account.agentId, account);
    this.#line.touch(path);
  }

  /** Says which thresholds were reached by what was spent. */
  #tellThresholds(before: core.AccountPath, after: core.AccountPath): void {
    for (const [index, { agentId, path: accountPath, limits, total }] of after.entries()) {
      for (const axis of SPEND_AXES) {
        const [maximum, spent] = [limits[axis], total[axis]];
        if (maximum === undefined) continue;
        const thresholds = reachedThresholds(maximum, before[index]?.total[axis] ?? spent, spent);
        for (const threshold of thresholds)
          this.#watch.onThreshold?.({ agentId, accountPath, axis, threshold, spent, maximum });
      }
    }
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

function sum(holds: readonly Amounts[]): Amounts {
  const [first = core.NO_AMOUNTS, ...others] = holds;
  return others.reduce(core.joined, first);
}
