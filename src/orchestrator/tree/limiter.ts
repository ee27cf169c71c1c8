// How many model calls and tool bodies of one run are under way at once.
// S1: only leaf effects enter; an agent that waits for its children would deadlock a tree as deep as the slots are few.

import type { AnySignal } from "../../kernel/cancel.ts";
import type { Throttle } from "../../kernel/throttle.ts";
import { TurnLine } from "../../kernel/turn-line.ts";
import type { LeaveSlot, Limiter } from "../../agent/run-ports.ts";

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

/** `throttle`: of the process, so that a thousand calls that are asked for at once do not hold it up. */
export function limiter({ modelCalls, toolCalls }: Concurrency, throttle: Throttle): Limiter {
  const models = new Slots(modelCalls);
  /** Made when a tool is first called. */
  let tools: Slots | undefined;
  return {
    model: (signal) => {
      const turn = throttle.turn();
      return turn === undefined ? models.enter(signal) : turn.then(() => models.enter(signal));
    },
    tool: (signal, work) => {
      tools ??= new Slots(toolCalls);
      return tools.run(signal, work);
    },
  };
}

class Slots {
  #free: number;
  readonly #line = new TurnLine<void>({ take: () => this.#take() });

  constructor(slots: number) {
    this.#free = slots;
  }

  /** A slot is its owner's own until that leaves it, whatever becomes of the signal. Undefined: the signal was aborted before there was one. */
  enter(signal: AnySignal): LeaveSlot | Promise<LeaveSlot> {
    const turn = this.#line.enter(undefined, signal);
    if (typeof turn !== "boolean") return turn.then((isIn) => (isIn ? this.#leave : undefined));
    return turn ? this.#leave : undefined;
  }

  async run<T>(signal: AnySignal, work: () => Promise<T>): Promise<T | undefined> {
    const entered = this.enter(signal);
    const leave = entered instanceof Promise ? await entered : entered;
    if (leave === undefined) return undefined;
    try {
      return await work();
    } finally {
      leave();
    }
  }

  readonly #leave = (): void => {
    this.#free += 1;
    this.#line.serve();
  };

  #take(): boolean {
    if (this.#free === 0) return false;
    this.#free -= 1;
    return true;
  }
}
