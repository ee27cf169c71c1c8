// AgentTime: runs an agent's clock and ends the agent at its deadline. Owns the timer of the
// deadline. The ledger keeps the account.
//
// - The clock is paused exactly while the agent, or an agent below it, has a reason (`holdClock`),
//   and all agents of that subtree have no effect in progress. Meanwhile an agent that works uses
//   its own time and that of its ancestors, but not the time of an agent that waits for an answer.
// - Only a relative time limit pauses. An absolute deadline is watched all the time.
//
// The timer also fires when the next threshold of the agent's own time limit is due.

import type { Clock } from "../kernel/clock.ts";
import { findNextThreshold } from "../policies/budget.ts";
import type { BudgetAccount } from "../budget/budget-account.ts";

/** The properties of an agent that this file needs. */
export interface TimedAgent {
  readonly run: { readonly clock: Clock };
  readonly account: BudgetAccount;
  readonly parent: { readonly time: AgentTime | undefined } | undefined;
  /** Number of the agent's own effects in progress. */
  readonly effectCount: number;
  /** Called once, when the agent's own limit is reached. Ancestors watch their own limits. */
  onDeadline(deadlineAtMs: number): void;
}

export class AgentTime {
  readonly #agent: TimedAgent;
  /**
   * The time of the parent that started this execution. A continued parent has not begun the work
   * that is counted here.
   */
  readonly #parent: AgentTime | undefined;
  /** True if no ancestor watches the inherited deadlines. */
  #watchesAncestors = false;
  /** Effects in progress, and reasons to pause the clock, in the whole subtree. */
  #work = 0;
  #holds = 0;
  #isPaused = false;
  #isOverdue = false;
  #isClosed = false;
  #armedForMs: number | null = null;
  /**
   * Milliseconds of the agent's own time limit that were spent at the last check of the thresholds.
   */
  #spentMs = 0;
  #stopTimer: (() => void) | undefined;

  constructor(agent: TimedAgent) {
    this.#agent = agent;
    this.#parent = agent.parent?.time;
    if (agent.effectCount > 0) this.#count(agent.effectCount, 0);
    if (!agent.account.isTimed) return;
    this.#spentMs = agent.account.timeSpent()?.spent ?? 0;
    this.#setTimer();
  }

  /**
   * Counts an effect that begins: a model call, a tool body or a hook. A delegation does not count,
   * because its child counts its own effects. Call `endWork` exactly once for each.
   */
  beginWork(): void {
    this.#count(1, 0);
  }

  endWork(): void {
    this.#count(-1, 0);
  }

  /**
   * Counts one reason to pause the clock: an open question, a pause, or a wait for a run slot. Call
   * `releaseClock` exactly once for each.
   */
  holdClock(): void {
    this.#count(0, 1);
  }

  releaseClock(): void {
    this.#count(0, -1);
  }

  /**
   * Watches the deadlines of the ancestors too from now on, because they may end before this agent.
   */
  watchAncestors(): void {
    this.#watchesAncestors = true;
    this.#setTimer();
  }

  /**
   * Sets the timer again after a limit was raised. Does nothing about a deadline that was already
   * reached.
   */
  resetTimer(): void {
    if (!this.#isClosed) this.#setTimer();
  }

  /** Ends the agent before it continues if its deadline passed during a pause. */
  endIfOverdue(): void {
    const { account, run } = this.#agent;
    const deadlineAtMs = account.ownDeadlineAtMs();
    if (deadlineAtMs === null || deadlineAtMs > run.clock.nowMs()) return;
    this.#stopTimer?.();
    this.#end(deadlineAtMs);
  }

  #end(deadlineAtMs: number): void {
    this.#isOverdue = true;
    this.#agent.onDeadline(deadlineAtMs);
  }

  /**
   * Subtracts the agent's open work and reasons from its ancestors, because it has ended. Later
   * changes from below are ignored.
   */
  close(): void {
    if (this.#isClosed) return;
    const parent = this.#parent;
    if (parent !== undefined) parent.#count(-this.#work, -this.#holds);
    this.#isClosed = true;
    this.#stopTimer?.();
    if (this.#isPaused) this.#agent.account.resumeClock();
  }

  /** Adds to the counts of this agent and its ancestors, up to the first that has ended. */
  #count(work: number, holds: number): void {
    let hasChanged = false;
    for (let at: AgentTime | undefined = this; at !== undefined && !at.#isClosed; at = at.#parent) {
      at.#work += work;
      at.#holds += holds;
      hasChanged ||= at.#isPaused !== (at.#holds > 0 && at.#work === 0);
    }
    if (hasChanged) this.#updateClocks();
  }

  /**
   * Pauses or resumes the clocks of this agent and its ancestors. Begins at the top, so that of two
   * simultaneous deadlines the higher agent's comes first.
   */
  #updateClocks(): void {
    if (this.#isClosed) return;
    if (this.#parent !== undefined) this.#parent.#updateClocks();
    const isPaused = this.#holds > 0 && this.#work === 0;
    if (isPaused === this.#isPaused) return;
    const { account } = this.#agent;
    this.#isPaused = isPaused;
    if (isPaused) account.pauseClock();
    else account.resumeClock();
    this.#setTimer();
  }

  /** Sets the timer for the deadline, or for an earlier threshold. */
  #setTimer(): void {
    const { account, run } = this.#agent;
    if (this.#isOverdue || !account.isTimed) return;
    const deadlineAtMs = this.#findDeadline();
    const thresholdAtMs = this.#findThreshold();
    const isThreshold = thresholdAtMs < (deadlineAtMs ?? Infinity);
    const dueAtMs = isThreshold ? thresholdAtMs : deadlineAtMs;
    if (dueAtMs === this.#armedForMs) return;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#armedForMs = dueAtMs;
    if (dueAtMs === null) return;
    this.#stopTimer = run.clock.setTimer(Math.max(0, dueAtMs - run.clock.nowMs()), () => {
      account.emitThresholds(this.#spentMs);
      this.#spentMs = account.timeSpent()?.spent ?? 0;
      if (isThreshold || deadlineAtMs === null || this.#hasMoved(deadlineAtMs)) this.#setTimer();
      else this.#end(deadlineAtMs);
    });
  }

  /**
   * True if the deadline has moved. A detached agent is not notified when a deadline above moves,
   * and its own deadline does not come closer while its clock is paused.
   */
  #hasMoved(deadlineAtMs: number): boolean {
    const nowAtMs = this.#findDeadline();
    return nowAtMs !== deadlineAtMs && (nowAtMs ?? Infinity) > this.#agent.run.clock.nowMs();
  }

  /** Returns the deadline that this agent watches. */
  #findDeadline(): number | null {
    const { account } = this.#agent;
    return this.#watchesAncestors ? account.deadlineAtMs() : account.ownDeadlineAtMs();
  }

  /**
   * Returns the time at which the next threshold of the agent's own limit is due. `Infinity`
   * without such a threshold, or while the clock is paused.
   */
  #findThreshold(): number {
    const { account, run } = this.#agent;
    const time = this.#isPaused ? undefined : account.timeSpent();
    if (time === undefined) return Infinity;
    const next = findNextThreshold(time.maximum, Math.max(this.#spentMs, time.spent));
    if (next === undefined) return Infinity;
    const dueAtMs = run.clock.nowMs() + next - time.spent;
    return dueAtMs < (account.deadlineAtMs() ?? Infinity) ? dueAtMs : Infinity;
  }
}
