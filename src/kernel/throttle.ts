// Throttle: how much of what is asked for at once begins in one turn of the event loop. Owns what waits for a turn.
// Ten thousand pieces that begin in one turn hold up everything else in the process for as long as that takes.

import { WaitingLine } from "./queue.ts";

export class Throttle {
  readonly #perTurn: number;
  /** Made when the first piece has to wait. */
  #line: WaitingLine<() => void> | undefined;
  #begun = 0;

  /** `perTurn`: pieces that may begin in one turn, from 1 up. */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Undefined: begin at once. A promise: begin when it resolves. First come, first served. */
  turn(): Promise<void> | undefined {
    if (this.#begun === this.#perTurn) {
      const line = (this.#line ??= new WaitingLine());
      return new Promise((begin) => line.add(begin));
    }
    this.#begin();
    return undefined;
  }

  #begin(): void {
    this.#begun += 1;
    if (this.#begun === 1) setImmediate(() => this.#nextTurn());
  }

  #nextTurn(): void {
    this.#begun = 0;
    while (this.#begun < this.#perTurn) {
      const next = this.#line?.take();
      if (next === undefined) return;
      this.#begin();
      next();
    }
  }
}

/** Resolves in the next turn of the event loop: what follows at once from what has happened has happened by then. */
export function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
