// Throttle: limits how much simultaneous work begins in one turn of the event loop.
// Ten thousand starts in one turn would block everything else in the process.

export class Throttle {
  readonly #perTurn: number;
  /** Pieces that begin in the latest turn. */
  #begun = 0;
  /** The latest turn in which a piece begins. `undefined` if that is the present one. */
  #latest: Promise<void> | undefined;

  /** `perTurn`: pieces that may begin in one turn, from 1 up. */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Returns `undefined` to begin at once, or a promise of the turn to begin in. First come, first served. */
  turn(): Promise<void> | undefined {
    if (this.#begun === this.#perTurn) this.#addTurn();
    else if (this.#begun === 0) this.#resetNextTurn();
    this.#begun += 1;
    return this.#latest;
  }

  #addTurn(): void {
    this.#begun = 0;
    const next = this.#latest === undefined ? endOfTurn() : this.#latest.then(endOfTurn);
    const turn = next.then(() => {
      if (this.#latest !== turn) return;
      this.#latest = undefined;
      this.#resetNextTurn();
    });
    this.#latest = turn;
  }

  #resetNextTurn(): void {
    setImmediate(() => {
      if (this.#latest === undefined) this.#begun = 0;
    });
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
