// BudgetAccount: the budget of an agent in a run. Owns its limits, its usage with that of its
// descendants, its open leases, and its time. Reading a journal builds the same accounts.
//
// B2. A lease is settled or released exactly once; a second attempt throws.
// B3. A charge reaches every ancestor: an account's total is its own plus its children's.
// B6. An operation checks first and writes then: if it throws, nothing has changed.
//
// An operation is created as a value only for a watch that reads operations: the journal of the
// run.
//
// `requestCallLease` in agent/model-call.ts calls `requestLease`. lease-decision.ts decides,
// lease-queue.ts holds a request that has to wait, and `carryOut` returns the lease or the refusal.

import { invariant } from "../kernel/invariant.ts";
import type { AnySignal } from "../kernel/cancel-signal.ts";
import { MICRO_PER_USD } from "../kernel/money.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import {
  isEarly,
  NO_AMOUNTS,
  findReachedThresholds,
  toLedgerLimits,
  toSpendAmount,
  toSpendAxis,
  type Amounts,
  type SpendLimits,
} from "../policies/budget.ts";
import {
  LEDGER_AXES,
  type AccountGrant,
  type LedgerAccount,
  type LedgerAxis,
} from "../protocol/account.ts";
import { parseId, type AgentId, type LeaseId } from "../protocol/ids.ts";
import {
  addModelUsage,
  addUsage,
  isCountable,
  NO_USAGE,
  subtractUsage,
  toUsage,
  type ModelUsage,
  type Usage,
  type UsageReport,
} from "../protocol/usage.ts";
import { findUnspentRoom, mapAxes, NEW_CHILD, type AccountFigures } from "./account-figures.ts";
import * as time from "./account-time.ts";
import type { BudgetRefusal, Lease, LeaseAsk, LeaseOutcome, Remaining } from "./lease.ts";
import { LeaseQueue, type AccountAsk, type LedgerParts } from "./lease-queue.ts";
import { raiseLimit, type Grant } from "./ledger-grant.ts";
import type { OpenLease, PersistedHold } from "./ledger-operation.ts";
import {
  computeRemaining,
  decideLease,
  findLastStep,
  findReachedLimit,
  findUnfitLimit,
  type LeaseAnswer,
} from "./lease-decision.ts";

type Sums = Record<LedgerAxis, number>;

const NO_LEASES: readonly OpenLease[] = Object.freeze([]);
const NO_MODELS: readonly ModelUsage[] = Object.freeze([]);
const ONE_TOOL_CALL = Object.freeze({ ...NO_USAGE, toolCalls: 1 });
const ONE_TOOL_CALL_HOLD = Object.freeze({ ...NO_AMOUNTS, toolCalls: 1 });

export class BudgetAccount implements AccountFigures {
  readonly agentId: AgentId;
  readonly agentPath: string;
  readonly parent: BudgetAccount | undefined;
  readonly root: BudgetAccount;
  readonly axes: readonly LedgerAxis[];
  readonly limiting: BudgetAccount | undefined;
  readonly isTimed: boolean;
  readonly reserve: SpendLimits;
  readonly fixedDeadlineAtMs: number | null;
  readonly openedAtMs: number;
  readonly limits: Partial<Sums>;
  readonly reserved: Sums;
  readonly #ledger: LedgerParts;
  readonly #grantsBefore: readonly AccountGrant[] | undefined;
  /** Equal to `total` until usage of a descendant is booked. */
  #own: Usage;
  total: Usage;
  timeLimitMs: number | null;
  pausedSinceMs: number | undefined;
  /** Total time for which the clock had been paused when it last ran. */
  #pausedBeforeMs: number;
  #grants: readonly AccountGrant[];
  /** Usage beyond leases. */
  #excess: Amounts;
  /** The part of the agent's own usage that belongs to models other than its first. */
  otherModels: readonly ModelUsage[];
  #leases: readonly OpenLease[] = NO_LEASES;
  /** Cached usage report. `undefined` if more was booked since. */
  #usage: UsageReport | undefined;

