// LeaseQueue: the agents that wait for a lease, in the order in which they asked, and whose turn it is. Made for the first wait.
// Owns: the waiters and, for each account with limits above one of them, a node that knows what they need from it. Accounts notify the
// queue of changes. Nothing here looks at the whole queue: each operation takes time logarithmic in it.
//
// B5. Waiters are served in order: none is granted an account that blocks an earlier waiter. They cannot deadlock, since only
//     calls in flight hold leases, and those settle by themselves. A waiter may go if, of every account on its path, it fits into the room now and no waiter
//     before it lacks room there. One that lacks room contests an account for all behind it, whatever else it waits for.
// W1. A node passes on the first waiter below it that it lets through: the only one whose turn it can be. The top of the
//     queue has no account and passes on the first of all.
// W2. What a node knows of the need of a waiter is never too little: caps shrink as others spend. It is computed anew before it counts.
// W3. The turns that one change brings about are given in one go from front to back: a waiter that was passed by keeps its claims as
//     they were then, until the next change.

import type { LeaseAsk, LeaseOutcome } from "../../agent/account-view.ts";
import { invariant } from "../../kernel/assert.ts";
import { onAbort, type AnySignal } from "../../kernel/cancel.ts";
import { type Amounts } from "../../policies/budget.ts";
import { SPEND_AXES, type SpendAxis } from "../../protocol/account.ts";
import type { LeaseId } from "../../protocol/ids.ts";
import type { LedgerAccount } from "./ledger-account.ts";
import {
  leastHold,
  reserveLease,
  wantedHold,
  type Now,
  type SettledOutcome,
} from "./ledger-arithmetic.ts";
import { deadlineAtMs } from "./ledger-time.ts";
import { MaxTree, type IsAbove, type Row } from "./max-tree.ts";

/** What an account asks for. `leaseId`: of its open lease that is to cover one more attempt; left out: a new lease. */
export interface AccountAsk extends LeaseAsk {
  readonly leaseId?: LeaseId;
}

/** An account that takes what a waiter is given. */
export interface AskingAccount extends LedgerAccount {
  answer(ask: AccountAsk, outcome: SettledOutcome, waitedMs: number): LeaseOutcome;
}

interface Waiter {
  readonly account: AskingAccount;
  readonly ask: AccountAsk;
  readonly askedAtMs: number;
  readonly resolve: (outcome: LeaseOutcome) => void;
}

/** A place in the queue; all but the first two fields are the queue's own. */
interface Place {
  /** Later ones have larger numbers. */
  readonly number: number;
  readonly waiter: Waiter;
  /** What its lease holds at least, and what it would hold as things stand. */
  readonly least: Amounts;
  wanted: Amounts;
  /** One for each node above it, the lowest first, the top of the queue last. */
  rows: readonly NodeRow[];
}

interface NodeRow {
  readonly node: AccountNode;
  readonly row: Row<Place>;
}

interface AccountNode {
  /** Undefined: the top of the queue. */
  readonly account: LedgerAccount | undefined;
  readonly above: AccountNode | undefined;
  /** 0: the top. */
  readonly depth: number;
  /** Those that the account limits. A row has what is needed on each, then what is needed at least, then the last two columns. */
  readonly axes: readonly SpendAxis[];
  readonly rows: MaxTree<Place>;
  /** Rows before this slot were passed by in the turn that is being given (W3). */
  from: number;
  /** The waiter that it passes on. */
  first: Place | undefined;
}

/** After the needs: 1 for a waiter that the node below passes on, else 0. The node passes on the first of them. */
const passedOnColumn = ({ axes }: { readonly axes: readonly SpendAxis[] }): number =>
  2 * axes.length;
/** At the top only: the latest known deadline, below zero. */
const DUE_COLUMN = 1;

export class LeaseQueue {
  readonly #clock: Now;
  readonly #top: AccountNode = newNode(undefined, undefined);
  readonly #nodes = new Map<LedgerAccount, AccountNode>();
  /** Nodes to be computed anew. With a node, all above it are in here. */
  readonly #changed = new Set<AccountNode>();
  /** Nodes through which a waiter went in the turn that was given last. */
  readonly #passed = new Set<AccountNode>();
  #count = 0;

