// How many model calls and tool bodies of one run are under way at once. A call goes ahead if there is room; a queue holds who has to wait.
// S1: only leaf effects enter; an agent that waits for its children would deadlock a tree as deep as the slots are few.

import PQueue from "p-queue";

import { onAbort, type AnySignal } from "../../kernel/cancel.ts";
import type { Throttle } from "../../kernel/throttle.ts";
import type { Limiter } from "../../agent/run-ports.ts";

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
    model: (signal, work) => {
      const turn = throttle.turn();
      return turn === undefined
        ? models.run(signal, work)
        : turn.then(() => models.run(signal, work));
    },
    tool: (signal, work) => {
      tools ??= new Slots(toolCalls);
      return tools.run(signal, work);
    },
  };
}

class Slots {
  readonly #most: number;
  /** Work that did not have to wait. */
  #running = 0;
  /** Made when the first has to wait. */
  #queue: PQueue | undefined;

  constructor(most: number) {
    this.#most = most;
  }

  run<T>(signal: AnySignal, work: () => Promise<T>): Promise<T | undefined> {
    if (signal.aborted) return Promise.resolve(undefined);
    const queue = this.#queue;
    const isFree =
      queue === undefined
        ? this.#running < this.#most
        : queue.size === 0 && this.#running + queue.pending < this.#most;
    if (!isFree) return this.#wait(signal, work);
    this.#running += 1;
    return work().finally(() => {
      this.#running -= 1;
      if (this.#queue !== undefined) this.#fit(this.#queue);
    });
  }

  /** The queue has the slots that are left by what did not have to wait. */
  #fit(queue: PQueue): void {
    if (this.#running === this.#most) return queue.pause();
    queue.concurrency = this.#most - this.#running;
    queue.start();
  }

  /** The queue listens to the abort only while the call waits: once it runs, its slot is its own until it has ended. */
  async #wait<T>(signal: AnySignal, work: () => Promise<T>): Promise<T | undefined> {
    const queue = (this.#queue ??= new PQueue());
    this.#fit(queue);
    const waiting = new AbortController();
    const stopListening = onAbort(signal, () => waiting.abort(signal.reason));
    let started = false;
    const run = (): Promise<T> => {
      started = true;
      stopListening();
      return work();
    };
    try {
      return await queue.add(run, { signal: waiting.signal });
    } catch (cause) {
      if (!started && waiting.signal.aborted) return undefined;
      throw cause;
    }
  }
}