  constructor(ledger: LedgerParts, account: LedgerAccount, parent: BudgetAccount | undefined) {
    const { limits, timeLimitMs, fixedDeadlineAtMs, own, total } = account;
    this.#ledger = ledger;
    this.agentId = account.agentId;
    this.agentPath = account.agentPath;
    this.parent = parent;
    this.root = parent?.root ?? this;
    const above = parent?.axes ?? [];
    const isLimiting = Object.keys(limits).length > 0;
    this.axes = isLimiting
      ? LEDGER_AXES.filter((axis) => limits[axis] !== undefined || above.includes(axis))
      : above;
    this.limiting = isLimiting ? this : parent?.limiting;
    this.isTimed = timeLimitMs !== null || fixedDeadlineAtMs !== null || parent?.isTimed === true;
    this.reserve = account.reserve;
    this.fixedDeadlineAtMs = fixedDeadlineAtMs;
    this.openedAtMs = account.openedAtMs;
    this.limits = { ...limits };
    this.reserved = { ...account.reserved };
    this.#own = toUsage(own);
    this.total = total === own ? this.#own : toUsage(total);
    this.timeLimitMs = timeLimitMs;
    this.#pausedBeforeMs = account.pausedMs;
    this.#grants = account.grants;
    this.#grantsBefore = account.grantsBeforeFork;
    this.#excess = account.excess;
    this.otherModels = account.otherModels ?? NO_MODELS;
  }

  // Model calls

  /**
   * Requests a lease. Refuses what can never fit (lease-decision.ts), and waits in the queue while
   * calls in flight may still make room. Never rejects.
   * `onWait` is called before a wait, with the path of the account that lacks room
   * or is contested by an earlier waiter.
   */
  requestLease(
    ask: AccountAsk,
    signal: AnySignal,
    onWait?: (accountPath: string) => void,
  ): Promise<LeaseOutcome> {
    if (signal.aborted) return Promise.resolve({ type: "cancelled", waitedMs: 0 });
    const ledger = this.#ledger;
    ledger.queue?.serve();
    const decision = decideLease(this, ask, ledger.clock);
    const contested =
      decision.type === "granted" ? ledger.queue?.findContestedAccount(this) : undefined;
    const lacking = decision.type === "wait" ? decision.at : contested;
    if (decision.type !== "wait" && lacking === undefined)
      return Promise.resolve(this.carryOut(ask, decision, 0));
    if (lacking !== undefined) onWait?.(lacking.agentPath);
    ledger.queue ??= new LeaseQueue(ledger.clock);
    return ledger.queue.wait(this, ask, signal);
  }

  /**
   * Requests that an open lease cover one more attempt of its call, whose earlier attempts are charged.
   * Waits for room like `requestLease`.
   */
  extend(
    { leaseId, inputTokens, maxOutputTokens }: Lease,
    { price, minOutputTokens }: Partial<Pick<LeaseAsk, "price" | "minOutputTokens">>,
    signal: AnySignal,
    onWait?: (accountPath: string) => void,
  ): Promise<LeaseOutcome> {
    this.#findLease(leaseId);
    const sizes = { inputTokens, maxOutputTokens, minOutputTokens };
    return this.requestLease({ ...sizes, price, steps: 0, leaseId }, signal, onWait);
  }

  /** Opens or extends the lease of a granted request, or returns the refusal. */
  carryOut(ask: AccountAsk, answer: LeaseAnswer, waitedMs: number): LeaseOutcome {
    if (answer.type === "refused") return { type: "refused", refusal: answer.refusal, waitedMs };
    const { hold } = answer;
    const sizes = { inputTokens: hold.inputTokens, maxOutputTokens: hold.outputTokens };
    if (ask.leaseId !== undefined) {
      const attempt = this.extendLease(ask.leaseId, hold);
      return { type: "granted", lease: { leaseId: ask.leaseId, ...sizes, attempt }, waitedMs };
    }
    const leaseId = parseId<"LeaseId">(`lease_${this.#ledger.leaseCount + 1}`);
    const last = this.axes.includes("steps") ? findLastStep(this, hold.steps) : undefined;
    const lease = { leaseId, ...sizes, ...(last === undefined ? {} : { lastStep: last }) };
    this.openLease({ agentId: this.agentId, lease, hold, waitedMs });
    return { type: "granted", lease, waitedMs };
  }

