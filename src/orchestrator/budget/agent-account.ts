// AgentAccount: the account that an agent holds, with all that it may ask of the ledger. Owns the agent's open leases.
//
// B2. A lease is settled or released exactly once; a second attempt throws.
// B6. An operation works out what comes of it first, and writes then: what throws has changed nothing. The watch gets what is done.

import type { AnySignal } from "../../kernel/cancel.ts";
import type {
  AccountView,
  BudgetRefusal,
  Lease,
  LeaseAsk,
  LeaseOutcome,
  Remaining,
} from "../../agent/account-view.ts";
import { invariant } from "../../kernel/assert.ts";
import type { Clock } from "../../kernel/clock.ts";
import { sameJson } from "../../kernel/json.ts";
import { isEarly, NO_AMOUNTS, reachedThresholds, type Amounts } from "../../policies/budget.ts";
import type { Account, SpendAxis } from "../../protocol/account.ts";
import { idOf, type AgentId, type LeaseId } from "../../protocol/ids.ts";
import {
  addUsage,
  isCountable,
  NO_USAGE,
  subtractUsage,
  type Usage,
  type UsageReport,
} from "../../protocol/usage.ts";
import { joined, LedgerAccount, parted } from "./ledger-account.ts";
import * as arithmetic from "./ledger-arithmetic.ts";
import type { SettledOutcome } from "./ledger-arithmetic.ts";
import * as time from "./ledger-time.ts";
import { LeaseQueue, type AccountAsk, type AskingAccount } from "./lease-queue.ts";
import type { Booking, PersistedHold, LedgerOperation } from "./ledger-operation.ts";
import { lastStep } from "./tight-budget.ts";

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

/** What happens to a ledger. Must not throw. */
export interface LedgerWatch {
  /** Called once for each threshold of each limit, when what was spent is on the accounts. */
  readonly onThreshold?: ((reached: ReachedThreshold) => void) | undefined;
  /** Called with each operation, when it is done. */
  readonly onOperation?: ((done: LedgerOperation) => void) | undefined;
}

/** What the accounts of a ledger share. */
export interface LedgerParts {
  readonly clock: Clock;
  readonly watch: LedgerWatch;
  /** Undefined until the first has to wait. */
  queue: LeaseQueue | undefined;
  /** Leases that were given so far. */
  leaseCount: number;
}

interface OpenLease {
  readonly leaseId: LeaseId;
  /** All that it holds. */
  hold: Amounts;
  /** The parts of each attempt of the call, the first one first; nothing once it has ended. */
  readonly parts: Amounts[];
  /** What attempts that have ended used. */
  charged: Usage;
}

const ONE_TOOL_CALL: Usage = Object.freeze({ ...NO_USAGE, toolCalls: 1 });

export class AgentAccount extends LedgerAccount implements AccountView, AskingAccount {
  readonly #ledger: LedgerParts;
  readonly #leases: OpenLease[] = [];

  constructor(ledger: LedgerParts, account: Account, parent: LedgerAccount | undefined) {
    super(account, parent);
    this.#ledger = ledger;
  }

  // Model calls

  /** Answers at once what fits, or never can; else it waits in line. */
  reserve(ask: AccountAsk, signal: AnySignal): Promise<LeaseOutcome> {
    if (signal.aborted) return Promise.resolve({ type: "cancelled", waitedMs: 0 });
    const ledger = this.#ledger;
    ledger.queue?.serve();
    const outcome = arithmetic.reserveLease(this, ask, ledger.clock);
    const isContested = outcome.type === "granted" && ledger.queue?.isContested(this) === true;
    if (outcome.type !== "wait" && !isContested)
      return Promise.resolve(this.answer(ask, outcome, 0));
    ledger.queue ??= new LeaseQueue(ledger.clock);
    return ledger.queue.wait(this, ask, signal);
  }

  extend(
    { leaseId, inputTokens, maxOutputTokens }: Lease,
    { price, minOutputTokens }: Partial<Pick<LeaseAsk, "price" | "minOutputTokens">>,
    signal: AnySignal,
  ): Promise<LeaseOutcome> {
    this.#lease(leaseId);
    const sizes = { inputTokens, maxOutputTokens, minOutputTokens };
    return this.reserve({ ...sizes, price, steps: 0, leaseId }, signal);
  }

