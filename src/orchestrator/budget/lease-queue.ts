// LeaseQueue: the agents that wait for a lease, in the order in which they asked, and whose turn it is. Made for the first wait.
// Owns: the waiters and, for each account with limits above one of them, a gate that knows what they need from it. Accounts notify the
// queue of changes. Nothing here looks at the whole queue: each operation takes time logarithmic in it.
//
// B5. Waiters are served in order: none is granted an account that blocks an earlier waiter. They cannot deadlock, since only
//     calls in flight hold leases, and those settle by themselves. A waiter may go if, of every account on its path, it fits into the room now and no waiter
//     before it lacks room there. One that lacks room contests an account for all behind it, whatever else it waits for.
// W1. A gate passes on the first waiter below it that it lets through: the only one whose turn it can be. The top of the
//     queue has no account and passes on the first of all.
// W2. What a gate knows of the need of a waiter is never too little: caps shrink as others spend. It is computed anew before it counts.
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
  /** One for each gate above it, the lowest first, the top of the queue last. */
  rows: readonly GateRow[];
}

interface GateRow {
  readonly gate: Gate;
  readonly row: Row<Place>;
}

interface Gate {
  /** Undefined: the top of the queue. */
  readonly account: LedgerAccount | undefined;
  readonly above: Gate | undefined;
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

/** After the needs: 1 for a waiter that the gate below passes on, else 0. The gate passes on the first of them. */
const passedOnColumn = ({ axes }: { readonly axes: readonly SpendAxis[] }): number =>
  2 * axes.length;
/** At the top only: the latest known deadline, below zero. */
const DUE_COLUMN = 1;

export class LeaseQueue {
  readonly #clock: Now;
  readonly #top: Gate = newGate(undefined, undefined);
  readonly #gates = new Map<LedgerAccount, Gate>();
  /** Gates to be computed anew. With a gate, all above it are in here. */
  readonly #changed = new Set<Gate>();
  /** Gates through which a waiter went in the turn that was given last. */
  readonly #passed = new Set<Gate>();
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
    place.rows = this.#gatesAbove(account).map((gate, index) => {
      this.#changed.add(gate);
      const isPassedOn = index === 0 ? 1 : 0;
      return {
        gate,
        row: gate.rows.append(place, [...needsOf(place, gate), isPassedOn, -dueAtMs]),
      };
    });
    return place;
  }

  #leave(place: Place): void {
    for (const { gate, row } of place.rows) {
      gate.rows.remove(row);
      if (gate.first === place) gate.first = undefined;
      this.#changed.add(gate);
      if (gate.rows.size === 0 && gate.account !== undefined) this.#gates.delete(gate.account);
    }
  }

  /** Something was spent, held or given back on the path of the account. */
  touch(account: LedgerAccount): void {
    if (this.size === 0) return;
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const gate = this.#gates.get(at);
      if (gate !== undefined) this.#changed.add(gate);
    }
    this.#changed.add(this.#top);
  }

  /** The limits of an account were raised: all below may need more than before. */
  raise(account: LedgerAccount): void {
    const gate = this.#gates.get(account);
    if (gate === undefined) return;
    for (const { item } of gate.rows) this.#update(item);
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
    for (const gate of this.#changed) {
      for (let one = this.#unfit(gate); one !== undefined; one = this.#unfit(gate)) {
        taken.push(one);
        this.#leave(one);
      }
    }
    return taken;
  }

  /** Claims count as they are by now (W3). */
  #beginTurns(): void {
    for (const gate of this.#passed) {
      gate.from = 0;
      this.#changed.add(gate);
    }
    this.#passed.clear();
  }

  /** Takes out the next whose turn it is; undefined: all others have to wait. What it is given must be on its account before the next is asked for. */
  #takeNext(): Place | undefined {
    this.#workOut();
    const next = this.#top.first;
    if (next === undefined) return undefined;
    for (const { gate, row } of next.rows) {
      gate.from = row.slot + 1;
      this.#passed.add(gate);
    }
    this.#leave(next);
    return next;
  }

  /** Whether one in the queue lacks room of an account on the path of this one. */
  isContested(account: LedgerAccount): boolean {
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
      const gate = this.#gates.get(at);
      if (gate !== undefined && this.#isLackedBefore(gate, Infinity)) return true;
    }
    return false;
  }

  /** Computes which waiter each changed gate passes on, from the bottom up. */
  #workOut(): void {
    const levels: Set<Gate>[] = [];
    this.#sortInto(levels);
    for (let depth = levels.length - 1; depth >= 0;) {
      const [gate] = levels[depth] ?? [];
      if (gate === undefined) {
        depth -= 1;
        continue;
      }
      levels[depth]?.delete(gate);
      const candidate = gate.rows.first(0, isAbove([0], passedOnColumn(gate)))?.item;
      const isContested = this.#isLackedBefore(gate, candidate?.number ?? Infinity);
      passOn(gate, isContested ? undefined : candidate);
      if (this.#changed.size === 0) continue;
      // Waiters turned out to need less by now: gates further down may pass on others than before.
      this.#sortInto(levels);
      depth = levels.length - 1;
    }
  }

  #sortInto(levels: Set<Gate>[]): void {
    for (const gate of this.#changed) {
      while (levels.length <= gate.depth) levels.push(new Set());
      levels[gate.depth]?.add(gate);
    }
    this.#changed.clear();
  }

  /** Whether one up to this number lacks room. */
  #isLackedBefore(gate: Gate, last: number): boolean {
    const { account, axes, rows } = gate;
    if (account === undefined) return false;
    const rooms = axes.map((axis) => unspent(account, axis) - account.reserved[axis]);
    const lacks = isAbove(rooms, 0);
    for (let slot = gate.from; ;) {
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
    for (const { gate, row } of rows) {
      gate.rows.changeSome(row, needsOf(place, gate));
      this.#changed.add(gate);
    }
    return true;
  }

  /** A waiter that needs more, at least, than is unspent there. */
  #unfit({ account, axes, rows }: Gate): Place | undefined {
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

  /** The gates above a waiter of this account, the lowest first. */
  #gatesAbove(account: LedgerAccount): readonly Gate[] {
    const limiting: LedgerAccount[] = [];
    for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) limiting.push(at);
    let above = this.#top;
    const gates = [above];
    for (const at of limiting.toReversed()) {
      const gate = this.#gates.get(at) ?? newGate(at, above);
      this.#gates.set(at, gate);
      gates.unshift(gate);
      above = gate;
    }
    return gates;
  }
}

