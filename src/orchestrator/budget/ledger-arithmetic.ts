// The arithmetic of the ledger: functions over an account and those above it. Nothing here moves a figure, and the clock is read only where
// time is limited.
//
// B1. spent + reserved ≤ limit + excess, for every account and axis, after every operation. `excess` is what providers reported
//     beyond a lease; it is booked, never dropped, and closes the axis to new leases.
//
// Room: what is not spent of a limit. Descendants of an account must leave its reserve; the agent itself need not (X5).
//
// Time: a limit in time does not run while the account's clock stands still, so its deadline moves; a fixed deadline never does.
// Each account's clock stands by itself: the deadline of an agent is the earliest on its path, asked for anew every time.

import type {
  BudgetRefusal,
  LastStep,
  LeaseAsk,
  Overshoot,
  Remaining,
} from "../../agent/budget-gate.ts";
import type { Clock } from "../../kernel/clock.ts";
import { costMicroUsd, type ModelPrice } from "../../model/model-price.ts";
import {
  SPEND_AXES,
  type Amounts,
  type SpendAxis,
  type SpendLimits,
} from "../../policies/budget.ts";
import type { Account } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { NO_USAGE, type Usage } from "../../protocol/usage.ts";

/** An account and those above it, as the arithmetic reads them. */
export interface AccountFigures extends Pick<
  Account,
  | "agentId"
  | "path"
  | "limits"
  | "total"
  | "reserved"
  | "fixedDeadlineAtMs"
  | "timeLimitMs"
  | "openedAtMs"
> {
  readonly parent: AccountFigures | undefined;
  /** What it keeps of its limits for its own agent. */
  readonly ownReserve: SpendLimits;
  /** Axes that are limited on its path. A grant raises limits, and adds none. */
  readonly axes: readonly SpendAxis[];
  /** The nearest account, from itself up, that limits an axis itself. */
  readonly limiting: AccountFigures | undefined;
  /** A limit in time, or a fixed deadline, stands on its path. */
  readonly isTimed: boolean;
  /** For how long its clock has stood still by then. */
  stoodMsAt(nowMs: number): number;
}

/** Who asks: the agent of an account, which need not leave its reserve; null: a new child of it, which must. */
type Asker = AccountFigures | null;
type Now = Pick<Clock, "nowMs">;
/** A place on a path; undefined: above the root. */
type Place = AccountFigures | undefined;

export interface RemainingFor {
  /** Default: the account's own agent. */
  readonly asker?: Asker;
  /** A hold that does not count. Default: none. */
  readonly returned?: Amounts;
}

export const NO_AMOUNTS: Amounts = Object.freeze({
  steps: 0,
  totalTokens: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  costMicroUsd: 0,
  toolCalls: 0,
});

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
  return {
    agentId: account.agentId,
    parentId: parent?.agentId ?? null,
    path: account.path,
    limits: account.limits,
    reserve: account.reserve ?? {},
    grants: [],
    fixedDeadlineAtMs: earlier(account.deadlineAtMs ?? null, parent?.fixedDeadlineAtMs ?? null),
    timeLimitMs: account.wallTimeMs ?? null,
    openedAtMs: account.nowMs,
    stoodMs: 0,
    own: NO_USAGE,
    total: NO_USAGE,
    reserved: NO_AMOUNTS,
    excess: NO_AMOUNTS,
  };
}

/** When the agent must have ended: the earliest deadline on its path. Null: no limit in time. */
export function deadlineAtMs(account: AccountFigures, nowMs: number): number | null {
  let deadline = account.fixedDeadlineAtMs;
  for (let at: Place = account; at !== undefined; at = at.parent)
    deadline = earlier(deadline, movingDeadlineAtMs(at, nowMs));
  return deadline;
}

/** How much of its own limit in time the account has spent, as its clock has gone so far; undefined: it has none. */
export function timeSpent(
  account: AccountFigures,
  nowMs: number,
): { readonly maximum: number; readonly spent: number } | undefined {
  const { timeLimitMs: maximum, openedAtMs } = account;
  if (maximum === null) return undefined;
  return { maximum, spent: nowMs - openedAtMs - account.stoodMsAt(nowMs) };
}

/**
 * The deadline that the agent itself has to watch: not the one that an ancestor watches for it, nor one that does not come nearer, since
 * the agent's clock stands still.
 */
