// WaitingLine: who waits for a lease, in the order in which they asked, and whose turn it is.
// Owns: the waiters and, for each account with limits above one of them, a gate that knows what they want of it. Asks the ledger for
// accounts; the ledger tells it which have changed. Nothing here looks at the whole line: each operation takes time logarithmic in it.
//
// B5. A waiter may go if, of every account on its path, it fits into the room now and no waiter before it lacks room there. One who lacks
//     room contests an account for all behind it, whatever else it waits for.
// W1. A gate passes on the first waiter below it that it lets through: the only one whose turn it can be. The top of the line has no
//     account and passes on the first of all.
// W2. What a gate knows of a waiter's wish is never too little: caps shrink as others spend. It is worked out anew before it counts.
// W3. The turns that one change brings about are given in one go from front to back: who has been passed by keeps its claims as they
//     were then, until the next change.

import type { LeaseAsk } from "../../agent/budget-gate.ts";
import { SPEND_AXES, type Amounts, type SpendAxis } from "../../policies/budget.ts";
import type { Account } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import * as core from "./ledger-arithmetic.ts";
import { MaxTree, type IsAbove, type Row } from "./max-tree.ts";

/** What the line has to know of those in it. */
export interface Asker {
  readonly agentId: AgentId;
  readonly ask: LeaseAsk;
}

/** Somebody in the line; all but the first two fields are the line's own. */
export interface Standing<Waiter> {
  /** Where it stands: later ones have larger numbers. */
  readonly number: number;
  readonly waiter: Waiter;
  /** What its lease holds at least, and what it would hold as things stand. */
  readonly least: Amounts;
  wanted: Amounts;
  /** One for each gate above it, the lowest first, the top of the line last. */
  rows: readonly GateRow<Waiter>[];
}

interface GateRow<Waiter> {
  readonly gate: Gate<Waiter>;
  readonly row: Row<Standing<Waiter>>;
}

interface Gate<Waiter> {
  /** Undefined: the top of the line. */
  readonly agentId: AgentId | undefined;
  readonly above: Gate<Waiter> | undefined;
  /** 0: the top. */
  readonly depth: number;
  /** Those that the account limits. A row has what is needed on each, then what is needed at least, then the last two columns. */
  readonly axes: readonly SpendAxis[];
  readonly rows: MaxTree<Standing<Waiter>>;
  /** Rows before this slot were passed by in the turn that is being given (W3). */
  from: number;
  /** Whom it passes on. */
  first: Standing<Waiter> | undefined;
}

const NOBODY = Infinity;
/** After the needs: 1 for those of whom the gate passes on the first, else 0. */
const passedOnColumn = ({ axes }: { readonly axes: readonly SpendAxis[] }): number =>
  2 * axes.length;
/** At the top only: the latest known deadline, below zero. */
const DUE_COLUMN = 1;

export class WaitingLine<Waiter extends Asker> {
  readonly #pathOf: (agentId: AgentId) => core.AccountPath;
  readonly #top: Gate<Waiter> = newGate(undefined, undefined, []);
  readonly #gates = new Map<AgentId, Gate<Waiter>>();
  /** Gates that have to be worked out anew. With a gate, all above it are in here. */
  readonly #changed = new Set<Gate<Waiter>>();
  /** Gates through which somebody went in the turn that was given last. */
  readonly #passed = new Set<Gate<Waiter>>();
  #count = 0;

  constructor(pathOf: (agentId: AgentId) => core.AccountPath) {
    this.#pathOf = pathOf;
  }

  get size(): number {
    return this.#top.rows.size;
  }

