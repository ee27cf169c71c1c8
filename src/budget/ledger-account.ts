// LedgerAccount: the figures of one account, with the account above it. Moved in place, by the files of this folder alone, and only along
// the path. A journal that is read has such accounts, too, without a ledger.
//
// B3. A charge reaches every ancestor: an account's total is its own plus its children's.

import type { Overshoot } from "./lease.ts";
import { invariant } from "../kernel/assert.ts";
import { shared } from "../kernel/shared.ts";
import { NO_AMOUNTS, type Amounts, type SpendLimits } from "../policies/budget.ts";
import {
  SPEND_AXES,
  type Account,
  type AccountGrant,
  type SpendAxis,
} from "../protocol/account.ts";
import type { AgentId } from "../protocol/ids.ts";
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

/** The asker: the agent of an account, which need not leave its reserve; null: a new child of it, which must. */
export type Asker = LedgerAccount | null;

type Sums = Record<SpendAxis, number>;

const NO_GRANTS: readonly AccountGrant[] = Object.freeze([]);
const NO_MODELS: readonly ModelUsage[] = Object.freeze([]);
const NO_AXES: readonly SpendAxis[] = Object.freeze([]);

export const ONE_TOOL_CALL: Usage = Object.freeze({ ...NO_USAGE, toolCalls: 1 });

export class LedgerAccount {
  readonly agentId: AgentId;
  readonly path: string;
  readonly parent: LedgerAccount | undefined;
  /** Axes that are limited on its path. A grant raises limits, and adds none. */
  readonly axes: readonly SpendAxis[];
  /** The nearest account, from itself up, that limits an axis itself. */
  readonly limiting: LedgerAccount | undefined;
  /** Of the whole run. */
  readonly root: LedgerAccount;
  /** A limit in time, or a fixed deadline, stands on its path. */
  readonly isTimed: boolean;
  /** What it keeps of its limits for its own agent. */
  readonly ownReserve: SpendLimits;
  readonly fixedDeadlineAtMs: number | null;
  readonly openedAtMs: number;
  own: Usage;
  /** The same value as `own` until something below the account is booked. */
  total: Usage;
  readonly reserved: Sums;
  readonly limits: Partial<Sums>;
  /** Of its own. A grant raises it. */
  timeLimitMs: number | null;
  /** The oldest first. */
  grants: readonly AccountGrant[];
  readonly grantsBefore: readonly AccountGrant[] | undefined;
  /** Seldom anything, so these are values that are replaced. */
  excess: Amounts;
  otherModels: readonly ModelUsage[];
  /** For how long its clock had stood still when it ran last. */
  stoodBeforeMs: number;
  /** Since when its clock stands still; undefined: it runs. */
  standsSinceMs: number | undefined;
  /** What was used, as it was asked for last; undefined: more has been booked since. */
  #usage: UsageReport | undefined;

  constructor(account: Account, parent: LedgerAccount | undefined) {
    const { limits, timeLimitMs, fixedDeadlineAtMs } = account;
    this.agentId = account.agentId;
    this.path = account.path;
    this.parent = parent;
    this.root = parent?.root ?? this;
    const above = parent?.axes ?? NO_AXES;
    const isLimiting = Object.keys(limits).length > 0;
    this.axes = isLimiting ? limitedAxes(limits, above) : above;
    this.limiting = isLimiting ? this : parent?.limiting;
    this.isTimed = timeLimitMs !== null || fixedDeadlineAtMs !== null || parent?.isTimed === true;
    this.ownReserve = account.reserve;
    this.fixedDeadlineAtMs = fixedDeadlineAtMs;
    this.openedAtMs = account.openedAtMs;
    this.own = toUsage(account.own);
    this.total = account.total === account.own ? this.own : toUsage(account.total);
    this.reserved = { ...account.reserved };
    this.limits = { ...limits };
    this.timeLimitMs = timeLimitMs;
    this.grants = account.grants;
    this.grantsBefore = account.grantsBefore;
    this.excess = account.excess;
    this.otherModels = account.otherModels ?? NO_MODELS;
    this.stoodBeforeMs = account.stoodMs;
  }

