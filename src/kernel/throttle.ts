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

  /** Returns `undefined` to begin at once, or a promise of the turn to begin in. FIFO. */
  turn(): Promise<void> | undefined {
    if (this.#begun === this.#perTurn) this.#addTurn();
    else if (this.#begun === 0) this.#resetNextTurn();
    this.#begun += 1;
    return this.#latest;
  }

  #addTurn(): void {
    this.#begun = 0;
    const next = this.#latest === undefined ? waitForTurnEnd() : this.#latest.then(waitForTurnEnd);
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

/**
 * Divides long work into turns of the event loop, so that other work of the process continues. Owns
 * the number of pieces done in the current turn.
 */
export class Turns {
  readonly #perTurn: number;
  #pieces = 0;

  /** `perTurn` is the number of pieces per turn of the event loop, from 1 up. */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Counts completed pieces. Returns `undefined` to continue at once, or a promise to wait for. */
  did(pieces = 1): Promise<void> | undefined {
    this.#pieces += pieces;
    if (this.#pieces < this.#perTurn) return undefined;
    this.#pieces = 0;
    return waitForTurnEnd();
  }
}

/** Resolves in the next turn of the event loop, after the microtasks and callbacks of this turn. */
export function waitForTurnEnd(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
