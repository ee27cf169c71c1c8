// TextTable: numbers the texts of a journal. Later records refer to a text by its number.

export class TextTable {
  readonly #most: number;
  readonly #texts: string[];
  /** Created when a writer needs it. */
  #numbers: Map<string, number> | undefined;
  #count: number;

  /**
   * Creates a table of at most `most` texts, by default all; a further text replaces the oldest.
   */
  constructor(most = Infinity, texts: string[] = [], count = 0) {
    this.#most = most;
    this.#texts = texts;
    this.#count = count;
  }

  /**
   * Returns a factory of tables that continue from here. The texts are shared unless texts can be
   * replaced.
   */
  createFactory(): () => TextTable {
    const count = this.#count;
    if (this.#most === Infinity) return () => new TextTable(Infinity, this.#texts, count);
    // One JSON text instead of a thousand strings, because the factory is held for long.
    const texts = JSON.stringify(this.#texts);
    return () => {
      const parsed: unknown = JSON.parse(texts);
      return new TextTable(this.#most, Array.isArray(parsed) ? parsed.map(String) : [], count);
    };
  }

  findNumber(text: string): number | undefined {
    this.#numbers ??= new Map(
      this.#texts.slice(0, this.#count).map((text, number) => [text, number]),
    );
    return this.#numbers.get(text);
  }

  /** Returns a text. Throws a `RangeError` for an unknown number. */
  getText(number: number): string {
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