export function ownDeadlineAtMs(
  account: AccountFigures & { readonly standsStill: boolean },
  nowMs: number,
): number | null {
  const { fixedDeadlineAtMs: fixed, parent, standsStill } = account;
  const moving = movingDeadlineAtMs(account, nowMs);
  const comes = moving !== null && (!standsStill || moving <= nowMs);
  if (comes && (fixed === null || moving < fixed)) return moving;
  return fixed === (parent?.fixedDeadlineAtMs ?? null) ? null : fixed;
}

export type ReserveOutcome =
  | { readonly type: "granted"; readonly hold: Amounts }
  /** It does not fit now, but may once calls in flight settle. */
  | { readonly type: "wait" }
  /** It can never fit. */
  | { readonly type: "refused"; readonly refusal: BudgetRefusal };

const WAIT: ReserveOutcome = Object.freeze({ type: "wait" });

/**
 * What comes of an ask for a lease from the account and all above it. The output cap is clamped to what the tightest of them has not
 * spent; room that calls in flight hold is waited for, not clamped away.
 */
export function reserve(account: AccountFigures, ask: LeaseAsk, clock: Now): ReserveOutcome {
  const overdue = account.isTimed ? deadlineRefusal(account, clock.nowMs()) : undefined;
  if (overdue !== undefined) return { type: "refused", refusal: overdue };
  const whole = holdFor(ask, Math.max(1, ask.maxOutputTokens));
  if (fitsNow(account, whole)) return { type: "granted", hold: whole };
  const refusal = unfit(account, leastHold(ask));
  if (refusal !== undefined) return { type: "refused", refusal };
  const hold = wantedHold(account, ask);
  return fitsNow(account, hold) ? { type: "granted", hold } : WAIT;
}

function fitsNow(account: AccountFigures, hold: Amounts): boolean {
  for (const axis of account.axes)
    if (hold[axis] > 0 && hold[axis] > leastRoomNow(account, axis, account)) return false;
  return true;
}

/** What a lease for the ask holds at least: with room for the smallest reply. */
export function leastHold(ask: LeaseAsk): Amounts {
  return holdFor(ask, leastOutput(ask));
}

function leastOutput({ minOutputTokens = 1, maxOutputTokens }: LeaseAsk): number {
  return Math.max(1, Math.min(minOutputTokens, maxOutputTokens));
}

/** What a lease for the ask would hold, clamped to what the path has not spent. The least hold must fit. */
export function wantedHold(account: AccountFigures, ask: LeaseAsk): Amounts {
  return holdFor(ask, clampOutput(account, ask));
}

/** The account whose budget of steps leaves the agent no further one, reservations taken off; undefined: there is none. */
export function lastStep(account: AccountFigures): LastStep | undefined {
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    const { path: accountPath, limits, reserved } = at;
    const { steps } = limits;
    if (steps === undefined || roomEver(at, "steps", account) > reserved.steps) continue;
    return { accountPath, maximum: Math.max(0, steps - keptOf(at, "steps", account)) };
  }
  return undefined;
}

/** What was used beyond the hold; undefined: nothing. */
export function beyond(hold: Amounts, usage: Usage): Amounts | undefined {
  for (const axis of SPEND_AXES)
    if (usage[axis] > hold[axis]) return mapAxes((one) => Math.max(0, usage[one] - hold[one]));
  return undefined;
}

/** What a call is charged whose reported usage cannot be booked: all that its lease holds. */
export function usageOfHold(hold: Amounts, { unpricedCalls }: Usage): Usage {
  const { toolCalls: _none, ...amounts } = hold;
  return {
    ...NO_USAGE,
    ...amounts,
    cachedInputTokens: 0,
    modelCalls: 1,
    unpricedCalls,
    estimatedCalls: 1,
  };
}

/** One hold that covers two. */
export function joined(first: Amounts, second: Amounts): Amounts {
  return mapAxes((axis) => first[axis] + second[axis]);
}

/** What is left of a hold without a part of it. */
export function parted(hold: Amounts, part: Amounts): Amounts {
  return mapAxes((axis) => hold[axis] - part[axis]);
}

/** The limit that forbids one more tool call. */
export function toolCallRefusal(account: AccountFigures, clock: Now): BudgetRefusal | undefined {
  const overdue = account.isTimed ? deadlineRefusal(account, clock.nowMs()) : undefined;
  return overdue ?? unfit(account, ONE_TOOL_CALL);
}