  /** What it keeps of an axis from others than its own agent (X5). */
  keptFrom(asker: Asker, axis: SpendAxis): number {
    return asker === this ? 0 : (this.ownReserve[axis] ?? 0);
  }

  /** Returns the amount spent on an axis by the agent and its descendants. */
  spentOf(axis: SpendAxis): number {
    return this.total[axis] ?? 0;
  }

  /** What is not spent: the most that can ever become free to the asker. Infinity: it does not limit the axis. */
  roomFor(asker: Asker, axis: SpendAxis): number {
    const limit = this.limits[axis];
    if (limit === undefined) return Infinity;
    const room = limit - (this.total[axis] ?? 0);
    return asker === this ? room : room - (this.ownReserve[axis] ?? 0);
  }

  /** Where on the path the least is left of an axis; undefined: nothing limits it. */
  tightest(asker: Asker, axis: SpendAxis): LedgerAccount | undefined {
    let found: LedgerAccount | undefined;
    let least = Infinity;
    for (let at = this.limiting; at !== undefined; at = at.parent?.limiting) {
      const room = at.roomFor(asker, axis);
      if (room < least) [found, least] = [at, room];
    }
    return found;
  }

  /** For how long its clock has stood still by then. */
  stoodMsAt(nowMs: number): number {
    const { stoodBeforeMs, standsSinceMs } = this;
    return standsSinceMs === undefined
      ? stoodBeforeMs
      : stoodBeforeMs + Math.max(0, nowMs - standsSinceMs);
  }

  /** Its clock runs, having stood still for so long in all. */
  runAfter(stoodMs: number): void {
    this.standsSinceMs = undefined;
    this.stoodBeforeMs = stoodMs;
  }

  /** The limits that are passed, by what replies used beyond their leases. */
  overshoots(): readonly Overshoot[] {
    const { path: accountPath, axes, limits, total } = this;
    const passed: Overshoot[] = [];
    for (const axis of axes) {
      const [maximum, spent] = [limits[axis] ?? Infinity, total[axis] ?? 0];
      if (spent > maximum) passed.push({ axis, accountPath, maximum, spent });
    }
    return passed;
  }

  /** Takes a hold that was found to fit. */
  hold(amounts: Amounts): void {
    for (let at: LedgerAccount | undefined = this; at !== undefined; at = at.parent)
      add(at.reserved, amounts, 1);
  }

  /** Gives a hold back unused. */
  giveBack(amounts: Amounts): void {
    for (let at: LedgerAccount | undefined = this; at !== undefined; at = at.parent)
      add(at.reserved, amounts, -1);
  }

  /** Books what was used and gives the rest of the hold back. */
  book(hold: Amounts, usage: Usage): void {
    invariant(isCountable(usage), "usage is in whole amounts from 0 up");
    const excess = beyond(hold, usage);
    this.#bookUsage(usage);
    for (let at: LedgerAccount | undefined = this; at !== undefined; at = at.parent) {
      add(at.reserved, hold, -1);
      if (excess !== undefined) at.excess = addHolds(at.excess, excess);
    }
  }

  /** Says which part of what was booked is of other models than the agent's first. */
  bookModels(used: readonly ModelUsage[]): void {
    this.otherModels = addModelUsage(this.otherModels, used);
  }

  /** Books one tool call that was found to fit. */
  bookToolCall(): void {
    this.#bookUsage(ONE_TOOL_CALL);
  }