  /** Puts somebody at the end of the line who cannot go now. */
  join(waiter: Waiter): Standing<Waiter> {
    const path = this.#pathOf(waiter.agentId);
    this.#count += 1;
    const standing: Standing<Waiter> = {
      number: this.#count,
      waiter,
      least: core.leastHold(waiter.ask),
      wanted: core.wantedHold(path, waiter.ask),
      rows: [],
    };
    standing.rows = this.#gatesOn(path).map((gate, index) => {
      this.#changed.add(gate);
      const needs = needsOf(standing, gate, this.#accountOf(gate));
      const isPassedOn = index === 0 ? 1 : 0;
      return { gate, row: gate.rows.append(standing, [...needs, isPassedOn, -dueAtMs(path)]) };
    });
    return standing;
  }

  /** Takes somebody out of the line. */
  leave(standing: Standing<Waiter>): void {
    for (const { gate, row } of standing.rows) {
      gate.rows.remove(row);
      if (gate.first === standing) gate.first = undefined;
      this.#changed.add(gate);
      if (gate.rows.size === 0 && gate.agentId !== undefined) this.#gates.delete(gate.agentId);
    }
  }

  /** Something was spent, held or given back on this path. */
  touch(path: core.AccountPath): void {
    if (this.size === 0) return;
    for (const { agentId } of path) {
      const gate = this.#gates.get(agentId);
      if (gate !== undefined) this.#changed.add(gate);
    }
    this.#changed.add(this.#top);
  }

  /** The limits of an account were raised: all below may want more than before. */
  raise(agentId: AgentId): void {
    const gate = this.#gates.get(agentId);
    if (gate === undefined) return;
    for (const { item } of gate.rows) this.#update(item);
  }

  /** Takes out those who can never go: something is spent that they would need at least, or their time is over. */
  takeHopeless(nowMs: number): readonly Standing<Waiter>[] {
    if (this.size === 0) return [];
    const taken: Standing<Waiter>[] = [];
    for (let one = this.#overdue(nowMs); one !== undefined; one = this.#overdue(nowMs)) {
      taken.push(one);
      this.leave(one);
    }
    for (const gate of this.#changed) {
      for (let one = this.#unfit(gate); one !== undefined; one = this.#unfit(gate)) {
        taken.push(one);
        this.leave(one);
      }
    }
    return taken;
  }

  /** Begins to give turns: claims count as they are by now (W3). */
  begin(): void {
    for (const gate of this.#passed) {
      gate.from = 0;
      this.#changed.add(gate);
    }
    this.#passed.clear();
  }

  /** Takes out the next whose turn it is; undefined: all others have to wait. What it is given must be on its account before the next is asked for. */
  takeNext(): Standing<Waiter> | undefined {
    this.#workOut();
    const next = this.#top.first;
    if (next === undefined) return undefined;
    for (const { gate, row } of next.rows) {
      gate.from = row.slot + 1;
      this.#passed.add(gate);
    }
    this.leave(next);
    return next;
  }

  /** Whether somebody in the line lacks room of an account on this path. */
  isContested(path: core.AccountPath): boolean {
    return path.some(({ agentId }) => {
      const gate = this.#gates.get(agentId);
      return gate !== undefined && this.#isLackedBefore(gate, NOBODY);
    });
  }

  /** Works out whom each gate that has changed passes on, from the bottom up. */
  #workOut(): void {
    const levels: Set<Gate<Waiter>>[] = [];
    this.#sortInto(levels);
    for (let depth = levels.length - 1; depth >= 0;) {
      const [gate] = levels[depth] ?? [];
      if (gate === undefined) {
        depth -= 1;
        continue;
      }
      levels[depth]?.delete(gate);
      const candidate = gate.rows.first(0, isAbove([0], passedOnColumn(gate)))?.item;
      const isContested = this.#isLackedBefore(gate, candidate?.number ?? NOBODY);
      passOn(gate, isContested ? undefined : candidate);
      if (this.#changed.size === 0) continue;
      // Wishes were found to be smaller by now: gates further down may let through whom they did not before.
      this.#sortInto(levels);
      depth = levels.length - 1;
    }
  }

  #sortInto(levels: Set<Gate<Waiter>>[]): void {
    for (const gate of this.#changed) {
      while (levels.length <= gate.depth) levels.push(new Set());
      levels[gate.depth]?.add(gate);
    }
    this.#changed.clear();
  }

  /** Whether somebody up to this number lacks room. */
  #isLackedBefore(gate: Gate<Waiter>, last: number): boolean {
    const { axes, rows } = gate;
    if (axes.length === 0) return false;
    const account = this.#accountOf(gate);
    const rooms = axes.map((axis) => unspent(account, axis) - (account?.reserved[axis] ?? 0));
    const lacks = isAbove(rooms, 0);
    for (let slot = gate.from; ;) {
      const found = rows.first(slot, lacks);
      if (found === undefined || found.item.number > last) return false;
      // Once it is up to date it may fit; then it is not found at this slot again.
      if (!this.#update(found.item)) return true;
      slot = found.slot;
    }
  }

  /** Works out what somebody wants as things stand; true if that has changed (W2). */
  #update(standing: Standing<Waiter>): boolean {
    const { waiter, wanted, rows } = standing;
    const now = core.wantedHold(this.#pathOf(waiter.agentId), waiter.ask);
    if (SPEND_AXES.every((axis) => now[axis] === wanted[axis])) return false;
    standing.wanted = now;
    for (const { gate, row } of rows) {
      const needs = needsOf(standing, gate, this.#accountOf(gate));
      gate.rows.changeSome(row, needs);
      this.#changed.add(gate);
    }
    return true;
  }

  /** Somebody who would need more, at least, than is unspent there. */
  #unfit(gate: Gate<Waiter>): Standing<Waiter> | undefined {
    const { axes, rows } = gate;
    if (axes.length === 0) return undefined;
    const account = this.#accountOf(gate);
    const rooms = axes.map((axis) => unspent(account, axis));
    return rows.first(0, isAbove(rooms, axes.length))?.item;
  }

  /** Deadlines only move away: who is overdue by the latest that is known is asked about anew. */
  #overdue(nowMs: number): Standing<Waiter> | undefined {
    const isDue = (numbers: Float64Array, offset: number): boolean =>
      -(numbers[offset + DUE_COLUMN] ?? -Infinity) <= nowMs;
    for (;;) {
      const found = this.#top.rows.first(0, isDue);
      if (found === undefined) return undefined;
      const atMs = dueAtMs(this.#pathOf(found.item.waiter.agentId));
      if (atMs <= nowMs) return found.item;
      this.#top.rows.changeOne(found, DUE_COLUMN, -atMs);
    }
  }

  #accountOf({ agentId }: Gate<Waiter>): Account | undefined {
    return agentId === undefined ? undefined : this.#pathOf(agentId)[0];
  }

  /** The gates above somebody with this path, the lowest first. */
  #gatesOn(path: core.AccountPath): readonly Gate<Waiter>[] {
    let above = this.#top;
    const gates = [above];
    for (const { agentId, limits } of path.toReversed()) {
      const axes = SPEND_AXES.filter((axis) => limits[axis] !== undefined);
      if (axes.length === 0) continue;
      const gate = this.#gates.get(agentId) ?? newGate(agentId, above, axes);
      this.#gates.set(agentId, gate);
      gates.unshift(gate);
      above = gate;
    }
    return gates;
  }
}