  constructor(clock: Now) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#top.rows.size;
  }

  /** Puts a waiter that cannot go now at the end of the queue; never rejects. */
  wait(account: AskingAccount, ask: AccountAsk, signal: AnySignal): Promise<LeaseOutcome> {
    const { promise, resolve } = Promise.withResolvers<LeaseOutcome>();
    const askedAtMs = this.#clock.nowMs();
    const stopListening = onAbort(signal, () => {
      this.#leave(place);
      resolve({ type: "cancelled", waitedMs: this.#clock.nowMs() - askedAtMs });
      this.serve();
    });
    const served = (outcome: LeaseOutcome): void => {
      stopListening();
      resolve(outcome);
    };
    const place = this.#join({ account, ask, askedAtMs, resolve: served }, askedAtMs);
    return promise;
  }

  #join(waiter: Waiter, nowMs: number): Place {
    const { account, ask } = waiter;
    const dueAtMs = dueOf(account, nowMs);
    this.#count += 1;
    const place: Place = {
      number: this.#count,
      waiter,
      least: leastHold(ask),
      wanted: wantedHold(account, ask),
      rows: [],
    };
    place.rows = this.#nodesAbove(account).map((node, index) => {
      this.#changed.add(node);
      const isPassedOn = index === 0 ? 1 : 0;
      return {
        node,
        row: node.rows.append(place, [...needsOf(place, node), isPassedOn, -dueAtMs]),
      };
    });
    return place;
  }

  #leave(place: Place): void {
    for (const { node, row } of place.rows) {
      node.rows.remove(row);
      if (node.first === place) node.first = undefined;
      this.#changed.add(node);
      if (node.rows.size === 0 && node.account !== undefined) this.#nodes.delete(node.account);
    }
  }

  /** Something was spent, held or given back on the path of the account. */
  touch(account: LedgerAccount): void {
    if (this.size === 0) return;
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const node = this.#nodes.get(at);
      if (node !== undefined) this.#changed.add(node);
    }
    this.#changed.add(this.#top);
  }

  /** The limits of an account were raised: all below may need more than before. */
  raise(account: LedgerAccount): void {
    const node = this.#nodes.get(account);
    if (node === undefined) return;
    for (const { item } of node.rows) this.#update(item);
  }

  /** Answers all waiters whose turn it is, or that would be refused, in the order in which they asked. */
  serve(): void {
    if (this.size === 0) return;
    const nowMs = this.#clock.nowMs();
    const clock = { nowMs: () => nowMs };
    const served: { readonly place: Place; readonly outcome: LeaseOutcome }[] = [];
    const answer = (place: Place): void => {
      const { account, ask, askedAtMs } = place.waiter;
      const outcome = reserveLease(account, ask, clock);
      invariant(outcome.type !== "wait", "B5: who is served need not wait");
      served.push({ place, outcome: account.answer(ask, outcome, nowMs - askedAtMs) });
    };
    for (const place of this.#takeRefused(nowMs)) answer(place);
    this.#beginTurns();
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) answer(next);
    invariant(this.size === 0 || this.#isHeld(), "B5: an agent waits and no lease holds room");
    served.sort((left, right) => left.place.number - right.place.number);
    for (const { place, outcome } of served) place.waiter.resolve(outcome);
  }

  /** Whether room is held: all leases are in the root's account. */
  #isHeld(): boolean {
    const [first] = this.#top.rows;
    const root = first?.item.waiter.account.root;
    return root !== undefined && SPEND_AXES.some((axis) => root.reserved[axis] > 0);
  }

  /** Takes out the waiters that can never go: something that they need at least is spent, or their time is over. */
  #takeRefused(nowMs: number): readonly Place[] {
    const taken: Place[] = [];
    for (let one = this.#overdue(nowMs); one !== undefined; one = this.#overdue(nowMs)) {
      taken.push(one);
      this.#leave(one);
    }
    for (const node of this.#changed) {
      for (let one = this.#unfit(node); one !== undefined; one = this.#unfit(node)) {
        taken.push(one);
        this.#leave(one);
      }
    }
    return taken;
  }

  /** Claims count as they are by now (W3). */
  #beginTurns(): void {
    for (const node of this.#passed) {
      node.from = 0;
      this.#changed.add(node);
    }
    this.#passed.clear();
  }

  /** Takes out the next whose turn it is; undefined: all others have to wait. What it is given must be on its account before the next is asked for. */
  #takeNext(): Place | undefined {
    this.#workOut();
    const next = this.#top.first;
    if (next === undefined) return undefined;
    for (const { node, row } of next.rows) {
      node.from = row.slot + 1;
      this.#passed.add(node);
    }
    this.#leave(next);
    return next;
  }

  /** Returns the first account on the path of which a waiter in the queue lacks room. */
  contestedAccount(account: LedgerAccount): LedgerAccount | undefined {
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const node = this.#nodes.get(at);
      if (node !== undefined && this.#isLackedBefore(node, Infinity)) return at;
    }
    return undefined;
  }

  /** Computes which waiter each changed node passes on, from the bottom up. */
  #workOut(): void {
    const levels: Set<AccountNode>[] = [];
    this.#sortInto(levels);
    for (let depth = levels.length - 1; depth >= 0;) {
      const [node] = levels[depth] ?? [];
      if (node === undefined) {
        depth -= 1;
        continue;
      }
      levels[depth]?.delete(node);
      const candidate = node.rows.first(0, isAbove([0], passedOnColumn(node)))?.item;
      const isContested = this.#isLackedBefore(node, candidate?.number ?? Infinity);
      passOn(node, isContested ? undefined : candidate);
      if (this.#changed.size === 0) continue;
      // Waiters turned out to need less by now: nodes further down may pass on others than before.
      this.#sortInto(levels);
      depth = levels.length - 1;
    }
  }

  #sortInto(levels: Set<AccountNode>[]): void {
    for (const node of this.#changed) {
      while (levels.length <= node.depth) levels.push(new Set());
      levels[node.depth]?.add(node);
    }
    this.#changed.clear();
  }

  /** Whether one up to this number lacks room. */
  #isLackedBefore(node: AccountNode, last: number): boolean {
    const { account, axes, rows } = node;
    if (account === undefined) return false;
    const rooms = axes.map((axis) => unspent(account, axis) - account.reserved[axis]);
    const lacks = isAbove(rooms, 0);
    for (let slot = node.from; ;) {
      const found = rows.first(slot, lacks);
      if (found === undefined || found.item.number > last) return false;
      // Once it is up to date it may fit; then it is not found at this slot again.
      if (!this.#update(found.item)) return true;
      slot = found.slot;
    }
  }

  /** Computes what a waiter needs now; true if that has changed (W2). */
  #update(place: Place): boolean {
    const { waiter, wanted, rows } = place;
    const now = wantedHold(waiter.account, waiter.ask);
    if (SPEND_AXES.every((axis) => now[axis] === wanted[axis])) return false;
    place.wanted = now;
    for (const { node, row } of rows) {
      node.rows.changeSome(row, needsOf(place, node));
      this.#changed.add(node);
    }
    return true;
  }

  /** A waiter that needs more, at least, than is unspent there. */
  #unfit({ account, axes, rows }: AccountNode): Place | undefined {
    if (account === undefined) return undefined;
    const rooms = axes.map((axis) => unspent(account, axis));
    return rows.first(0, isAbove(rooms, axes.length))?.item;
  }

  /** Deadlines only move away: the deadline of a waiter that is overdue by the last known one is looked up anew. */
  #overdue(nowMs: number): Place | undefined {
    const isDue = (numbers: Float64Array, offset: number): boolean =>
      -(numbers[offset + DUE_COLUMN] ?? -Infinity) <= nowMs;
    for (;;) {
      const found = this.#top.rows.first(0, isDue);
      if (found === undefined) return undefined;
      const atMs = dueOf(found.item.waiter.account, nowMs);
      if (atMs <= nowMs) return found.item;
      this.#top.rows.changeOne(found, DUE_COLUMN, -atMs);
    }
  }

  /** The nodes above a waiter of this account, the lowest first. */
  #nodesAbove(account: LedgerAccount): readonly AccountNode[] {
    const limiting: LedgerAccount[] = [];
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) limiting.push(at);
    let above = this.#top;
    const nodes = [above];
    for (const at of limiting.toReversed()) {
      const node = this.#nodes.get(at) ?? newNode(at, above);
      this.#nodes.set(at, node);
      nodes.unshift(node);
      above = node;
    }
    return nodes;
  }
}

