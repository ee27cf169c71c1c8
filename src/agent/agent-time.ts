// AgentTime: how an agent's time runs, and its end when the time is over. Owns the deadline's timer; the ledger keeps the account.
//
// R34. The clock stands still exactly while the agent, or one below it, has a reason to (`holdClock`) and no effect of any
//      of them is under way. An agent that works meanwhile uses up its own time and its ancestors', never that of the asking agent.
// R58. Only a limit in time waits with it; a fixed deadline is watched all along.
//
// The timer of the deadline also fires when a threshold of the agent's own limit in time is due (X6).

import type { Clock } from "../kernel/clock.ts";
import { findNextThreshold } from "../policies/budget.ts";
import type { BudgetAccount } from "../budget/budget-account.ts";

/** The agent whose time it is, as far as it matters here. */
export interface TimedAgent {
  readonly run: { readonly clock: Clock };
  readonly account: BudgetAccount;
  readonly parent: { readonly time: AgentTime | undefined } | undefined;
  /** Effects of its own that are under way. */
  readonly effectCount: number;
  /** Called once, when a limit of the agent's own is reached. Ancestors watch theirs. */
  deadlineReached(deadlineAtMs: number): void;
}

export class AgentTime {
  readonly #agent: TimedAgent;
  /** Of the parent that started it: one that continues in its place has not begun what is counted. */
  readonly #parent: AgentTime | undefined;
  /** No ancestor watches the deadlines that it inherits. */
  #isAlone = false;
  /** Effects under way, and reasons for the clock to stand still, in the whole subtree. */
  #work = 0;
  #holds = 0;
  #stands = false;
  #isOver = false;
  #isClosed = false;
  #armedForMs: number | null = null;
  /** Milliseconds of its own limit in time that were spent when thresholds were looked at last. */
  #spentMs = 0;
  #stopTimer: (() => void) | undefined;

  constructor(agent: TimedAgent) {
    this.#agent = agent;
    this.#parent = agent.parent?.time;
    if (agent.effectCount > 0) this.#count(agent.effectCount, 0);
    if (!agent.account.isTimed) return;
    this.#spentMs = agent.account.timeSpent()?.spent ?? 0;
    this.#arm();
  }

  /** An effect is under way: a model call, a tool body, a hook; not a delegation, whose child counts for itself. It ends with `endWork`, once. */
  beginWork(): void {
    this.#count(1, 0);
  }

  endWork(): void {
    this.#count(-1, 0);
  }

  /** Counts one reason for the clock to stand still: an open question, a pause, a wait for a run slot. Each ends with `releaseClock`, once. */
  holdClock(): void {
    this.#count(0, 1);
  }

  releaseClock(): void {
    this.#count(0, -1);
  }

  /** From now on it watches the deadlines of those above, too: they may end before its agent does. */
  standAlone(): void {
    this.#isAlone = true;
    this.#arm();
  }

  /** The agent's limit in time may have moved away. A deadline that was reached stays so. */
  rearm(): void {
    if (!this.#isClosed) this.#arm();
  }

  /** A deadline that passed during a pause ends the agent before anything of it continues. */
  endIfOverdue(): void {
    const { account, run } = this.#agent;
    const deadlineAtMs = account.ownDeadlineAtMs();
    if (deadlineAtMs === null || deadlineAtMs > run.clock.nowMs()) return;
    this.#stopTimer?.();
    this.#end(deadlineAtMs);
  }

  #end(deadlineAtMs: number): void {
    this.#isOver = true;
    this.#agent.deadlineReached(deadlineAtMs);
  }

  /** The agent has ended: what it left open counts no longer, here or above; what comes late from below goes nowhere. */
  close(): void {
    if (this.#isClosed) return;
    const parent = this.#parent;
    if (parent !== undefined) parent.#count(-this.#work, -this.#holds);
    this.#isClosed = true;
    this.#stopTimer?.();
    if (this.#stands) this.#agent.account.resumeClock();
  }

  /** Counts on the path, as far as agents have not ended. */
  #count(work: number, holds: number): void {
    let isTurning = false;
    for (let at: AgentTime | undefined = this; at !== undefined && !at.#isClosed; at = at.#parent) {
      at.#work += work;
      at.#holds += holds;
      isTurning ||= at.#stands !== (at.#holds > 0 && at.#work === 0);
    }
    if (isTurning) this.#turn();
  }

  /** Lets the clocks on the path stand still or run; from above, so that of two deadlines at once the higher agent's comes first. */
  #turn(): void {
    if (this.#isClosed) return;
    if (this.#parent !== undefined) this.#parent.#turn();
    const stands = this.#holds > 0 && this.#work === 0;
    if (stands === this.#stands) return;
    const { account } = this.#agent;
    this.#stands = stands;
    if (stands) account.pauseClock();
    else account.resumeClock();
    this.#arm();
  }

  /** Waits for the deadline, or for a threshold that comes before it. */
  #arm(): void {
    const { account, run } = this.#agent;
    if (this.#isOver || !account.isTimed) return;
    const deadlineAtMs = this.#deadlineAtMs();
    const thresholdAtMs = this.#thresholdAtMs();
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
      if (isThreshold || deadlineAtMs === null || this.#hasMoved(deadlineAtMs)) this.#arm();
      else this.#end(deadlineAtMs);
    });
  }

  /** Alone, it gets no notice of what moves the deadlines above, and its own comes no nearer while its clock stands still. */
  #hasMoved(deadlineAtMs: number): boolean {
    const nowAtMs = this.#deadlineAtMs();
    return nowAtMs !== deadlineAtMs && (nowAtMs ?? Infinity) > this.#agent.run.clock.nowMs();
  }

  /** The one that it watches. */
  #deadlineAtMs(): number | null {
    const { account } = this.#agent;
    return this.#isAlone ? account.deadlineAtMs() : account.ownDeadlineAtMs();
  }

  /** When the next threshold of the agent's own limit in time is due, as things stand; never, while its clock stands still. */
  #thresholdAtMs(): number {
    const { account, run } = this.#agent;
    const time = this.#stands ? undefined : account.timeSpent();
    if (time === undefined) return Infinity;
    const next = findNextThreshold(time.maximum, Math.max(this.#spentMs, time.spent));
    if (next === undefined) return Infinity;
    const dueAtMs = run.clock.nowMs() + next - time.spent;
    return dueAtMs < (account.deadlineAtMs() ?? Infinity) ? dueAtMs : Infinity;
  }
}
