// TextTable: texts of a journal and their numbers, by which later records refer to them (C28). Owns them.

export class TextTable {
  readonly #most: number;
  readonly #texts: string[];
  /** Made when a writer asks for it. */
  #numbers: Map<string, number> | undefined;
  #count: number;

  /** `most`: how many it holds; one more takes the place of the oldest. Default: all. */
  constructor(most = Infinity, texts: string[] = [], count = 0) {
    this.#most = most;
    this.#texts = texts;
    this.#count = count;
  }

  /** What there is now, for a reader that continues from here. It is shared where no text takes the place of another. */
  beginning(): () => TextTable {
    const count = this.#count;
    if (this.#most === Infinity) return () => new TextTable(Infinity, this.#texts, count);
    // One text in the place of a thousand: they are held for long.
    const texts = JSON.stringify(this.#texts);
    return () => {
      const parsed: unknown = JSON.parse(texts);
      return new TextTable(this.#most, Array.isArray(parsed) ? parsed.map(String) : [], count);
    };
  }

  numberOf(text: string): number | undefined {
    this.#numbers ??= new Map(
      this.#texts.slice(0, this.#count).map((text, number) => [text, number]),
    );
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
    const oldest = this.#count < this.#most ? undefined : this.#texts[number];
    this.#texts[number] = text;
    this.#count += 1;
    if (this.#numbers === undefined) return;
    if (oldest !== undefined) this.#numbers.delete(oldest);
    this.#numbers.set(text, number);
  }
}