function newNode(account: LedgerAccount | undefined, above: AccountNode | undefined): AccountNode {
  const depth = above === undefined ? 0 : above.depth + 1;
  const axes = SPEND_AXES.filter((axis) => account?.limits[axis] !== undefined);
  const rows = new MaxTree<Place>(2 * axes.length + 2);
  return { account, above, depth, axes, rows, from: 0, first: undefined };
}

/** Marks at the node above, if it has changed, the waiter that this one passes on (W1). */
function passOn(node: AccountNode, first: Place | undefined): void {
  const { above, first: before } = node;
  if (first === before) return;
  node.first = first;
  if (above === undefined) return;
  if (before !== undefined) mark(above, before, 0);
  if (first !== undefined) mark(above, first, 1);
}

function mark(node: AccountNode, place: Place, isPassedOn: 0 | 1): void {
  const found = place.rows.find((one) => one.node === node);
  if (found !== undefined) node.rows.changeOne(found.row, passedOnColumn(node), isPassedOn);
}

/** What has to be unspent, and unheld, at an account for a waiter: what it keeps for its own agent comes on top. */
function needsOf(
  { waiter, wanted, least }: Place,
  { account, axes }: AccountNode,
): readonly number[] {
  if (account === undefined) return [];
  return [wanted, least].flatMap((amounts) =>
    axes.map((axis) =>
      amounts[axis] === 0 ? -Infinity : amounts[axis] + account.keptFrom(waiter.account, axis),
    ),
  );
}

function isAbove(bounds: readonly number[], column: number): IsAbove {
  return (numbers, offset) =>
    bounds.some((bound, index) => (numbers[offset + column + index] ?? -Infinity) > bound);
}

function unspent(account: LedgerAccount, axis: SpendAxis): number {
  return (account.limits[axis] ?? Infinity) - account.spentOf(axis);
}

function dueOf(account: LedgerAccount, nowMs: number): number {
  return deadlineAtMs(account, nowMs) ?? Infinity;
}