function newGate<Waiter>(
  agentId: AgentId | undefined,
  above: Gate<Waiter> | undefined,
  axes: readonly SpendAxis[],
): Gate<Waiter> {
  const depth = above === undefined ? 0 : above.depth + 1;
  const rows = new MaxTree<Standing<Waiter>>(2 * axes.length + 2);
  return { agentId, above, depth, axes, rows, from: 0, first: undefined };
}

/** Tells the gate above, if it has changed, who is the first that this one lets through (W1). */
function passOn<Waiter>(gate: Gate<Waiter>, first: Standing<Waiter> | undefined): void {
  const { above, first: before } = gate;
  if (first === before) return;
  gate.first = first;
  if (above === undefined) return;
  if (before !== undefined) mark(above, before, 0);
  if (first !== undefined) mark(above, first, 1);
}

function mark<Waiter>(gate: Gate<Waiter>, standing: Standing<Waiter>, isPassedOn: 0 | 1): void {
  const found = standing.rows.find((one) => one.gate === gate);
  if (found !== undefined) gate.rows.changeOne(found.row, passedOnColumn(gate), isPassedOn);
}

/** What has to be unspent, and unheld, at an account for somebody: what it keeps for its own agent comes on top. */
function needsOf<Waiter extends Asker>(
  { waiter, wanted, least }: Standing<Waiter>,
  { axes }: Gate<Waiter>,
  account: Account | undefined,
): readonly number[] {
  if (account === undefined) return [];
  const isOwn = account.agentId === waiter.agentId;
  return [wanted, least].flatMap((amounts) =>
    axes.map((axis) =>
      amounts[axis] === 0 ? -Infinity : amounts[axis] + core.keptOf(account, axis, isOwn),
    ),
  );
}

function isAbove(bounds: readonly number[], column: number): IsAbove {
  return (numbers, offset) =>
    bounds.some((bound, index) => (numbers[offset + column + index] ?? -Infinity) > bound);
}

function unspent(account: Account | undefined, axis: SpendAxis): number {
  return account === undefined
    ? Infinity
    : (account.limits[axis] ?? Infinity) - account.total[axis];
}

function dueAtMs(path: core.AccountPath): number {
  return core.deadlineAtMs(path) ?? Infinity;
}