  #bookUsage(usage: Usage): void {
    const { own, total } = this;
    this.own = addUsage(own, usage);
    this.total = total === own ? this.own : addUsage(total, usage);
    this.#usage = undefined;
    for (let at = this.parent; at !== undefined; at = at.parent) {
      at.total = addUsage(at.total, usage);
      at.#usage = undefined;
    }
  }

  /** What was used, as plain values, which are never written to. One without subagents has one value for all that it used. */
  usage(): UsageReport {
    const { own, total } = this;
    const descendants = total === own ? NO_USAGE : subtractUsage(total, own);
    return (this.#usage ??= shared({ own, descendants, total }));
  }

  /** The account as it is stored, as it stands by then. */
  snapshotAt(nowMs: number): Account {
    const { own, total } = this.usage();
    return shared({
      agentId: this.agentId,
      parentId: this.parent?.agentId ?? null,
      path: this.path,
      limits: { ...this.limits },
      reserve: this.ownReserve,
      grants: this.grants,
      ...(this.grantsBefore === undefined ? {} : { grantsBefore: this.grantsBefore }),
      fixedDeadlineAtMs: this.fixedDeadlineAtMs,
      timeLimitMs: this.timeLimitMs,
      openedAtMs: this.openedAtMs,
      stoodMs: this.stoodMsAt(nowMs),
      own,
      ...(this.otherModels.length === 0 ? {} : { otherModels: this.otherModels }),
      total,
      reserved: { ...this.reserved },
      excess: this.excess,
    });
  }
}

function limitedAxes(limits: SpendLimits, above: readonly SpendAxis[]): readonly SpendAxis[] {
  const axes: SpendAxis[] = [];
  for (const axis of SPEND_AXES)
    if (limits[axis] !== undefined || above.includes(axis)) axes.push(axis);
  return axes;
}

function add(sums: Sums, amounts: Amounts, sign: 1 | -1): void {
  for (const axis of SPEND_AXES) sums[axis] += sign * amounts[axis];
}

export interface NewAccount {
  readonly agentId: AgentId;
  readonly path: string;
  readonly limits: SpendLimits;
  /** What descendants must leave of the limits. Default: nothing. */
  readonly reserve?: SpendLimits | undefined;
  /** Limit in time from now on; time in which the account's clock stands still does not count. */
  readonly wallTimeMs?: number | undefined;
  /** A point in time that is never moved. The earlier of the two holds. */
  readonly deadlineAtMs?: number | undefined;
  readonly nowMs: number;
}

/** Opens an account below `parent`. A fixed deadline can only be tightened on the way down. */
export function openAccount(
  account: NewAccount,
  parent: Pick<Account, "agentId" | "fixedDeadlineAtMs"> | undefined,
): Account {
  const { deadlineAtMs = Infinity } = account;
  const fixedDeadlineAtMs = Math.min(deadlineAtMs, parent?.fixedDeadlineAtMs ?? Infinity);
  return {
    agentId: account.agentId,
    parentId: parent?.agentId ?? null,
    path: account.path,
    limits: account.limits,
    reserve: account.reserve ?? {},
    grants: NO_GRANTS,
    fixedDeadlineAtMs: fixedDeadlineAtMs === Infinity ? null : fixedDeadlineAtMs,
    timeLimitMs: account.wallTimeMs ?? null,
    openedAtMs: account.nowMs,
    stoodMs: 0,
    own: NO_USAGE,
    total: NO_USAGE,
    reserved: NO_AMOUNTS,
    excess: NO_AMOUNTS,
  };
}

/** What was used beyond the hold; undefined: nothing. */
function beyond(hold: Amounts, usage: Usage): Amounts | undefined {
  for (const axis of SPEND_AXES)
    if ((usage[axis] ?? 0) > hold[axis])
      return mapAxes((one) => Math.max(0, (usage[one] ?? 0) - hold[one]));
  return undefined;
}

/** Returns one hold that covers two. */
export function addHolds(first: Amounts, second: Amounts): Amounts {
  return mapAxes((axis) => first[axis] + second[axis]);
}

/** Returns a hold without a part of it. */
export function subtractHold(hold: Amounts, part: Amounts): Amounts {
  return mapAxes((axis) => hold[axis] - part[axis]);
}

function mapAxes(amount: (axis: SpendAxis) => number): Amounts {
  const amounts: Sums = { ...NO_AMOUNTS };
  for (const axis of SPEND_AXES) amounts[axis] = amount(axis);
  return amounts;
}
