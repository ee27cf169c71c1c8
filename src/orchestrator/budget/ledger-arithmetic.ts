// The arithmetic of the ledger: pure functions over the accounts on one path, own account first, root last. Plain JSON in and out.
//
// B1. spent + reserved ≤ limit + excess, for every account and axis, after every operation. `excess` is what providers reported
//     beyond a lease; it is booked, never dropped, and closes the axis to new leases.
// B3. A charge reaches every ancestor: an account's total is its own plus its children's.
//
// Room: what is not spent of a limit. Descendants of an account must leave its reserve; the agent itself need not (X5).
//
// Time: a limit in time does not run while the account's clock stands still, so its deadline moves; a fixed deadline never does.
// Each account's clock stands by itself: the deadline of an agent is the earliest on its path, asked for anew every time.

import { invariant } from "../../kernel/assert.ts";
import type {
  BudgetRefusal,
  LastStep,
  LeaseAsk,
  Overshoot,
  Remaining,
} from "../../agent/budget-gate.ts";
import { costMicroUsd } from "../../model/model-price.ts";
import {
  SPEND_AXES,
  type Amounts,
  type SpendAxis,
  type SpendLimits,
} from "../../policies/budget.ts";
import type { Account } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { addUsage, isCountable, NO_USAGE, type Usage } from "../../protocol/usage.ts";

