// AgentAccount: the account that an agent holds, with all that it may ask of the ledger. Owns the agent's open leases.
//
// B2. A lease is settled or released exactly once; a second attempt throws.
// B6. An operation computes its outcome first, and writes then: one that throws has changed nothing. The watch gets what is done.

import type { AnySignal } from "../kernel/cancel.ts";
import type { BudgetRefusal, Lease, LeaseAsk, LeaseOutcome, Remaining } from "./lease.ts";
import { invariant } from "../kernel/assert.ts";
import { sameJson } from "../kernel/json.ts";
import { isEarly, NO_AMOUNTS, reachedThresholds, type Amounts } from "../policies/budget.ts";
import type { Account, SpendAxis } from "../protocol/account.ts";
import { idOf, type AgentId, type LeaseId } from "../protocol/ids.ts";
import {
  addUsage,
  isCountable,
  NO_USAGE,
  subtractUsage,
  type ModelUsage,
  type Usage,
} from "../protocol/usage.ts";
import { addHolds, LedgerAccount, ONE_TOOL_CALL, subtractHold } from "./ledger-account.ts";
import * as arithmetic from "./ledger-arithmetic.ts";
import type { Now, SettledOutcome } from "./ledger-arithmetic.ts";
import { raise } from "./ledger-grant.ts";
import * as time from "./account-time.ts";
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
  readonly clock: Now;
  readonly watch: LedgerWatch;
  /** Undefined until the first has to wait. */
  queue: LeaseQueue | undefined;
  /** Leases that were given so far. */
  leaseCount: number;
}

interface OpenLease extends PersistedHold {
  /** All that it holds by now. */
  hold: Amounts;
  charged?: Usage;
  underWay: number;
  /** The parts of each attempt of the call, the first one first; nothing once it has ended. */
  readonly parts: Amounts[];
}

const NO_LEASES: readonly OpenLease[] = Object.freeze([]);

export class AgentAccount extends LedgerAccount implements AskingAccount {
  readonly #ledger: LedgerParts;
  #leases: readonly OpenLease[] = NO_LEASES;

  constructor(ledger: LedgerParts, account: Account, parent: LedgerAccount | undefined) {
    super(account, parent);
    this.#ledger = ledger;
  }

  // Model calls

  /**
   * Requests a lease. Waits in the queue while calls in flight may still make room (X2). Never rejects.
   * `onWait` is called before a wait, with the path of the account that lacks room.
   */
  reserve(
    ask: AccountAsk,
    signal: AnySignal,
    onWait?: (accountPath: string) => void,
  ): Promise<LeaseOutcome> {
    if (signal.aborted) return Promise.resolve({ type: "cancelled", waitedMs: 0 });
    const ledger = this.#ledger;
    ledger.queue?.serve();
    const outcome = arithmetic.reserveLease(this, ask, ledger.clock);
    const lacking =
      outcome.type === "wait"
        ? arithmetic.lackingAccount(this, arithmetic.wantedHold(this, ask))
        : outcome.type === "granted"
          ? ledger.queue?.contestedAccount(this)
          : undefined;
    if (outcome.type !== "wait" && lacking === undefined)
      return Promise.resolve(this.answer(ask, outcome, 0));
    if (lacking !== undefined) onWait?.(lacking.path);
    ledger.queue ??= new LeaseQueue(ledger.clock);
    return ledger.queue.wait(this, ask, signal);
  }

  /**
   * Requests that an open lease cover one more attempt of its call, whose earlier attempts are charged.
   * Waits for room like `reserve`.
   */
  extend(
    { leaseId, inputTokens, maxOutputTokens }: Lease,
    { price, minOutputTokens }: Partial<Pick<LeaseAsk, "price" | "minOutputTokens">>,
    signal: AnySignal,
    onWait?: (accountPath: string) => void,
  ): Promise<LeaseOutcome> {
    this.#lease(leaseId);
    const sizes = { inputTokens, maxOutputTokens, minOutputTokens };
    return this.reserve({ ...sizes, price, steps: 0, leaseId }, signal, onWait);
  }

  /** Takes the lease if it fits, or passes the refusal on. */
  answer(ask: AccountAsk, outcome: SettledOutcome, waitedMs: number): LeaseOutcome {
    if (outcome.type === "refused") return { type: "refused", refusal: outcome.refusal, waitedMs };
    const { hold } = outcome;
    const sizes = { inputTokens: hold.inputTokens, maxOutputTokens: hold.outputTokens };
    if (ask.leaseId !== undefined) {
      const { leaseId } = ask;
      this.#do({ operation: "extend", leaseId, hold });
      const attempt = this.#lease(leaseId).parts.length;
      return {
        type: "granted",
        lease: { leaseId, ...sizes, attempt },
        waitedMs,
      };
    }
    const { agentId } = this;
    const leaseId = idOf<"LeaseId">(`lease_${this.#ledger.leaseCount + 1}`);
    const last = this.axes.includes("steps") ? lastStep(this, hold.steps) : undefined;
    const lease = { leaseId, ...sizes, ...(last === undefined ? {} : { lastStep: last }) };
    this.#open({ agentId, lease, hold, waitedMs });
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({ operation: "lease", agentId, lease, hold, waitedMs });
    return { type: "granted", lease, waitedMs };
  }

