// WaitingLine: first in, first out, at the same cost however many wait: taking the first off a long array moves all others.
// Owns the places, of which those at the front may be empty.

export class WaitingLine<T extends object> {
  #places: (T | undefined)[] = [];
  #first = 0;

  get length(): number {
    return this.#places.length - this.#first;
  }

  add(last: T): void {
    this.#places.push(last);
  }

  /** Takes the first out; undefined: the line is empty. */
  take(): T | undefined {
    const taken = this.#places[this.#first];
    if (taken === undefined) return undefined;
    this.#places[this.#first] = undefined; // What was served is not held in memory.
    this.#first += 1;
    if (this.#first * 2 >= this.#places.length) this.#closeUp();
    return taken;
  }

  clear(): void {
    this.#places = [];
    this.#first = 0;
  }

  #closeUp(): void {
    this.#places.splice(0, this.#first);
    this.#first = 0;
  }
}
