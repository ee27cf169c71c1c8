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
    this.#begun += 1;
    if (this.#begun === 1) setImmediate(() => this.#nextTurn());
    return undefined;
  }

  #nextTurn(): void {
    this.#begun = 0;
    while (this.#begun < this.#perTurn) {
      const next = this.#line?.take();
      if (next === undefined) return;
      this.#begun += 1;
      if (this.#begun === 1) setImmediate(() => this.#nextTurn());
      next();
    }
  }
}

/** Work that is done piece by piece, so that other work of the process continues meanwhile. Owns how many pieces the present turn had. */
export class Turns {
  readonly #perTurn: number;
  #pieces = 0;

  /** `perTurn`: pieces of one turn of the event loop, from 1 up. */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** So many more were done. Undefined: continue at once. A promise: continue when it resolves. */
  did(pieces = 1): Promise<void> | undefined {
    this.#pieces += pieces;
    if (this.#pieces < this.#perTurn) return undefined;
    this.#pieces = 0;
    return endOfTurn();
  }
}

/** Resolves in the next turn of the event loop: what follows at once from what has happened has happened by then. */
export function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