/** The axes on which a reply may exhaust a budget: once one is, nothing that the reply asks for may start (C5). */
export const REPLY_AXES = [
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costMicroUsd",
] as const;

/** The first of the axes, or the deadline, that is reached for the one who asks. */
export function exhausted(
  account: AccountFigures,
  clock: Now,
  axes: readonly SpendAxis[] = REPLY_AXES,
  asker: Asker = account,
): BudgetRefusal | undefined {
  for (const axis of axes) {
    const at = account.axes.includes(axis) ? tightest(account, axis, asker) : undefined;
    if (at !== undefined && roomEver(at, axis, asker) <= 0)
      return refusalOf(at, { axis, asked: 0, asker });
  }
  return account.isTimed ? deadlineRefusal(account, clock.nowMs()) : undefined;
}

/** The limits of an account that are passed, by what its replies used beyond their leases. */
export function overshoots({
  path: accountPath,
  axes,
  limits,
  total,
}: AccountFigures): readonly Overshoot[] {
  const passed: Overshoot[] = [];
  for (const axis of axes) {
    const [maximum, spent] = [limits[axis] ?? Infinity, total[axis]];
    if (spent > maximum) passed.push({ axis, accountPath, maximum, spent });
  }
  return passed;
}

const UNLIMITED: Remaining = Object.freeze({});

/** On each limited axis the least room on the path, reservations taken off; never below zero. */
export function remaining(
  account: AccountFigures,
  clock: Now,
  { asker = account, returned = NO_AMOUNTS }: RemainingFor = {},
): Remaining {
  const { axes, isTimed } = account;
  if (axes.length === 0 && !isTimed) return UNLIMITED;
  const left: Record<string, number> = {};
  for (const axis of axes)
    left[axis] = Math.max(0, leastRoomNow(account, axis, asker) + returned[axis]);
  if (isTimed) left["wallTimeMs"] = timeLeft(account, clock.nowMs());
  return left;
}

function timeLeft(account: AccountFigures, nowMs: number): number {
  return Math.max(0, (deadlineAtMs(account, nowMs) ?? Infinity) - nowMs);
}

const ONE_TOOL_CALL: Amounts = Object.freeze({ ...NO_AMOUNTS, toolCalls: 1 });

/** The hold for a call with a given output cap. All input may turn out to be cached, or none: both are held. */
function holdFor(ask: LeaseAsk, outputTokens: number): Amounts {
  const { inputTokens, price } = ask;
  return {
    steps: ask.steps ?? 1,
    totalTokens: inputTokens + outputTokens,
    inputTokens,
    cachedInputTokens: inputTokens,
    outputTokens,
    costMicroUsd: price === undefined ? 0 : dearestCost(price, inputTokens, outputTokens),
    toolCalls: 0,
  };
}

function dearestCost(price: ModelPrice, inputTokens: number, outputTokens: number): number {
  const fresh = { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
  const cached = { ...fresh, cachedInputTokens: inputTokens };
  return Math.max(costMicroUsd(price, fresh), costMicroUsd(price, cached));
}

/** The largest output cap up to the wanted one for which the path will have room. The least cap is known to fit. */
function clampOutput(account: AccountFigures, ask: LeaseAsk): number {
  const least = leastOutput(ask);
  let cap = ask.maxOutputTokens;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    cap = Math.min(
      cap,
      roomEver(at, "outputTokens", account),
      roomEver(at, "totalTokens", account) - ask.inputTokens,
    );
    if (at.limits.costMicroUsd !== undefined && ask.price !== undefined)
      cap = payable(ask, ask.price, { cap, least, room: roomEver(at, "costMicroUsd", account) });
  }
  return Math.max(least, cap);
}

/** The largest cap down to the least one that the room can pay. */
function payable(
  ask: LeaseAsk,
  price: ModelPrice,
  {
    cap: wanted,
    least,
    room,
  }: { readonly cap: number; readonly least: number; readonly room: number },
): number {
  const { inputUsdPerMillion, cachedInputUsdPerMillion = 0, outputUsdPerMillion } = price;
  if (outputUsdPerMillion === 0) return wanted;
  const inputCost = ask.inputTokens * Math.max(inputUsdPerMillion, cachedInputUsdPerMillion);
  let cap = Math.min(wanted, Math.ceil((room - inputCost) / outputUsdPerMillion));
  while (cap > least && dearestCost(price, ask.inputTokens, cap) > room) cap -= 1;
  return cap;
}