  /** Books the usage of an attempt that has ended, while its call continues. */
  charge({ leaseId, attempt = 1 }: Pick<Lease, "leaseId" | "attempt">, usage: Usage): void {
    const { parts } = this.#lease(leaseId);
    const hold = parts[attempt - 1];
    invariant(hold !== undefined, "B2: an attempt that is charged was leased");
    this.#do({ operation: "charge", leaseId, hold, usage });
    parts[attempt - 1] = NO_AMOUNTS;
    this.#emitReached(usage);
    this.#ledger.queue?.serve();
  }

  /**
   * Books the usage of the whole call on this account and every ancestor, and releases the rest of
   * the lease. `otherModels`: the part of the usage that belongs to other models than the agent's first.
   */
  settle(
    { leaseId }: Pick<Lease, "leaseId">,
    usage: Usage,
    otherModels?: readonly ModelUsage[],
  ): void {
    const open = this.#lease(leaseId);
    const rest = subtractCharged(open, usage);
    this.#settle(open, rest, otherModels);
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.({
      operation: "settle",
      leaseId,
      usage,
      ...(otherModels && { otherModels }),
    });
    this.#emitReached(rest);
    this.#ledger.queue?.serve();
  }

  /** Gives an unused lease back (B2). */
  release({ leaseId }: Pick<Lease, "leaseId">): void {
    this.#do({ operation: "release", leaseId });
    this.#ledger.queue?.serve();
  }

  /** Releases all open leases unused, and returns their ids. */
  releaseOpen(): readonly LeaseId[] {
    const open = this.#leases.map(({ lease }) => lease.leaseId);
    for (const leaseId of open) this.release({ leaseId });
    return open;
  }

  get hasLeases(): boolean {
    return this.#leases.length > 0;
  }

  /** Takes over a lease that is still open: the figures include what it holds. */
  adopt(lease: PersistedHold): void {
    this.#leases = this.#leases.concat({ ...lease, parts: [lease.hold] });
  }

  /** Undefined: it is not open, or not its own. */
  openLease(leaseId: LeaseId): PersistedHold | undefined {
    return this.#leases.find(({ lease }) => lease.leaseId === leaseId);
  }