  /** Opens a lease that fits. */
  openLease(openedLease: Omit<PersistedHold, "underWay">): void {
    const { hold } = openedLease;
    this.#addReserved(hold, 1);
    this.#leases = this.#leases.concat({ ...openedLease, underWay: 1, parts: [hold] });
    this.#ledger.leaseCount += 1;
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "lease", ...openedLease });
  }

  /** Adds a hold that fits to an open lease, and returns the number of the attempt. */
  extendLease(leaseId: LeaseId, hold: Amounts): number {
    const open = this.#findLease(leaseId);
    this.#addReserved(hold, 1);
    open.hold = mapAxes((axis) => open.hold[axis] + hold[axis]);
    open.underWay += 1;
    const attempt = open.parts.push(hold);
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "extend", leaseId, hold });
    return attempt;
  }

  /** Books the usage of an attempt that has ended, while its call continues. */
  charge({ leaseId, attempt = 1 }: Pick<Lease, "leaseId" | "attempt">, usage: Usage): void {
    const { parts } = this.#findLease(leaseId);
    const hold = parts[attempt - 1];
    invariant(hold !== undefined, "B2: only an attempt with a lease can be charged");
    this.chargePart(leaseId, hold, usage);
    parts[attempt - 1] = NO_AMOUNTS;
  }

  /** Books the usage of an attempt, and releases its part of the hold. */
  chargePart(leaseId: LeaseId, hold: Amounts, usage: Usage): void {
    const open = this.#findLease(leaseId);
    const used = this.#book(hold, usage);
    open.hold = mapAxes((axis) => open.hold[axis] - hold[axis]);
    open.charged = addUsage(open.charged ?? NO_USAGE, usage);
    open.underWay -= 1;
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "charge", leaseId, hold, usage });
    this.#emitReached(used);
    this.#ledger.queue?.serve();
  }

  /**
   * Books the usage of the whole call on this account and every ancestor, and releases the rest of
   * the lease. `otherModels` is the part of the usage that belongs to models other than the agent's
   * first.
   */
  settle(
    { leaseId }: Pick<Lease, "leaseId">,
    usage: Usage,
    otherModels?: readonly ModelUsage[],
  ): void {
    const open = this.#findLease(leaseId);
    const { charged } = open;
    if (charged !== undefined)
      invariant(isCountable(usage), "usage is a whole number of at least 0");
    const rest = charged === undefined ? usage : subtractUsage(usage, charged);
    const booked = this.#book(open.hold, rest);
    if (otherModels !== undefined) this.otherModels = addModelUsage(this.otherModels, otherModels);
    this.#removeLease(open);
    this.#ledger.queue?.touch(this);
    const others = otherModels && { otherModels };
    this.#ledger.watch.onOperation?.({ operation: "settle", leaseId, usage, ...others });
    this.#emitReached(booked);
    this.#ledger.queue?.serve();
  }

  /** Releases an unused lease. */
  release({ leaseId }: Pick<Lease, "leaseId">): void {
    const open = this.#findLease(leaseId);
    this.#addReserved(open.hold, -1);
    this.#removeLease(open);
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "release", leaseId });
    this.#ledger.queue?.serve();
  }

  /** Releases all open leases unused, and returns their ids. */
  releaseOpen(): readonly LeaseId[] {
    const open = this.#leases.map(({ lease }) => lease.leaseId);
    for (const leaseId of open) this.release({ leaseId });
    return open;
  }

  /** Takes over a lease that is still open. The figures already include its hold. */
  adopt(lease: PersistedHold): void {
    this.#leases = this.#leases.concat({ ...lease, parts: [lease.hold] });
  }

  /** Returns an open lease of the agent. */
  getLease(leaseId: LeaseId): OpenLease | undefined {
    return this.#leases.find(({ lease }) => lease.leaseId === leaseId);
  }

  #findLease(leaseId: LeaseId): OpenLease {
    const open = this.getLease(leaseId);
    invariant(open !== undefined, `B2: ${leaseId} is settled or released once`);
    return open;
  }

  #removeLease(ended: OpenLease): void {
    this.#leases = this.#leases.filter((lease) => lease !== ended);
  }

  #addReserved(amounts: Amounts, sign: 1 | -1): void {
    for (let at: BudgetAccount | undefined = this; at !== undefined; at = at.parent)
      for (const axis of LEDGER_AXES) at.reserved[axis] += sign * amounts[axis];
  }

  /** Books usage, releases its hold, and returns the booked amounts. */
  #book(hold: Amounts, usage: Usage): Amounts {
    invariant(isCountable(usage), "usage is a whole number of at least 0");
    this.#addReserved(hold, -1);
    this.#addUsage(usage);
    const costMicroUsd = Math.round((usage.costUsd ?? 0) * MICRO_PER_USD);
    const used: Amounts = { ...usage, costMicroUsd };
    let isBeyond = false;
    for (const axis of LEDGER_AXES) isBeyond ||= used[axis] > hold[axis];
    if (!isBeyond) return used;
    for (let at: BudgetAccount | undefined = this; at !== undefined; at = at.parent) {
      const before: Amounts = at.#excess;
      at.#excess = mapAxes((axis) => before[axis] + Math.max(0, used[axis] - hold[axis]));
    }
    return used;
  }

  #addUsage(usage: Usage): void {
    const before = this.#own;
    this.#own = addUsage(before, usage);
    for (let at: BudgetAccount | undefined = this; at !== undefined; at = at.parent) {
      at.total = at.total === before ? this.#own : addUsage(at.total, usage);
      at.#usage = undefined;
    }
  }

  // Tool calls

  /** Books one tool call, or returns the limit that forbids it. */
  chargeToolCall(): BudgetRefusal | undefined {
    const { clock } = this.#ledger;
    const overdue = this.isTimed ? time.findTimeRefusal(this, clock.nowMs()) : undefined;
    const refusal = overdue ?? findUnfitLimit(this, ONE_TOOL_CALL_HOLD);
    if (refusal === undefined) this.bookToolCall();
    return refusal;
  }

  /** Books one tool call that fits. */
  bookToolCall(): void {
    this.#addUsage(ONE_TOOL_CALL);
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "toolCall", agentId: this.agentId });
    this.#emitReached(ONE_TOOL_CALL_HOLD);
  }

  /** Emits the thresholds that were reached when the amounts were booked. */
  #emitReached(used: Amounts): void {
    if (this.#ledger.watch.onThreshold === undefined) return;
    for (let at = this.limiting; at !== undefined; at = at.parent?.limiting)
      for (const axis of at.axes) {
        const maximum = at.limits[axis];
        if (maximum === undefined || used[axis] === 0) continue;
        const spent = maximum - findUnspentRoom(at, at, axis);
        if (!isEarly(maximum, spent)) at.#emitThresholds(axis, maximum, spent - used[axis], spent);
      }
  }

  #emitThresholds(
    axis: LedgerAxis | "timeMs",
    maximum: number,
    before: number,
    spent: number,
  ): void {
    for (const threshold of findReachedThresholds(maximum, before, spent))
      this.#ledger.watch.onThreshold?.({
        agentId: this.agentId,
        accountPath: this.agentPath,
        axis: toSpendAxis(axis),
        threshold,
        spent: toSpendAmount(axis, spent),
        maximum: toSpendAmount(axis, maximum),
      });
  }

  // Usage and room

  /**
   * Returns a limit on the path that is exhausted on the axes of a reply, or in time: then no call
   * of the reply may start. Steps and tool calls are not checked.
   */
  exhaustedForReply(): BudgetRefusal | undefined {
    return findReachedLimit(this, this.#ledger.clock);
  }

  /** Returns the limit that would prevent a new child of the agent from taking even one step. */
  exhaustedForChild(): BudgetRefusal | undefined {
    return findReachedLimit(this, this.#ledger.clock, NEW_CHILD);
  }

  /** Returns the least room on the path, less open leases, for each limited axis. */
  remaining(): Remaining {
    return computeRemaining(this, this.#ledger.clock);
  }

  /** Returns the room as if an open lease had not been granted. */
  remainingWith({ leaseId }: Pick<Lease, "leaseId">): Remaining {
    return computeRemaining(this, this.#ledger.clock, this, this.#findLease(leaseId).hold);
  }

  /** Returns the room for all new children of the agent together, without the reserve. */
  remainingForChildren(): Remaining {
    return computeRemaining(this, this.#ledger.clock, NEW_CHILD);
  }

  /** Returns the room of the whole run. */
  runRemaining(): Remaining {
    return computeRemaining(this.root, this.#ledger.clock);
  }

  /** Returns the usage of the agent and its subtree, as values that are never written to. */
  usage(): UsageReport {
    if (this.#usage !== undefined) return this.#usage;
    const [own, total] = [this.#own, this.total];
    const descendants = total === own ? NO_USAGE : subtractUsage(total, own);
    this.#usage = freezeInTests({ own, descendants, total });
    return this.#usage;
  }

  /** Returns the account as it is stored at a time. */
  snapshotAt(nowMs: number): LedgerAccount {
    return freezeInTests({
      agentId: this.agentId,
      parentAgentId: this.parent?.agentId ?? null,
      agentPath: this.agentPath,
      limits: { ...this.limits },
      reserve: this.reserve,
      grants: this.#grants,
      ...(this.#grantsBefore && { grantsBeforeFork: this.#grantsBefore }),
      fixedDeadlineAtMs: this.fixedDeadlineAtMs,
      timeLimitMs: this.timeLimitMs,
      openedAtMs: this.openedAtMs,
      pausedMs: this.pausedMsAt(nowMs),
      own: this.#own,
      ...(this.otherModels.length === 0 ? {} : { otherModels: this.otherModels }),
      total: this.total,
      reserved: { ...this.reserved },
      excess: this.#excess,
    });
  }

  /** Raises the existing limits of the account, and returns the record of the grant. */
  raise({ budget, by, atMs }: Grant): AccountGrant {
    const { limits, timeLimitMs } = this;
    const raises = toLedgerLimits(budget);
    for (const axis of LEDGER_AXES) {
      const limit = limits[axis];
      if (limit !== undefined) limits[axis] = raiseLimit(limit, raises[axis] ?? 0, axis);
    }
    if (timeLimitMs !== null) this.timeLimitMs = raiseLimit(timeLimitMs, budget.timeMs ?? 0);
    const granted = Object.entries(budget).filter(
      ([, amount]) => amount !== undefined && amount > 0,
    );
    const grant: AccountGrant = { by, atMs, budget: Object.fromEntries(granted) };
    this.#grants = [...this.#grants, grant];
    return grant;
  }

  // Time

  /** Time for which the clock has been paused so far. */
  get pausedMs(): number {
    if (this.pausedSinceMs === undefined) return this.#pausedBeforeMs;
    return this.pausedMsAt(this.#ledger.clock.nowMs());
  }

  pausedMsAt(nowMs: number): number {
    const sinceMs = this.pausedSinceMs ?? nowMs;
    return this.#pausedBeforeMs + Math.max(0, nowMs - sinceMs);
  }

  /**
   * Returns the time by which the agent must have ended, given the pauses of the clocks on its path
   * so far. `null` without a time limit.
   */
  deadlineAtMs(): number | null {
    return this.isTimed ? time.computeDeadline(this, this.#ledger.clock.nowMs()) : null;
  }

  /**
   * Returns the deadline at which the agent itself has to be ended. `null` if the agent has no
   * deadline, its ancestors watch the deadline, or its clock is paused.
   */
  ownDeadlineAtMs(): number | null {
    return time.computeOwnDeadline(this, this.#ledger.clock.nowMs());
  }

  /**
   * Returns the spent part of the agent's own time limit in milliseconds. `undefined` if the agent
   * has none.
   */
  timeSpent(): { readonly maximum: number; readonly spent: number } | undefined {
    return time.computeTimeSpent(this, this.#ledger.clock.nowMs());
  }

  /**
   * Emits the thresholds of the agent's time limit that were reached since `before` milliseconds
   * were spent.
   */
  emitThresholds(before: number): void {
    const { maximum, spent } = this.timeSpent() ?? {};
    if (maximum !== undefined && spent !== undefined)
      this.#emitThresholds("timeMs", maximum, before, spent);
  }

  /** Pauses the clock until `resumeClock`. */
  pauseClock(atMs = this.#ledger.clock.nowMs()): void {
    invariant(this.pausedSinceMs === undefined, "pauseClock() requires a running clock");
    this.pausedSinceMs = atMs;
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "pauseClock", agentId: this.agentId, atMs });
  }

  /** Resumes the clock, and books the time for which it was paused. */
  resumeClock(): void {
    invariant(this.pausedSinceMs !== undefined, "resumeClock() requires a paused clock");
    this.resumeClockAfter(this.pausedMs);
  }

  /**
   * Books time that does not count towards any time limit of the account: a pause, or the time
   * between two executions.
   */
  excludeTime(ms: number): void {
    invariant(Number.isFinite(ms) && ms >= 0, "a clock is paused for 0 ms or more");
    this.resumeClockAfter(this.pausedMs + ms);
  }

  /** Starts the clock, with the total time for which it has been paused. */
  resumeClockAfter(pausedMs: number): void {
    this.pausedSinceMs = undefined;
    this.#pausedBeforeMs = pausedMs;
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "resumeClock", agentId: this.agentId, pausedMs });
  }
}
