// LeaseQueue: a FIFO queue of the agents that wait for a lease. Created for the first wait.
//
// Owns the waiters. For each account with limits above a waiter it has a node with upper bounds of
// the amounts that these waiters need there. A waiter that finds too little room at an account
// contests the account.
//
// B5. Waiters are served in order. A waiter gets its lease if every account on its path has room,
// and no earlier waiter contests any of these accounts. Waiters cannot deadlock: only calls in
// flight hold leases, and each call ends without a waiter.
//
// A pass reads the queue from front to back. It skips a waiter below a contested account that can
// contest no further account. It ends once all remaining waiters would be skipped, so a pass is
// short if one account blocks all waiters.
//
// Waiters below different topmost limits cannot block each other. A pass clears the contests below
// a topmost limit where something changed, and keeps the others.
//
// The bounds of a node are never too small. A waiter needs less as others spend, and each rebuild
// computes the bounds from the waiters.

import type { LeaseAsk, LeaseOutcome, LedgerWatch } from "./lease.ts";
import { invariant } from "../kernel/invariant.ts";
import { addAbortHandler, type AnySignal } from "../kernel/cancel-signal.ts";
import { NO_AMOUNTS, type Amounts } from "../policies/budget.ts";
import { LEDGER_AXES, type LedgerAxis } from "../protocol/account.ts";
import type { LeaseId } from "../protocol/ids.ts";
import { findUnspentRoom, NEW_CHILD, type AccountFigures } from "./account-figures.ts";
import { computeDeadline } from "./account-time.ts";
import {
  decideLease,
  hasNoRoom,
  createLeastHold,
  createWantedHold,
  type LeaseAnswer,
  type Now,
} from "./lease-decision.ts";

/**
 * The request of an account. `leaseId` is the open lease to extend by one more attempt, absent for
 * a new lease.
 */
export interface AccountAsk extends LeaseAsk {
  readonly leaseId?: LeaseId;
}

/** A waiting account, which carries out the decision on its request. */
interface WaitingAccount extends AccountFigures {
  carryOut(ask: AccountAsk, answer: LeaseAnswer, waitedMs: number): LeaseOutcome;
}

interface LeaseWaiter {
  readonly account: WaitingAccount;
  readonly ask: AccountAsk;
  readonly askedAtMs: number;
  readonly resolve: (outcome: LeaseOutcome) => void;
  /** The nodes of the accounts that limit the waiter, from the lowest up. */
  nodes: readonly AccountNode[];
  /** A lower bound of the waiter's deadline, which may move to a later time. */
  dueAtMs: number;
}

/** The values that the accounts of a ledger share. */
export interface LedgerParts {
  readonly clock: Now;
  readonly watch: LedgerWatch;
  /** `undefined` until the first agent has to wait. */
  queue: LeaseQueue | undefined;
  /** Number of leases given so far. */
  leaseCount: number;
}

type AmountBounds = Record<LedgerAxis, number>;

interface AccountNode {
  readonly account: AccountFigures;
  /** The topmost account on the path that has limits. */
  readonly top: AccountFigures;
  /** The number of waiters below the account. */
  count: number;
  /**
   * Upper bounds of the least amounts that the waiters need, and of the amounts that they would
   * get.
   */
  readonly least: AmountBounds;
  readonly wanted: AmountBounds;
}

/**
 * A pass with more visits that neither grant nor contest anything new rebuilds the bounds of all
 * nodes.
 */
const MAX_VAIN_VISITS = 64;

export class LeaseQueue {
  readonly #clock: Now;
  readonly #waiters = new Set<LeaseWaiter>();
  readonly #nodes = new Map<AccountFigures, AccountNode>();
  /** Nodes where a waiter may lack room. */
  readonly #tight = new Set<AccountNode>();
  /** Nodes where a waiter lacks room. A subset of the tight nodes. */
  readonly #contested = new Set<AccountNode>();
  /** Topmost limiting accounts below which something has changed since the last pass. */
  readonly #changed = new Set<AccountFigures>();
  /** True if a waiter may need more than can ever become free. */
  #mayRefuse = false;
  /** A lower bound of the earliest deadline of all waiters. */
  #dueAtMs = Infinity;