function unfit(account: AccountFigures, hold: Amounts): BudgetRefusal | undefined {
  for (const axis of account.axes) {
    const asked = hold[axis];
    const at = asked === 0 ? undefined : tightest(account, axis, account);
    if (at !== undefined && asked > roomEver(at, axis, account))
      return refusalOf(at, { axis, asked, asker: account });
  }
  return undefined;
}

/** Where on the path the least is left of an axis; undefined: nothing limits it. */
function tightest(account: AccountFigures, axis: SpendAxis, asker: Asker): Place {
  let found: Place;
  let least = Infinity;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting) {
    const room = roomEver(at, axis, asker);
    if (room < least) [found, least] = [at, room];
  }
  return found;
}

/** The refusal in the name of the account that set the limit: of several with the same deadline, the one nearest to the root. */
function deadlineRefusal(account: AccountFigures, nowMs: number): BudgetRefusal | undefined {
  const deadline = deadlineAtMs(account, nowMs);
  if (deadline === null || nowMs < deadline) return undefined;
  let owner = account;
  for (let at: Place = account; at !== undefined; at = at.parent)
    if (movingDeadlineAtMs(at, nowMs) === deadline || at.fixedDeadlineAtMs === deadline) owner = at;
  const refusal = { axis: "wallTimeMs", accountPath: owner.path, asked: 0 } as const;
  const { openedAtMs } = owner;
  if (movingDeadlineAtMs(owner, nowMs) !== deadline)
    return { ...refusal, maximum: deadline - openedAtMs, spent: nowMs - openedAtMs };
  const { maximum = 0, spent = 0 } = timeSpent(owner, nowMs) ?? {};
  return { ...refusal, maximum, spent };
}

/** Where the account's limit in time ends, as its clock has gone so far. */
function movingDeadlineAtMs(account: AccountFigures, nowMs: number): number | null {
  const { timeLimitMs, openedAtMs } = account;
  return timeLimitMs === null ? null : openedAtMs + timeLimitMs + account.stoodMsAt(nowMs);
}

function earlier(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}

interface Shortage {
  readonly axis: SpendAxis;
  readonly asked: number;
  readonly asker: Asker;
}

/** The refusal in the name of an account; what it keeps for its own agent is told apart from what is spent. */
function refusalOf(at: AccountFigures, { axis, asked, asker }: Shortage): BudgetRefusal {
  const { path: accountPath, total, limits } = at;
  const [maximum, spent] = [limits[axis] ?? Infinity, total[axis]];
  const kept = Math.min(keptOf(at, axis, asker), Math.max(0, maximum - spent));
  return { axis, accountPath, maximum, spent, asked, ...(kept > 0 ? { kept } : {}) };
}

/** What the account keeps for its own agent (X5). */
export function keptOf(at: AccountFigures, axis: SpendAxis, asker: Asker): number {
  return at === asker ? 0 : (at.ownReserve[axis] ?? 0);
}

/** What is not spent: the most that can ever become free to the one who asks. Infinity: the account does not limit the axis. */
function roomEver(at: AccountFigures, axis: SpendAxis, asker: Asker): number {
  const limit = at.limits[axis];
  if (limit === undefined) return Infinity;
  const room = limit - at.total[axis];
  return at === asker ? room : room - (at.ownReserve[axis] ?? 0);
}

/** The least on the path of what is neither spent nor held. */
function leastRoomNow(account: AccountFigures, axis: SpendAxis, asker: Asker): number {
  let least = Infinity;
  for (let at = account.limiting; at !== undefined; at = at.parent?.limiting)
    least = Math.min(least, roomEver(at, axis, asker) - at.reserved[axis]);
  return least;
}

function mapAxes(amount: (axis: SpendAxis) => number): Amounts {
  return {
    steps: amount("steps"),
    totalTokens: amount("totalTokens"),
    inputTokens: amount("inputTokens"),
    cachedInputTokens: amount("cachedInputTokens"),
    outputTokens: amount("outputTokens"),
    costMicroUsd: amount("costMicroUsd"),
    toolCalls: amount("toolCalls"),
  };
}