  /** Takes what was found to fit, or hands the refusal on. */
  answer(ask: AccountAsk, outcome: SettledOutcome, waitedMs: number): LeaseOutcome {
    if (outcome.type === "refused") return { type: "refused", refusal: outcome.refusal, waitedMs };
    const { hold } = outcome;
    const sizes = { inputTokens: hold.inputTokens, maxOutputTokens: hold.outputTokens };
    if (ask.leaseId !== undefined) {
      const attempt = this.#holdMore(this.#lease(ask.leaseId), hold);
      const lease = { leaseId: ask.leaseId, ...sizes, lastStep: undefined, attempt };
      return { type: "granted", lease, waitedMs };
    }
    const ledger = this.#ledger;
    ledger.leaseCount += 1;
    const leaseId = idOf<"LeaseId">(`lease_${ledger.leaseCount}`);
    this.hold(hold);
    ledger.queue?.touch(this);
    this.#leases.push({ leaseId, hold, parts: [hold], charged: NO_USAGE });
    const last = this.axes.includes("steps") ? lastStep(this) : undefined;
    const given = { leaseId, ...sizes };
    ledger.watch.onOperation?.({
      operation: "lease",
      agentId: this.agentId,
      lease: last === undefined ? given : { ...given, lastStep: last },
      hold,
      waitedMs,
    });
    return { type: "granted", lease: { ...given, lastStep: last }, waitedMs };
  }