function newGate(account: LedgerAccount | undefined, above: Gate | undefined): Gate {
  const depth = above === undefined ? 0 : above.depth + 1;
  const axes = SPEND_AXES.filter((axis) => account?.limits[axis] !== undefined);
  const rows = new MaxTree<Place>(2 * axes.length + 2);
  return { account, above, depth, axes, rows, from: 0, first: undefined };
}

/** Marks at the gate above, if it has changed, the waiter that this one passes on (W1). */
function passOn(gate: Gate, first: Place | undefined): void {
  const { above, first: before } = gate;
  if (first === before) return;
  gate.first = first;
  if (above === undefined) return;
  if (before !== undefined) mark(above, before, 0);
  if (first !== undefined) mark(above, first, 1);
}

function mark(gate: Gate, place: Place, isPassedOn: 0 | 1): void {
  const found = place.rows.find((one) => one.gate === gate);
  if (found !== undefined) gate.rows.changeOne(found.row, passedOnColumn(gate), isPassedOn);
}

/** What has to be unspent, and unheld, at an account for a waiter: what it keeps for its own agent comes on top. */
function needsOf({ waiter, wanted, least }: Place, { account, axes }: Gate): readonly number[] {
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

function unspent({ limits, total }: LedgerAccount, axis: SpendAxis): number {
  return (limits[axis] ?? Infinity) - total[axis];
}

function dueOf(account: LedgerAccount, nowMs: number): number {
  return deadlineAtMs(account, nowMs) ?? Infinity;
}