/** An account with its ancestors: own first, root last. */
export type AccountPath = readonly Account[];

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
export function openAccount(account: NewAccount, parent: Account | undefined): Account {
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

/** The path of a child of the agent that has no limits of its own. */
export function childPath(path: AccountPath, nowMs: number): AccountPath {
  const [parent] = path;
  invariant(parent !== undefined, "a path has at least one account");
  const { agentId, path: accountPath } = parent;
  return [openAccount({ agentId, path: accountPath, limits: {}, nowMs }, parent), ...path];
}

/** Books time in which the account's clock stood still: its limit in time ends that much later. */
export function standStill(account: Account, ms: number): Account {
  invariant(Number.isFinite(ms) && ms >= 0, "a clock stands still for a time from 0 up");
  return { ...account, stoodMs: account.stoodMs + ms };
}

/** When the agent must have ended: the earliest deadline on its path. Null: no limit in time. */
export function deadlineAtMs(path: AccountPath): number | null {
  let deadline = path[0]?.fixedDeadlineAtMs ?? null;
  for (const account of path) deadline = earlier(deadline, movingDeadlineAtMs(account));
  return deadline;
}

/** How much of its own limit in time the account has spent, as its clock has gone so far; undefined: it has none. */
export function timeSpent(
  { timeLimitMs, openedAtMs, stoodMs }: Account,
  nowMs: number,
): { readonly maximum: number; readonly spent: number } | undefined {
  if (timeLimitMs === null) return undefined;
  return { maximum: timeLimitMs, spent: nowMs - openedAtMs - stoodMs };
}

/**
 * The deadline that the agent itself has to watch: not the one that an ancestor watches for it, nor one that does not come nearer,
 * since the agent's clock has been standing still from `stillSinceMs` on.
 */
export function ownDeadlineAtMs(
  path: AccountPath,
  stillSinceMs: number | undefined,
): number | null {
  const [account, parent] = path;
  if (account === undefined) return null;
  const inherited = parent?.fixedDeadlineAtMs ?? null;
  const fixed = account.fixedDeadlineAtMs;
  const moving = movingDeadlineAtMs(account);
  const comes = moving !== null && (stillSinceMs === undefined || moving <= stillSinceMs);
  if (comes && (fixed === null || moving < fixed)) return moving;
  return fixed === inherited ? null : fixed;
}

export type ReserveOutcome =
  | { readonly type: "granted"; readonly path: AccountPath; readonly hold: Amounts }
  /** It does not fit now, but may once calls in flight settle; `blockers` are the accounts that have no room. */
  | { readonly type: "wait"; readonly blockers: readonly AgentId[] }
  /** It can never fit. */
  | { readonly type: "refused"; readonly refusal: BudgetRefusal };

/**
 * Takes a lease from the account and all its ancestors in one step. The output cap is clamped to what the tightest of them has
 * not spent; room that calls in flight hold is waited for, not clamped away.
 */
export function reserve(path: AccountPath, ask: LeaseAsk, nowMs: number): ReserveOutcome {
  const overdue = deadlineRefusal(path, nowMs);
  if (overdue !== undefined) return { type: "refused", refusal: overdue };
  const refusal = unfit(path, leastHold(ask));
  if (refusal !== undefined) return { type: "refused", refusal };
  const hold = wantedHold(path, ask);
  const blockers = path.filter((account, index) =>
    SPEND_AXES.some((axis) => hold[axis] > 0 && hold[axis] > roomNow(account, axis, index === 0)),
  );
  if (blockers.length > 0)
    return { type: "wait", blockers: blockers.map((account) => account.agentId) };
  return {
    type: "granted",
    hold,
    path: held(path, hold),
  };
}

/** The path with a hold that was found to fit. */
export function held(path: AccountPath, hold: Amounts): AccountPath {
  return path.map((account) => ({ ...account, reserved: add(account.reserved, hold) }));
}

/** What a lease for the ask holds at least: with room for the smallest reply. */
export function leastHold(ask: LeaseAsk): Amounts {
  return holdFor(ask, leastOutput(ask));
}

function leastOutput({ minOutputTokens = 1, maxOutputTokens }: LeaseAsk): number {
  return Math.max(1, Math.min(minOutputTokens, maxOutputTokens));
}

/** What a lease for the ask would hold, clamped to what the path has not spent. The least hold is known to fit. */
export function wantedHold(path: AccountPath, ask: LeaseAsk): Amounts {
  return holdFor(ask, clampOutput(path, ask));
}

/** The account whose budget of steps leaves the agent no further one, reservations taken off; undefined: there is none. */
export function lastStep(path: AccountPath): LastStep | undefined {
  const index = path.findIndex((account, at) => roomNow(account, "steps", at === 0) <= 0);
  const used = path[index];
  if (used === undefined) return undefined;
  const { limits, path: accountPath } = used;
  return {
    accountPath,
    maximum: Math.max(0, (limits.steps ?? 0) - keptOf(used, "steps", index === 0)),
  };
}

/** Books what was used and gives the rest of the hold back. */
export function settle(path: AccountPath, hold: Amounts, usage: Usage): AccountPath {
  invariant(isCountable(usage), "usage is in whole amounts from 0 up");
  const beyond = mapAxes((axis) => Math.max(0, usage[axis] - hold[axis]));
  return path.map((account, index) => ({
    ...account,
    own: index === 0 ? addUsage(account.own, usage) : account.own,
    total: addUsage(account.total, usage),
    reserved: subtract(account.reserved, hold),
    excess: add(account.excess, beyond),
  }));
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
  return add(first, second);
}

/** What is left of a hold without a part of it. */
export function parted(hold: Amounts, part: Amounts): Amounts {
  return subtract(hold, part);
}

/** Gives a hold back unused. */
export function release(path: AccountPath, hold: Amounts): AccountPath {
  return path.map((account) => ({ ...account, reserved: subtract(account.reserved, hold) }));
}

/** Books one tool call, or says which limit forbids it. */
export function chargeToolCall(path: AccountPath, nowMs: number): AccountPath | BudgetRefusal {
  const refusal = deadlineRefusal(path, nowMs) ?? unfit(path, ONE_TOOL_CALL);
  if (refusal !== undefined) return refusal;
  return withToolCall(path);
}

/** Books one tool call that was found to fit. */
export function withToolCall(path: AccountPath): AccountPath {
  return settle(held(path, ONE_TOOL_CALL), ONE_TOOL_CALL, { ...NO_USAGE, toolCalls: 1 });
}

/** The axes on which a reply may exhaust a budget: once one is, nothing that the reply asks for may start (C5). */
export const REPLY_AXES = [
  "totalTokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "costMicroUsd",
] as const;

/** The first of the axes, or the deadline, that is reached. */
export function exhausted(
  path: AccountPath,
  nowMs: number,
  axes: readonly SpendAxis[],
): BudgetRefusal | undefined {
  for (const axis of axes) {
    const at = tightest(path, axis);
    if (at !== undefined && roomAt(path, at, axis) <= 0)
      return refusalOf(path, { at, axis, asked: 0 });
  }
  return deadlineRefusal(path, nowMs);
}

/** The limits of an account that are passed, by what its replies used beyond their leases. */
export function overshoots({ path: accountPath, limits, total }: Account): readonly Overshoot[] {
  return SPEND_AXES.flatMap((axis) => {
    const [maximum, spent] = [limits[axis] ?? Infinity, total[axis]];
    return spent > maximum ? [{ axis, accountPath, maximum, spent }] : [];
  });
}

/** On each limited axis the least room on the path, reservations taken off; never below zero. */
export function remaining(path: AccountPath, nowMs: number): Remaining {
  const left: Record<string, number> = {};
  for (const axis of SPEND_AXES) {
    let least = Infinity;
    for (const [index, account] of path.entries())
      least = Math.min(least, roomNow(account, axis, index === 0));
    if (least < Infinity) left[axis] = Math.max(0, least);
  }
  const deadline = deadlineAtMs(path);
  if (deadline !== null) left["wallTimeMs"] = Math.max(0, deadline - nowMs);
  return left;
}

const ONE_TOOL_CALL: Amounts = Object.freeze({ ...NO_AMOUNTS, toolCalls: 1 });

/** The hold for a call with a given output cap. All input may turn out to be cached, or none: both are held. */
function holdFor(ask: LeaseAsk, outputTokens: number): Amounts {
  const { inputTokens, price } = ask;
  const fresh = { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
  const cached = { ...fresh, cachedInputTokens: inputTokens };
  return {
    steps: ask.steps ?? 1,
    totalTokens: inputTokens + outputTokens,
    inputTokens,
    cachedInputTokens: inputTokens,
    outputTokens,
    costMicroUsd:
      price === undefined ? 0 : Math.max(costMicroUsd(price, fresh), costMicroUsd(price, cached)),
    toolCalls: 0,
  };
}

/** The largest output cap up to the wanted one for which the path will have room. The least cap is known to fit. */
function clampOutput(path: AccountPath, ask: LeaseAsk): number {
  const least = leastOutput(ask);
  let cap = ask.maxOutputTokens;
  for (const [index, account] of path.entries()) {
    const isOwn = index === 0;
    cap = Math.min(
      cap,
      roomEver(account, "outputTokens", isOwn),
      roomEver(account, "totalTokens", isOwn) - ask.inputTokens,
    );
    const room = roomEver(account, "costMicroUsd", isOwn);
    if (ask.price === undefined || ask.price.outputUsdPerMillion === 0 || room === Infinity)
      continue;
    const { inputUsdPerMillion, cachedInputUsdPerMillion = 0 } = ask.price;
    const inputCost = ask.inputTokens * Math.max(inputUsdPerMillion, cachedInputUsdPerMillion);
    cap = Math.min(cap, Math.ceil((room - inputCost) / ask.price.outputUsdPerMillion));
    while (cap > least && holdFor(ask, cap).costMicroUsd > room) cap -= 1;
  }
  return Math.max(least, cap);
}

function unfit(path: AccountPath, hold: Amounts): BudgetRefusal | undefined {
  for (const axis of SPEND_AXES) {
    if (hold[axis] === 0) continue;
    const at = tightest(path, axis);
    if (at !== undefined && hold[axis] > roomAt(path, at, axis))
      return refusalOf(path, { at, axis, asked: hold[axis] });
  }
  return undefined;
}

/** Where on the path the least is left; undefined: nobody limits the axis. */
function tightest(path: AccountPath, axis: SpendAxis): number | undefined {
  let found: number | undefined;
  for (const [index, account] of path.entries()) {
    if (account.limits[axis] === undefined) continue;
    if (found === undefined || roomAt(path, index, axis) < roomAt(path, found, axis)) found = index;
  }
  return found;
}

/** The refusal in the name of the account that set the limit: of several with the same deadline, the one nearest to the root. */
function deadlineRefusal(path: AccountPath, nowMs: number): BudgetRefusal | undefined {
  const deadline = deadlineAtMs(path);
  if (deadline === null || nowMs < deadline) return undefined;
  const owner = path.findLast(
    (account) => movingDeadlineAtMs(account) === deadline || account.fixedDeadlineAtMs === deadline,
  );
  if (owner === undefined) return undefined;
  const { path: accountPath, openedAtMs, stoodMs, timeLimitMs } = owner;
  const refusal = { axis: "wallTimeMs", accountPath, asked: 0 } as const;
  if (timeLimitMs === null || movingDeadlineAtMs(owner) !== deadline)
    return { ...refusal, maximum: deadline - openedAtMs, spent: nowMs - openedAtMs };
  return { ...refusal, maximum: timeLimitMs, spent: nowMs - openedAtMs - stoodMs };
}

/** Where the account's limit in time ends, as its clock has gone so far. */
function movingDeadlineAtMs({ timeLimitMs, openedAtMs, stoodMs }: Account): number | null {
  return timeLimitMs === null ? null : openedAtMs + timeLimitMs + stoodMs;
}

function earlier(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}

interface Shortage {
  readonly at: number;
  readonly axis: SpendAxis;
  readonly asked: number;
}

/** The refusal in the name of the account at that place; what it keeps for its own agent is told apart from what is spent. */
function refusalOf(path: AccountPath, { at, axis, asked }: Shortage): BudgetRefusal {
  const account = path[at];
  invariant(account !== undefined, "a refusal is in the name of an account");
  const { path: accountPath, total, limits } = account;
  const [maximum, spent] = [limits[axis] ?? Infinity, total[axis]];
  const kept = Math.min(keptOf(account, axis, at === 0), Math.max(0, maximum - spent));
  return { axis, accountPath, maximum, spent, asked, ...(kept > 0 ? { kept } : {}) };
}

function roomAt(path: AccountPath, index: number, axis: SpendAxis): number {
  const account = path[index];
  return account === undefined ? Infinity : roomEver(account, axis, index === 0);
}

/** What the account keeps for its own agent (X5). */
export function keptOf({ reserve }: Account, axis: SpendAxis, isOwn: boolean): number {
  return isOwn ? 0 : (reserve[axis] ?? 0);
}

/** What is not spent: the most that can ever become free, to the agent itself or to those below it. */
function roomEver(account: Account, axis: SpendAxis, isOwn: boolean): number {
  return (account.limits[axis] ?? Infinity) - account.total[axis] - keptOf(account, axis, isOwn);
}

/** What is neither spent nor held. */
function roomNow(account: Account, axis: SpendAxis, isOwn: boolean): number {
  return roomEver(account, axis, isOwn) - account.reserved[axis];
}

function add(left: Amounts, right: Amounts): Amounts {
  return mapAxes((axis) => left[axis] + right[axis]);
}

function subtract(left: Amounts, right: Amounts): Amounts {
  return mapAxes((axis) => left[axis] - right[axis]);
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
