// How many model calls and tool bodies of one run are under way at once.
// S1: only leaf effects enter; an agent that waits for its children would deadlock a tree as deep as the slots are few.

import type { AnySignal } from "../../kernel/cancel.ts";
import type { Throttle } from "../../kernel/throttle.ts";
import { TurnLine } from "../../kernel/turn-line.ts";
import type { Limiter, Slot } from "../../agent/run-ports.ts";

/** How much of a run may be under way at once, over the whole tree. */
export interface Concurrency {
  /** Default 1,024. */
  readonly modelCalls: number;
  /** Default 1,024. */
  readonly toolCalls: number;
}

export const DEFAULT_CONCURRENCY: Concurrency = Object.freeze({
  modelCalls: 1_024,
  toolCalls: 1_024,
});

/** Counts what is under way: what waits for a slot is not. */
interface WorkCount {
  workBegins(): void;
  workEnds(): void;
}

export class RunLimiter implements Limiter {
  readonly count: WorkCount | undefined;
  /** Nothing further begins. */
  isHeld = false;
  readonly #concurrency: Concurrency;
  readonly #throttle: Throttle;
  /** Created with the first model call. */
  #models: Slots | undefined;
  /** Created with the first tool call. */
  #tools: Slots | undefined;

  /**
   * `throttle`: shared by all runs of the orchestrator, so that a thousand calls requested at once do
   * not block the event loop.
   */
  constructor(concurrency: Concurrency, throttle: Throttle, count?: WorkCount) {
    this.count = count;
    this.#concurrency = concurrency;
    this.#throttle = throttle;
  }

  hold(): void {
    this.isHeld = true;
  }

  resume(): void {
    this.isHeld = false;
    this.#models?.serve();
    this.#tools?.serve();
  }

  model(signal: AnySignal): Slot | undefined | Promise<Slot | undefined> {
    const models = (this.#models ??= new Slots(this, this.#concurrency.modelCalls));
    const turn = this.#throttle.turn();
    return turn === undefined ? models.enter(signal) : turn.then(() => models.enter(signal));
  }

  tool(signal: AnySignal): Slot | undefined | Promise<Slot | undefined> {
    this.#tools ??= new Slots(this, this.#concurrency.toolCalls);
    return this.#tools.enter(signal);
  }
}

class Slots implements Slot {
  readonly #limiter: RunLimiter;
  #free: number;
  /** Made when the first has to wait. */
  #line: TurnLine<void> | undefined;

  constructor(limiter: RunLimiter, free: number) {
    this.#limiter = limiter;
    this.#free = free;
  }

  serve(): void {
    this.#line?.serve();
  }

  /** A slot is its owner's own until that leaves it, whatever becomes of the signal. Undefined: the signal was aborted before there was one. */
  enter(signal: AnySignal): Slot | undefined | Promise<Slot | undefined> {
    if (signal.aborted) return undefined;
    if (this.#line === undefined && this.take()) return this;
    return this.#wait(signal);
  }

  #wait(signal: AnySignal): Slot | undefined | Promise<Slot | undefined> {
    this.#line ??= new TurnLine<void>(this);
    const turn = this.#line.enter(undefined, signal);
    if (typeof turn === "boolean") return turn ? this : undefined;
    this.#limiter.count?.workEnds();
    return turn.then((isIn) => {
      this.#limiter.count?.workBegins();
      return isIn ? this : undefined;
    });
  }

  leave(): void {
    this.#free += 1;
    this.#line?.serve();
  }

  take(): boolean {
    if (this.#free === 0 || this.#limiter.isHeld) return false;
    this.#free -= 1;
    return true;
  }
}