  /** Gives a hold that was found to fit to one more attempt of an open lease, and says which attempt it is. */
  #holdMore(lease: OpenLease, hold: Amounts): number {
    const { leaseId } = lease;
    this.hold(hold);
    this.#ledger.queue?.touch(this);
    lease.hold = joined(lease.hold, hold);
    lease.parts.push(hold);
    this.#ledger.watch.onOperation?.({ operation: "extend", leaseId, hold });
    return lease.parts.length;
  }

  charge({ leaseId, attempt = 1 }: Pick<Lease, "leaseId" | "attempt">, usage: Usage): void {
    const lease = this.#lease(leaseId);
    const hold = lease.parts[attempt - 1];
    invariant(hold !== undefined, "B2: an attempt that is charged was leased");
    this.book(hold, usage);
    this.#ledger.queue?.touch(this);
    lease.hold = parted(lease.hold, hold);
    lease.parts[attempt - 1] = NO_AMOUNTS;
    lease.charged = addUsage(lease.charged, usage);
    this.#ledger.watch.onOperation?.({ operation: "charge", leaseId, hold, usage });
    this.#emitReached(usage);
    this.#ledger.queue?.serve();
  }

  settle({ leaseId }: Pick<Lease, "leaseId">, usage: Usage): void {
    const lease = this.#lease(leaseId);
    const { hold, charged } = lease;
    const rest = charged === NO_USAGE ? usage : notCharged(usage, charged);
    this.book(hold, rest);
    this.#ledger.queue?.touch(this);
    this.#leases.splice(this.#leases.indexOf(lease), 1);
    this.#ledger.watch.onOperation?.({ operation: "settle", leaseId, usage });
    this.#emitReached(rest);
    this.#ledger.queue?.serve();
  }

  /** Gives an unused lease back (B2). */
  release({ leaseId }: Pick<Lease, "leaseId">): void {
    const lease = this.#lease(leaseId);
    this.giveBack(lease.hold);
    this.#ledger.queue?.touch(this);
    this.#leases.splice(this.#leases.indexOf(lease), 1);
    this.#ledger.watch.onOperation?.({ operation: "release", leaseId });
    this.#ledger.queue?.serve();
  }

  releaseOpen(): readonly LeaseId[] {
    const open = this.#leases.map(({ leaseId }) => leaseId);
    for (const leaseId of open) this.release({ leaseId });
    return open;
  }

  get hasLeases(): boolean {
    return this.#leases.length > 0;
  }

  /** Takes over a lease that is open still: what it holds is in the figures. */
  adopt({ lease: { leaseId }, hold, charged = NO_USAGE }: PersistedHold): void {
    this.#leases.push({ leaseId, hold, parts: [hold], charged });
  }

  /** Does once more what a journal has of a call in flight: a replay does not make it. False: the lease is not its own. */
  redo(done: Booking): boolean {
    const { leaseId, hold } = done;
    const lease = this.#leases.find((one) => one.leaseId === leaseId);
    if (lease === undefined) return false;
    if (done.operation === "extend") {
      this.#holdMore(lease, hold);
      return true;
    }
    const index = lease.parts.findIndex((part) => sameJson(part, hold));
    if (index !== -1) this.charge({ leaseId, attempt: index + 1 }, done.usage);
    return true;
  }

  #lease(leaseId: LeaseId): OpenLease {
    for (const lease of this.#leases) if (lease.leaseId === leaseId) return lease;
    invariant(false, `B2: ${leaseId} is settled or released once`);
  }

  // Tool calls

  chargeToolCall(): BudgetRefusal | undefined {
    const { agentId } = this;
    const refusal = arithmetic.toolCallRefusal(this, this.#ledger.clock);
    if (refusal !== undefined) return refusal;
    this.bookToolCall();
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "toolCall", agentId });
    this.#emitReached(ONE_TOOL_CALL);
    return undefined;
  }

  /** So much was spent: emits the thresholds that this has reached. */
  #emitReached(usage: Usage): void {
    const { watch } = this.#ledger;
    if (watch.onThreshold === undefined) return;
    for (let at = this.limiting; at !== undefined; at = at.parent?.limiting)
      for (const axis of at.axes) {
        const [maximum, spent] = [at.limits[axis], at.total[axis]];
        if (maximum === undefined || usage[axis] === 0 || isEarly(maximum, spent)) continue;
        emitReached(watch, at, { axis, maximum, before: spent - usage[axis], spent });
      }
  }

  // What is left, and what was used

  exhausted(): BudgetRefusal | undefined {
    return arithmetic.exhausted(this, this.#ledger.clock);
  }

  exhaustedForChild(): BudgetRefusal | undefined {
    return arithmetic.exhausted(this, this.#ledger.clock, null);
  }

  remaining(): Remaining {
    return arithmetic.remaining(this, this.#ledger.clock);
  }

  remainingWith({ leaseId }: Pick<Lease, "leaseId">): Remaining {
    return arithmetic.remaining(this, this.#ledger.clock, this, this.#lease(leaseId).hold);
  }

  remainingForChildren(): Remaining {
    return arithmetic.remaining(this, this.#ledger.clock, null);
  }

  runRemaining(): Remaining {
    return arithmetic.remaining(this.root, this.#ledger.clock);
  }

  usage(): UsageReport {
    const own = { ...this.own };
    const total = { ...this.total };
    return { own, descendants: subtractUsage(total, own), total };
  }

  // Time

  get stoodMs(): number {
    const isStanding = this.standsSinceMs !== undefined;
    return isStanding ? this.stoodMsAt(this.#ledger.clock.nowMs()) : this.stoodBeforeMs;
  }

  deadlineAtMs(): number | null {
    return this.isTimed ? time.deadlineAtMs(this, this.#ledger.clock.nowMs()) : null;
  }

  ownDeadlineAtMs(): number | null {
    return time.ownDeadlineAtMs(this, this.#ledger.clock.nowMs());
  }

  timeSpent(): { readonly maximum: number; readonly spent: number } | undefined {
    return time.timeSpent(this, this.#ledger.clock.nowMs());
  }

  emitThresholds(before: number): void {
    const spent = this.timeSpent();
    if (spent !== undefined)
      emitReached(this.#ledger.watch, this, { axis: "wallTimeMs", before, ...spent });
  }

  stopTime(): void {
    invariant(this.standsSinceMs === undefined, "a clock that goes can stand still");
    const { agentId } = this;
    const atMs = this.#ledger.clock.nowMs();
    this.standsSinceMs = atMs;
    this.#ledger.watch.onOperation?.({ operation: "stand", agentId, atMs });
  }

  resumeTime(): void {
    invariant(this.standsSinceMs !== undefined, "a clock that stands still can go on");
    this.#runAfter(this.stoodMs);
  }

  /** Books time that counts for no limit in time of its own: between pause and resume, or between two executions. */
  excludeTime(ms: number): void {
    invariant(Number.isFinite(ms) && ms >= 0, "a clock stands still for a time from 0 up");
    this.#runAfter(this.stoodMs + ms);
  }

  #runAfter(stoodMs: number): void {
    const { agentId } = this;
    this.runAfter(stoodMs);
    this.#ledger.watch.onOperation?.({ operation: "goOn", agentId, stoodMs });
  }
}

/** What was spent of a limit before, and what is spent by now. */
interface Spending extends Pick<ReachedThreshold, "axis" | "maximum" | "spent"> {
  readonly before: number;
}

/** Emits the thresholds of a limit that were reached since. */
function emitReached(
  { onThreshold }: LedgerWatch,
  { agentId, path: accountPath }: LedgerAccount,
  { axis, maximum, before, spent }: Spending,
): void {
  if (onThreshold === undefined) return;
  for (const threshold of reachedThresholds(maximum, before, spent))
    onThreshold({ agentId, accountPath, axis, threshold, spent, maximum });
}

/** What a call used in all, without what its attempts were charged. */
function notCharged(usage: Usage, charged: Usage): Usage {
  invariant(isCountable(usage), "usage is in whole amounts from 0 up");
  return subtractUsage(usage, charged);
}
