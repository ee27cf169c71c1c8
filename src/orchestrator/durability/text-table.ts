// TextTable: texts of a journal and their numbers, by which later records refer to them (C28). Owns them.

export class TextTable {
  readonly #most: number;
  readonly #texts: string[] = [];
  readonly #numbers = new Map<string, number>();
  #count = 0;
  /** What each text took the place of since `keep` was called last. */
  #replaced: (string | undefined)[] = [];

  /** `most`: how many it holds; one more takes the place of the oldest. Default: all. */
  constructor(most = Infinity) {
    this.#most = most;
  }

  numberOf(text: string): number | undefined {
    return this.#numbers.get(text);
  }

  /** Throws a `RangeError` for a text that is not there. */
  at(number: number): string {
    const text = this.#texts[number];
    if (text === undefined) throw new RangeError(`There is no text ${number}`);
    return text;
  }

  add(text: string): void {
    const number = this.#count % this.#most;
    const oldest = this.#texts[number];
    if (oldest !== undefined) this.#numbers.delete(oldest);
    this.#texts[number] = text;
    this.#numbers.set(text, number);
    this.#count += 1;
    this.#replaced.push(oldest);
  }

  /** What was added so far stays. */
  keep(): void {
    if (this.#replaced.length > 0) this.#replaced = [];
  }

  /** Takes back what was added since `keep` was called last. */
  takeBack(): void {
    for (const oldest of this.#replaced.toReversed()) {
      this.#count -= 1;
      const number = this.#count % this.#most;
      this.#numbers.delete(this.#texts[number] ?? "");
      if (oldest === undefined) {
        this.#texts.length = number;
        continue;
      }
      this.#texts[number] = oldest;
      this.#numbers.set(oldest, number);
    }
    this.#replaced = [];
  }

  clear(): void {
    this.#texts.length = 0;
    this.#numbers.clear();
    this.#count = 0;
    this.#replaced = [];
  }
}
