// AgentTime: how an agent's time runs, and its end when the time is over. Owns the deadline's timer; the ledger keeps the account.
//
// R34. The clock stands still exactly while a question of the agent, or of one below it, waits for an answer and no effect of any
//      of them is under way. Who works meanwhile uses up its own time and its ancestors', never that of the one who asked.
// R58. Only a limit in time waits with it; a fixed deadline is watched all along.
// X6.  It looks at the agent's own limit in time when a threshold of it is due, with the timer of the deadline.

import type { Clock } from "../kernel/clock.ts";
import { nextThreshold } from "../policies/budget-thresholds.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { TimeAccount } from "./budget-gate.ts";

/** Keeps when the time of agents was over. */
export interface DeadlineKeeper {
  /** False: the agent does not end by the clock, but when it is told to. */
  deadlineReached(agentId: AgentId, deadlineAtMs: number): boolean;
}

export interface AgentTimeOptions {
  readonly agentId: AgentId;
  readonly clock: Clock;
  readonly account: TimeAccount;
  readonly parent: AgentTime | undefined;
  /** Default: nobody is told, and the clock holds. */
  readonly keeper?: DeadlineKeeper | undefined;
  /** Called once, when a limit of the agent's own is reached. Ancestors watch theirs. */
  onDeadline(deadlineAtMs: number): void;
}

export class AgentTime {
  readonly #options: AgentTimeOptions;
  /** Nobody above watches the deadlines that it inherits. */
  #isAlone = false;
  /** Effects under way and questions that wait, in the whole subtree. */
  #work = 0;
  #questions = 0;
  #stands = false;
  #isOver = false;
  #isClosed = false;
  #armedForMs: number | null = null;
  /** Milliseconds of its own limit in time that were spent when thresholds were looked at last. */
  #spentMs: number;
  #stopTimer: (() => void) | undefined;

  constructor(options: AgentTimeOptions) {
    this.#options = options;
    this.#spentMs = options.account.timeSpent()?.spent ?? 0;
    this.#arm();
  }

  /** An effect is under way: a model call, a tool body, a hook; not a delegation, whose child counts for itself. Call the result at its end. */
  working(): () => void {
    return this.#begin(1, 0);
  }

  /** A question waits for an answer. Call the result when it is decided, one way or another. */
  asking(): () => void {
    return this.#begin(0, 1);
  }

  /** From now on it watches the deadlines of those above, too: they may end before its agent does. */
  standAlone(): void {
    this.#isAlone = true;
    this.#arm();
  }

  /** For how long it has stood still so far. */
  get stoodMs(): number {
    return this.#options.account.stoodMs;
  }

  /** The agent's limit in time may have moved away. A deadline that was reached stays so. */
  rearm(): void {
    if (!this.#isClosed) this.#arm();
  }

  /** A deadline that passed during a pause is heeded before anything of the agent goes on (R58). */
  heedOverdue(): void {
    const { account, clock } = this.#options;
    const deadlineAtMs = account.ownDeadlineAtMs();
    if (deadlineAtMs === null || deadlineAtMs > clock.nowMs()) return;
    this.#stopTimer?.();
    this.#heed(deadlineAtMs);
  }

  #heed(deadlineAtMs: number): void {
    const { keeper, agentId } = this.#options;
    this.#isOver = true;
    const isHeeded = keeper?.deadlineReached(agentId, deadlineAtMs) ?? true;
    if (isHeeded) this.#options.onDeadline(deadlineAtMs);
  }

  /** The agent has ended: what it left open counts no longer, here or above; what comes late from below goes nowhere. */
  close(): void {
    if (this.#isClosed) return;
    const { parent, account } = this.#options;
    if (parent !== undefined) parent.#add(-this.#work, -this.#questions);
    this.#isClosed = true;
    this.#stopTimer?.();
    if (this.#stands) account.resumeTime();
  }

  #begin(work: number, questions: number): () => void {
    this.#add(work, questions);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#add(-work, -questions);
    };
  }

  /** Counts on the path, as far as agents live; from above, so that of two deadlines at once the higher agent's comes first. */
  #add(work: number, questions: number): void {
    if (this.#isClosed) return;
    const { parent } = this.#options;
    if (parent !== undefined) parent.#add(work, questions);
    this.#work += work;
    this.#questions += questions;
    const stands = this.#questions > 0 && this.#work === 0;
    if (stands !== this.#stands) this.#turn(stands);
  }

  #turn(stands: boolean): void {
    const { account } = this.#options;
    this.#stands = stands;
    if (stands) account.stopTime();
    else account.resumeTime();
    this.#arm();
  }

  /** Waits for the deadline, or for a threshold that comes before it. */
  #arm(): void {
    if (this.#isOver) return;
    const { account, clock } = this.#options;
    const deadlineAtMs = this.#isAlone ? account.deadlineAtMs() : account.ownDeadlineAtMs();
    const thresholdAtMs = this.#thresholdAtMs();
    const isThreshold = thresholdAtMs < (deadlineAtMs ?? Infinity);
    const dueAtMs = isThreshold ? thresholdAtMs : deadlineAtMs;
    if (dueAtMs === this.#armedForMs) return;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#armedForMs = dueAtMs;
    if (dueAtMs === null) return;
    this.#stopTimer = clock.setTimer(Math.max(0, dueAtMs - clock.nowMs()), () => {
      this.#tellTime();
      if (isThreshold || deadlineAtMs === null) this.#arm();
      else this.#heed(deadlineAtMs);
    });
  }

  /** When the next threshold of the agent's own limit in time is due, as things stand; never, while its clock stands still. */
  #thresholdAtMs(): number {
    const { account, clock } = this.#options;
    const time = this.#stands ? undefined : account.timeSpent();
    if (time === undefined) return Infinity;
    const next = nextThreshold(time.maximum, Math.max(this.#spentMs, time.spent));
    if (next === undefined) return Infinity;
    const dueAtMs = clock.nowMs() + next - time.spent;
    return dueAtMs < (account.deadlineAtMs() ?? Infinity) ? dueAtMs : Infinity;
  }

  #tellTime(): void {
    const { account } = this.#options;
    account.emitThresholds(this.#spentMs);
    this.#spentMs = account.timeSpent()?.spent ?? 0;
  }
}