  constructor(clock: Now) {
    this.#clock = clock;
  }

  /** Appends a waiter that cannot be served now. Never rejects. */
  wait(account: WaitingAccount, ask: AccountAsk, signal: AnySignal): Promise<LeaseOutcome> {
    const { promise, resolve } = Promise.withResolvers<LeaseOutcome>();
    const askedAtMs = this.#clock.nowMs();
    const stopListening = addAbortHandler(signal, () => {
      this.#leave(waiter);
      resolve({ type: "cancelled", waitedMs: this.#clock.nowMs() - askedAtMs });
      this.serve();
    });
    const settle = (outcome: LeaseOutcome): void => {
      stopListening();
      resolve(outcome);
    };
    const waiter = { account, ask, askedAtMs, resolve: settle, nodes: [], dueAtMs: -Infinity };
    this.#waiters.add(waiter);
    this.#watchDeadline(waiter, askedAtMs);
    this.#enter(waiter);
    this.#contest(waiter, createWantedHold(account, ask));
    return promise;
  }

  /** Adds a waiter to the nodes above it. */
  #enter(waiter: LeaseWaiter): void {
    const { account, ask } = waiter;
    const [least, wanted] = [createLeastHold(ask), createWantedHold(account, ask)];
    const nodes: AccountNode[] = [];
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const node = this.#nodes.get(at) ?? createNode(at);
      this.#nodes.set(at, node);
      node.count += 1;
      for (const axis of LEDGER_AXES) {
        node.least[axis] = Math.max(node.least[axis], least[axis]);
        node.wanted[axis] = Math.max(node.wanted[axis], wanted[axis]);
      }
      this.#review(node);
      nodes.push(node);
    }
    waiter.nodes = nodes;
  }

