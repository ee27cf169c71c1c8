// TextTable: long texts stand in a journal once (C28). Prompts, results and replies are in states, effects and events alike: each
// record holds a reference, and the text stands before the first of them. Owns the texts of one run and their numbers.

const LONG = 160;
const MARK = "\u0001";
/** The mark as JSON writes it. */
const WRITTEN_MARK = String.raw`\u0001`;
const REFERENCE = `${MARK}#`;
const LITERAL = `${MARK}=`;

/** Numbers the long texts of a journal as it is written. */
export class TextTable {
  readonly #numbers = new Map<string, number>();

  /** `texts`: those that the journal has already, in their order. */
  constructor(texts: readonly string[] = []) {
    for (const text of texts) this.#numbers.set(text, this.#numbers.size);
  }

  /** The JSON text of a record; `onText` is called before with the record of each long text that is new. */
  written(record: object, onText: (line: string) => void): string {
    return JSON.stringify(record, (_key, value: unknown) =>
      typeof value === "string" ? this.#reference(value, onText) : value,
    );
  }

  #reference(text: string, onText: (line: string) => void): string {
    if (text.length < LONG) return literal(text);
    const known = this.#numbers.get(text);
    const number = known ?? this.#numbers.size;
    if (known === undefined) {
      this.#numbers.set(text, number);
      onText(JSON.stringify({ type: "text", text: literal(text) }));
    }
    return `${REFERENCE}${number}`;
  }
}

/** A text that stands where it is, also if it looks like a reference. */
function literal(text: string): string {
  return text.startsWith(MARK) ? `${LITERAL}${text}` : text;
}

/** A record as it was before it was written. Throws a `RangeError` for a reference to a text that is not there. */
export function readRecord(line: string, texts: readonly string[]): unknown {
  if (!line.includes(WRITTEN_MARK)) return JSON.parse(line); // Many times faster.
  return JSON.parse(line, (_key, value: unknown) =>
    typeof value === "string" ? resolved(value, texts) : value,
  );
}

function resolved(value: string, texts: readonly string[]): string {
  if (value.startsWith(LITERAL)) return value.slice(LITERAL.length);
  if (!value.startsWith(REFERENCE)) return value;
  const text = texts[Number(value.slice(REFERENCE.length))];
  if (text === undefined) throw new RangeError(`There is no text ${value.slice(REFERENCE.length)}`);
  return text;
}
