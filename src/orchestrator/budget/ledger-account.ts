// LedgerAccount: the figures of one account, with the account above it. Owns them: only this moves them, in place, and only along the path.
//
// B3. A charge reaches every ancestor: an account's total is its own plus its children's.

import { invariant } from "../../kernel/assert.ts";
import { shared } from "../../kernel/shared.ts";
import {
  SPEND_AXES,
  type Amounts,
  type SpendAxis,
  type SpendLimits,
} from "../../policies/budget.ts";
import type { Account, AccountGrant } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { isCountable, type Usage } from "../../protocol/usage.ts";
import { beyond, joined, type AccountFigures } from "./ledger-arithmetic.ts";

/** What a grant changes of an account. */
export type RaisedLimits = Pick<Account, "limits" | "timeLimitMs" | "grants">;

type Sums = Record<SpendAxis, number>;

const NO_AXES: readonly SpendAxis[] = Object.freeze([]);

export class LedgerAccount implements AccountFigures {
  readonly agentId: AgentId;
  readonly path: string;
  readonly parent: LedgerAccount | undefined;
  readonly axes: readonly SpendAxis[];
  readonly limiting: LedgerAccount | undefined;
  /** Of the whole run. */
  readonly root: LedgerAccount;
  readonly isTimed: boolean;
  readonly ownReserve: SpendLimits;
  readonly fixedDeadlineAtMs: number | null;
  readonly openedAtMs: number;
  readonly own: Usage;
  readonly total: Usage;
  readonly reserved: Sums;
  readonly limits: Partial<Sums>;
  #timeLimitMs: number | null;
  #grants: readonly AccountGrant[];
  /** Seldom anything, so it is a value that is replaced. */
  #excess: Amounts;
  #stoodMs: number;
  /** Since when its clock stands still; undefined: it runs. */
  #standsSinceMs: number | undefined;

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
    this.own = { ...account.own };
    this.total = { ...account.total };
    this.reserved = { ...account.reserved };
    this.limits = { ...limits };
    this.#timeLimitMs = timeLimitMs;
    this.#grants = account.grants;
    this.#excess = account.excess;
    this.#stoodMs = account.stoodMs;
  }

  get timeLimitMs(): number | null {
    return this.#timeLimitMs;
  }

  /** The oldest first. */
  get grants(): readonly AccountGrant[] {
    return this.#grants;
  }

  /** For how long its clock has stood still by then. */
  stoodMsAt(nowMs: number): number {
    const sinceMs = this.#standsSinceMs;
    return sinceMs === undefined ? this.#stoodMs : this.#stoodMs + Math.max(0, nowMs - sinceMs);
  }

  get standsStill(): boolean {
    return this.#standsSinceMs !== undefined;
  }

  /** Takes a hold that was found to fit. */
  hold(amounts: Amounts): void {
    add(this.reserved, amounts, 1);
    for (let at = this.parent; at !== undefined; at = at.parent) add(at.reserved, amounts, 1);
  }

  /** Gives a hold back unused. */
  giveBack(amounts: Amounts): void {
    add(this.reserved, amounts, -1);
    for (let at = this.parent; at !== undefined; at = at.parent) add(at.reserved, amounts, -1);
  }

  /** Books what was used and gives the rest of the hold back. */
  book(amounts: Amounts, usage: Usage): void {
    invariant(isCountable(usage), "usage is in whole amounts from 0 up");
    const excess = beyond(amounts, usage);
    addUsed(this.own, usage);
    this.#take(amounts, usage, excess);
    for (let at = this.parent; at !== undefined; at = at.parent) at.#take(amounts, usage, excess);
  }

  #take(amounts: Amounts, usage: Usage, excess: Amounts | undefined): void {
    addUsed(this.total, usage);
    add(this.reserved, amounts, -1);
    if (excess !== undefined) this.#excess = joined(this.#excess, excess);
  }

  /** Books one tool call that was found to fit. */
  bookToolCall(): void {
    this.own.toolCalls += 1;
    this.total.toolCalls += 1;
    for (let at = this.parent; at !== undefined; at = at.parent) at.total.toolCalls += 1;
  }

  /** Its clock stands still from then on. */
  standFrom(atMs: number): void {
    this.#standsSinceMs = atMs;
  }

  /** Its clock runs, having stood still for so long in all. */
  stood(stoodMs: number): void {
    this.#standsSinceMs = undefined;
    this.#stoodMs = stoodMs;
  }

  raise({ limits, timeLimitMs, grants }: RaisedLimits): void {
    Object.assign(this.limits, limits);
    this.#timeLimitMs = timeLimitMs;
    this.#grants = grants;
  }

  /** The account as it is stored, as it stands by then. */
  snapshotAt(nowMs: number): Account {
    return shared({
      agentId: this.agentId,
      parentId: this.parent?.agentId ?? null,
      path: this.path,
      limits: { ...this.limits },
      reserve: this.ownReserve,
      grants: this.#grants,
      fixedDeadlineAtMs: this.fixedDeadlineAtMs,
      timeLimitMs: this.#timeLimitMs,
      openedAtMs: this.openedAtMs,
      stoodMs: this.stoodMsAt(nowMs),
      own: { ...this.own },
      total: { ...this.total },
      reserved: { ...this.reserved },
      excess: this.#excess,
    });
  }
}

function limitedAxes(limits: SpendLimits, above: readonly SpendAxis[]): readonly SpendAxis[] {
  return SPEND_AXES.filter((axis) => limits[axis] !== undefined || above.includes(axis));
}

function add(sums: Sums, amounts: Amounts, sign: 1 | -1): void {
  sums.steps += sign * amounts.steps;
  sums.totalTokens += sign * amounts.totalTokens;
  sums.inputTokens += sign * amounts.inputTokens;
  sums.cachedInputTokens += sign * amounts.cachedInputTokens;
  sums.outputTokens += sign * amounts.outputTokens;
  sums.costMicroUsd += sign * amounts.costMicroUsd;
  sums.toolCalls += sign * amounts.toolCalls;
}

function addUsed(sums: Usage, usage: Usage): void {
  sums.modelCalls += usage.modelCalls;
  sums.steps += usage.steps;
  sums.toolCalls += usage.toolCalls;
  sums.inputTokens += usage.inputTokens;
  sums.cachedInputTokens += usage.cachedInputTokens;
  sums.outputTokens += usage.outputTokens;
  sums.reasoningTokens += usage.reasoningTokens;
  sums.totalTokens += usage.totalTokens;
  sums.costMicroUsd += usage.costMicroUsd;
  sums.unpricedCalls += usage.unpricedCalls;
  sums.estimatedCalls += usage.estimatedCalls;
}
