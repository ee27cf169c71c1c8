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

/** One that can be told to let nothing further begin. */
export interface RunLimiter extends Limiter {
  hold(): void;
  goOn(): void;
}

/** Who counts what is under way: what waits for a slot is not. */
interface WorkCount {
  workBegins(): void;
  workEnds(): void;
}

/** `throttle`: of the process, so that a thousand calls that are asked for at once do not hold it up. */
export function limiter(
  { modelCalls, toolCalls }: Concurrency,
  throttle: Throttle,
  count?: WorkCount,
): RunLimiter {
  const models = new Slots(modelCalls, count);
  /** Made when a tool is first called. */
  let tools: Slots | undefined;
  let isHeld = false;
  return {
    hold: () => {
      isHeld = true;
      for (const slots of [models, tools]) slots?.hold();
    },
    goOn: () => {
      isHeld = false;
      for (const slots of [models, tools]) slots?.goOn();
    },
    model: (signal) => {
      const turn = throttle.turn();
      return turn === undefined ? models.enter(signal) : turn.then(() => models.enter(signal));
    },
    tool: (signal, work) => {
      tools ??= new Slots(toolCalls, count);
      if (isHeld) tools.hold();
      return tools.run(signal, work);
    },
  };
}

class Slots {
  #free: number;
  #isHeld = false;
  readonly #count: WorkCount | undefined;
  readonly #line = new TurnLine<void>({ take: () => this.#take() });

  constructor(slots: number, count: WorkCount | undefined) {
    this.#free = slots;
    this.#count = count;
  }

  hold(): void {
    this.#isHeld = true;
  }

  goOn(): void {
    this.#isHeld = false;
    this.#line.serve();
  }

  /** A slot is its owner's own until that leaves it, whatever becomes of the signal. Undefined: the signal was aborted before there was one. */
  enter(signal: AnySignal): LeaveSlot | Promise<LeaveSlot> {
    const turn = this.#line.enter(undefined, signal);
    if (typeof turn === "boolean") return turn ? this.#leave : undefined;
    this.#count?.workEnds();
    return turn.then((isIn) => {
      this.#count?.workBegins();
      return isIn ? this.#leave : undefined;
    });
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
    if (this.#free === 0 || this.#isHeld) return false;
    this.#free -= 1;
    return true;
  }
}
