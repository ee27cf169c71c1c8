// Places: how many runs a worker leads at once, first come, first served. Owns how many of them are free.

import type { AnySignal } from "../../kernel/cancel.ts";
import { TurnLine } from "../../kernel/turn-line.ts";

export class Places {
  #free: number;
  readonly #line = new TurnLine<undefined>({ take: () => this.#take() });

  constructor(count: number) {
    this.#free = count;
  }

  /** A place, to be given back by a call of the result; undefined: the signal was aborted before there was one. */
  async enter(signal: AnySignal): Promise<(() => void) | undefined> {
    return (await this.#line.enter(undefined, signal)) ? () => this.#giveBack() : undefined;
  }

  #take(): boolean {
    if (this.#free === 0) return false;
    this.#free -= 1;
    return true;
  }

  #giveBack(): void {
    this.#free += 1;
    this.#line.serve();
  }
}