  #lease(leaseId: LeaseId): OpenLease {
    const open = this.#leases.find(({ lease }) => lease.leaseId === leaseId);
    invariant(open !== undefined, `B2: ${leaseId} is settled or released once`);
    return open;
  }

  // Operations

  /** Applies an operation that was checked, and reports it. */
  #do(done: LedgerOperation): void {
    this.#apply(done);
    this.#ledger.queue?.touch(this);
    this.#ledger.watch.onOperation?.(done);
  }

  /** Does once more what a journal has. Throws where it does not fit what was done before. */
  redo(done: LedgerOperation): void {
    this.#apply(done);
  }

  /** Does once more what a journal has of a call in flight: a replay does not make it. False: the lease is not its own. */
  redoInFlight(done: Booking): boolean {
    const { leaseId, hold } = done;
    const open = this.#leases.find((one) => one.lease.leaseId === leaseId);
    if (open === undefined) return false;
    if (done.operation === "extend") {
      this.#do(done);
      return true;
    }
    const index = open.parts.findIndex((part) => sameJson(part, hold));
    if (index !== -1) this.charge({ leaseId, attempt: index + 1 }, done.usage);
    return true;
  }

  #apply(done: LedgerOperation): void {
    switch (done.operation) {
      case "lease": {
        const { operation: _done, ...given } = done;
        this.#open(given);
        return;
      }
      case "extend": {
        const open = this.#lease(done.leaseId);
        this.hold(done.hold);
        open.hold = addHolds(open.hold, done.hold);
        open.parts.push(done.hold);
        open.underWay += 1;
        return;
      }
      case "charge": {
        const open = this.#lease(done.leaseId);
        this.book(done.hold, done.usage);
        open.hold = subtractHold(open.hold, done.hold);
        open.charged = addUsage(open.charged ?? NO_USAGE, done.usage);
        open.underWay -= 1;
        return;
      }
      case "settle": {
        const open = this.#lease(done.leaseId);
        this.#settle(open, subtractCharged(open, done.usage), done.otherModels);
        return;
      }
      case "release": {
        const open = this.#lease(done.leaseId);
        this.giveBack(open.hold);
        this.#close(open);
        return;
      }
      case "toolCall":
        this.bookToolCall();
        return;
      case "grant":
        raise(this, done.grant);
        return;
      case "stand":
        this.standsSinceMs = done.atMs;
        return;
      case "goOn":
        this.runAfter(done.stoodMs);
    }
  }

  #open(given: Omit<PersistedHold, "underWay">): void {
    this.hold(given.hold);
    this.#leases = this.#leases.concat({ ...given, underWay: 1, parts: [given.hold] });
    this.#ledger.leaseCount += 1;
  }

  #settle(open: OpenLease, rest: Usage, otherModels: readonly ModelUsage[] | undefined): void {
    this.book(open.hold, rest);
    if (otherModels !== undefined) this.bookModels(otherModels);
    this.#close(open);
  }

  #close(closed: OpenLease): void {
    this.#leases =
      this.#leases.length === 1 ? NO_LEASES : this.#leases.filter((one) => one !== closed);
  }

  // Tool calls

  /** Books one tool call, or returns the limit that forbids it. */
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
        const [maximum, spent] = [at.limits[axis], at.spentOf(axis)];
        const used = usage[axis] ?? 0;
        if (maximum === undefined || used === 0 || isEarly(maximum, spent)) continue;
        emitReached(watch, at, { axis, maximum, before: spent - used, spent });
      }
  }

  // What is left, and what was used

  /** Returns the first limit on the path that is reached: then nothing further may start. */
  exhausted(): BudgetRefusal | undefined {
    return arithmetic.exhausted(this, this.#ledger.clock);
  }

  /** Returns the limit that would keep a new child of the agent from taking even one step. */
  exhaustedForChild(): BudgetRefusal | undefined {
    return arithmetic.exhausted(this, this.#ledger.clock, null);
  }

  /** Returns the least room on the path, for each limited axis. */
  remaining(): Remaining {
    return arithmetic.remaining(this, this.#ledger.clock);
  }

  /** Returns the room as if an open lease had never been given. */
  remainingWith({ leaseId }: Pick<Lease, "leaseId">): Remaining {
    return arithmetic.remaining(this, this.#ledger.clock, this, this.#lease(leaseId).hold);
  }

  /** Returns the room for all new children of the agent together: its reserve is kept. */
  remainingForChildren(): Remaining {
    return arithmetic.remaining(this, this.#ledger.clock, null);
  }

  /** Returns the room of the whole run. */
  runRemaining(): Remaining {
    return arithmetic.remaining(this.root, this.#ledger.clock);
  }

  // Time

  /** The time for which its clock has stood still so far. */
  get stoodMs(): number {
    const isStanding = this.standsSinceMs !== undefined;
    return isStanding ? this.stoodMsAt(this.#ledger.clock.nowMs()) : this.stoodBeforeMs;
  }

  /** When the agent must have ended, as the clocks on its path have run so far; null: no limit in time. */
  deadlineAtMs(): number | null {
    return this.isTimed ? time.deadlineAtMs(this, this.#ledger.clock.nowMs()) : null;
  }

  /**
   * The deadline at which the agent itself has to be ended; null: there is none, or its ancestors watch
   * it, or its clock stands still.
   */
  ownDeadlineAtMs(): number | null {
    return time.ownDeadlineAtMs(this, this.#ledger.clock.nowMs());
  }

  /** How much of its own limit in time the agent has spent, in milliseconds; undefined: it has none. */
  timeSpent(): { readonly maximum: number; readonly spent: number } | undefined {
    return time.timeSpent(this, this.#ledger.clock.nowMs());
  }

  /** Emits the thresholds of its limit in time reached since it had spent `before` milliseconds (X6). */
  emitThresholds(before: number): void {
    const spent = this.timeSpent();
    if (spent !== undefined)
      emitReached(this.#ledger.watch, this, { axis: "wallTimeMs", before, ...spent });
  }

  /** Stops the clock until `resumeTime`. */
  stopTime(): void {
    invariant(this.standsSinceMs === undefined, "a clock that goes can stand still");
    const { agentId } = this;
    this.#do({ operation: "stand", agentId, atMs: this.#ledger.clock.nowMs() });
  }

  /** Lets the clock run again, and books the time for which it stood. */
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
    this.#do({ operation: "goOn", agentId, stoodMs });
  }
}

/** What was spent of a limit before, and what is spent by now. */
interface Spending extends Pick<ReachedThreshold, "axis" | "maximum" | "spent"> {
  readonly before: number;
}

/** Emits the thresholds of a limit that were reached since. */
function emitReached(
  watch: LedgerWatch,
  { agentId, path: accountPath }: LedgerAccount,
  { axis, maximum, before, spent }: Spending,
): void {
  for (const threshold of reachedThresholds(maximum, before, spent))
    watch.onThreshold?.({ agentId, accountPath, axis, threshold, spent, maximum });
}

/** What a call used in all, without what its attempts were charged. */
function subtractCharged({ charged }: PersistedHold, usage: Usage): Usage {
  if (charged === undefined) return usage;
  invariant(isCountable(usage), "usage is in whole amounts from 0 up");
  return subtractUsage(usage, charged);
}
