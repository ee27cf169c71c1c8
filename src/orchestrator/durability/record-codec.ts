// RecordCodec: the records of a journal as lines of text, and back. Owns the end of the text that was written or read last.
//
// A line is `[records before it, compressed records]`, or one whole record: the first of a journal, and each of a recording. The records
// of a line are JSON texts, joined by line breaks, as a zlib stream in base64. The text before it is the dictionary of the stream: a text
// that several records have takes its space once (C28). Now and then a line has no dictionary, which a third element says: a beginning,
// from which on a journal can be read without the lines before. A long part that a line since then has, an image for example, is a number.

import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { JOURNAL_VERSION, type JournalRecord } from "./journal-record.ts";

/** How many records are read in one turn of the event loop. */
export const RECORDS_PER_TURN = 200;
/** Records of a line, which is written and read in one piece. */
const MAX_RECORDS_IN_LINE = 200;
/** Records after which a line begins anew, without a dictionary. */
const RECORDS_PER_BEGINNING = 800;
/** zlib would take 32 KiB, which costs twice the CPU for a tenth less. */
const MAX_DICTIONARY_BYTES = 8_192;
/** Higher levels take twice as long for a tenth less. */
const COMPRESSION_LEVEL = 1;

/** A part between two quotes that is as long as this stands in a journal once: a dictionary is too small for it. */
const LONG_PART_CHARACTERS = 2_048;
/** Begins the number of a long part. JSON has it only escaped. */
const NUMBER_MARK = "\u0001";

const EMPTY: Uint8Array = new Uint8Array();

/** Ends a line without a dictionary. */
const BEGINNING = ',"begins"]';

/** Returns true for a line that can be read without the lines before it. */
export function isBeginning(line: string): boolean {
  return !line.startsWith("[") || line.endsWith(BEGINNING);
}

export class RecordCodec {
  /** Records since the journal was opened. `undefined`: nothing was read or written yet. */
  #count: number | undefined;
  /** Records since the last beginning. */
  #sinceBeginning = 0;
  #dictionary = EMPTY;
  /** Long parts since the last beginning. */
  #longParts: string[] = [];
  #texts: string[] = [];
  #lines: string[] = [];
  readonly #zlib = process.getBuiltinModule("node:zlib");

  /** Puts a record in. It is in the lines that are taken next, as it is now. Throws for what JSON does not have. */
  add(record: JournalRecord): void {
    const text = JSON.stringify(record);
    if (record.type === "run") {
      this.#endLine();
      this.#begin(0);
      this.#lines.push(text);
      return;
    }
    this.#texts.push(text);
    if (this.#texts.length === MAX_RECORDS_IN_LINE) this.#endLine();
  }

  /** Returns the lines of what was put in since the last call. */
  take(): readonly string[] {
    this.#endLine();
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }

  /**
   * Returns the records of a line, frozen and not checked. Lines must be read in order, from a beginning on.
   *
   * Throws `unsupported_version`, or an error that says why the line cannot be read.
   */
  read(line: string): readonly unknown[] {
    const value: unknown = JSON.parse(line);
    if (!Array.isArray(value)) {
      if (isRecord(value)) checkVersion(value["version"]);
      this.#begin(0);
      return [deepFreeze(value)];
    }
    const parts: readonly unknown[] = value;
    const [before, compressed] = parts;
    const begins = isBeginning(line);
    if (this.#count !== before && (this.#count !== undefined || !begins))
      throw new RangeError(`it follows upon ${String(before)} records, not ${this.#count ?? 0}`);
    if (begins) this.#begin(Number(before));
    const bytes = this.#zlib.inflateSync(Buffer.from(String(compressed), "base64"), {
      dictionary: this.#dictionary,
    });
    const texts = this.#lengthen(bytes.toString()).split("\n");
    this.#advance(texts.length, bytes);
    return texts.map((text): unknown => deepFreeze(JSON.parse(text)));
  }

  #endLine(): void {
    const texts = this.#texts;
    if (texts.length === 0) return;
    const before = this.#count ?? 0;
    const begins = before === 0 || this.#sinceBeginning >= RECORDS_PER_BEGINNING;
    if (begins) this.#begin(before);
    const bytes = Buffer.from(this.#shorten(texts.join("\n")));
    const compressed = this.#zlib.deflateSync(bytes, {
      level: COMPRESSION_LEVEL,
      dictionary: this.#dictionary,
    });
    this.#lines.push(`[${before},"${compressed.toString("base64")}"${begins ? BEGINNING : "]"}`);
    this.#advance(texts.length, bytes);
    this.#texts = [];
  }

  #advance(records: number, bytes: Uint8Array): void {
    this.#count = (this.#count ?? 0) + records;
    this.#sinceBeginning += records;
    this.#dictionary = Buffer.concat([this.#dictionary, bytes]).subarray(-MAX_DICTIONARY_BYTES);
  }

  #begin(count: number): void {
    this.#count = count;
    this.#sinceBeginning = 0;
    this.#dictionary = EMPTY;
    this.#longParts = [];
  }

  #shorten(text: string): string {
    if (!hasLongPart(text)) return text;
    const parts = text.split('"');
    for (const [place, part] of parts.entries()) {
      if (part.length < LONG_PART_CHARACTERS) continue;
      const index = this.#longParts.indexOf(part);
      if (index === -1) this.#longParts.push(part);
      else parts[place] = `${NUMBER_MARK}${index}`;
    }
    return parts.join('"');
  }

  #lengthen(text: string): string {
    if (!text.includes(NUMBER_MARK) && !hasLongPart(text)) return text;
    const parts = text.split('"');
    for (const [place, part] of parts.entries()) {
      if (part.startsWith(NUMBER_MARK))
        parts[place] = this.#longParts[Number(part.slice(NUMBER_MARK.length))] ?? part;
      else if (part.length >= LONG_PART_CHARACTERS) this.#longParts.push(part);
    }
    return parts.join('"');
  }
}

/** Returns true if a part between two quotes is long. It looks only where a long part would have no quote. */
function hasLongPart(text: string): boolean {
  let begin = 0;
  while (begin + LONG_PART_CHARACTERS <= text.length) {
    const quote = text.lastIndexOf('"', begin + LONG_PART_CHARACTERS - 1);
    if (quote < begin) return true;
    begin = quote + 1;
  }
  return false;
}

/** Only the first record of a journal, or of one that was opened again, has a version. */
function checkVersion(version: unknown): void {
  if (typeof version !== "number" || version === JOURNAL_VERSION) return;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected a journal of version ${JOURNAL_VERSION}, got version ${version}. Read it with the version of espalier that wrote it.`,
    data: { expected: JOURNAL_VERSION, got: version },
  });
}