  #leave(waiter: LeaseWaiter): void {
    this.#waiters.delete(waiter);
    for (const node of waiter.nodes) {
      this.#changed.add(node.top);
      node.count -= 1;
      if (node.count > 0) continue;
      this.#nodes.delete(node.account);
      this.#tight.delete(node);
      this.#contested.delete(node);
    }
  }

  /** Computes the bounds of all nodes again. */
  #rebuild(): void {
    for (const node of this.#nodes.values()) Object.assign(node, createNode(node.account));
    this.#mayRefuse = false;
    for (const waiter of this.#waiters) this.#enter(waiter);
  }

  /** Records whether waiters below an account may lack room there, now or for good. */
  #review(node: AccountNode): void {
    const { account, least, wanted } = node;
    let isTight = false;
    for (const axis of account.axes) {
      const room = findUnspentRoom(account, NEW_CHILD, axis);
      if (least[axis] > room) this.#mayRefuse = true;
      if (wanted[axis] > room - account.reserved[axis]) isTight = true;
    }
    if (isTight) this.#tight.add(node);
    else this.#tight.delete(node);
  }

  /** Marks the accounts on the path as changed, after an amount was spent, reserved or released. */
  touch(account: AccountFigures): void {
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const node = this.#nodes.get(at);
      if (node === undefined) continue;
      this.#review(node);
      this.#changed.add(node.top);
    }
  }

  /**
   * Updates the bounds after limits of an account were raised, since waiters below it may get more
   * than before.
   */
  raise(account: AccountFigures): void {
    this.#rebuild();
    this.touch(account);
  }

  /** Answers all waiters that can be served or must be refused, in the order of their requests. */
  serve(): void {
    const nowMs = this.#clock.nowMs();
    const isDue = nowMs >= this.#dueAtMs;
    if (this.#changed.size === 0 && !isDue) return;
    const isChanged = (node: AccountNode): boolean =>
      isDue || this.#mayRefuse || this.#changed.has(node.top);
    for (const node of this.#contested) if (isChanged(node)) this.#contested.delete(node);
    this.#changed.clear();
    const answers = this.#pass(nowMs, isDue);
    const [first] = this.#waiters;
    const isReserved = first && LEDGER_AXES.some((axis) => first.account.root.reserved[axis] > 0);
    invariant(isReserved !== false, "B5: an agent waits although no lease is open");
    for (const answer of answers) answer();
  }

  #pass(nowMs: number, isDue: boolean): readonly (() => void)[] {
    const clock = { nowMs: () => nowMs };
    const answers: (() => void)[] = [];
    const mayRefuse = this.#mayRefuse;
    let isClosed = false;
    let vainVisits = 0;
    if (isDue) this.#dueAtMs = Infinity;
    for (const waiter of this.#waiters) {
      const { account, ask, askedAtMs, resolve } = waiter;
      if (isDue) this.#watchDeadline(waiter, nowMs);
      if (!mayRefuse && nowMs < waiter.dueAtMs) {
        if (isClosed && !isDue) break;
        if (isClosed || this.#isSkipped(waiter)) continue;
      }
      const decision = decideLease(account, ask, clock);
      if (decision.type === "wait") {
        if (!this.#contest(waiter, decision.hold)) vainVisits += 1;
      } else if (decision.type === "refused" || this.findContestedAccount(account) === undefined) {
        this.#leave(waiter);
        const outcome = account.carryOut(ask, decision, nowMs - askedAtMs);
        answers.push(() => resolve(outcome));
      } else vainVisits += 1;
      isClosed = this.#isClosed();
    }
    if (mayRefuse || vainVisits > MAX_VAIN_VISITS) this.#rebuild();
    return answers;
  }

  /** Reads the deadline of a waiter if it may have passed. */
  #watchDeadline(waiter: LeaseWaiter, nowMs: number): void {
    if (waiter.dueAtMs <= nowMs)
      waiter.dueAtMs = computeDeadline(waiter.account, nowMs) ?? Infinity;
    if (waiter.dueAtMs > nowMs) this.#dueAtMs = Math.min(this.#dueAtMs, waiter.dueAtMs);
  }

  /**
   * Marks the accounts at which a waiter lacks room. Returns true if any of these is newly
   * contested.
   */
  #contest({ account, nodes }: LeaseWaiter, hold: Amounts): boolean {
    const before = this.#contested.size;
    for (const node of nodes) if (hasNoRoom(account, node.account, hold)) this.#contested.add(node);
    return this.#contested.size > before;
  }

  /**
   * Returns true if every waiter is below a contested account, and none can contest another
   * account.
   */
  #isClosed(): boolean {
    if (this.#contested.size < this.#tight.size) return false;
    let blocked = 0;
    for (const { account, count } of this.#contested)
      if (account.parent === undefined || this.findContestedAccount(account.parent) === undefined)
        blocked += count;
    return blocked === this.#waiters.size;
  }

  /** Returns true if this waiter can neither be served nor contest another account. */
  #isSkipped({ nodes }: LeaseWaiter): boolean {
    let isBlocked = false;
    for (const node of nodes)
      if (this.#contested.has(node)) isBlocked = true;
      else if (this.#tight.has(node)) return false;
    return isBlocked;
  }

  /** Returns the first contested account on the path: an earlier waiter lacks room there. */
  findContestedAccount(account: AccountFigures): AccountFigures | undefined {
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const node = this.#nodes.get(at);
      if (node !== undefined && this.#contested.has(node)) return at;
    }
    return undefined;
  }
}

function createNode(account: AccountFigures): AccountNode {
  let top = account;
  for (let at = account.parent?.limiting; at !== undefined; at = at.parent?.limiting) top = at;
  return { account, top, count: 0, least: { ...NO_AMOUNTS }, wanted: { ...NO_AMOUNTS } };
}
