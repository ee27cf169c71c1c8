// RecordCodec: encodes the records of a journal as lines of text, and decodes them. Writes only the
// difference of a record from the previous record of its kind, since the records of successive
// steps differ in a few fields. Owns the last record of each kind, the long texts, which a journal
// contains once each, and the most recent short texts.
//
// A line is `[records before it, [kind, change], …]`, or a whole record: the first of a journal,
// and each of a recording. A line with 0 records before it does not refer to earlier lines. In a
// change, an object modifies the object or list at its position. Any other value replaces it.

import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { JOURNAL_VERSION, type JournalRecord } from "./journal-record.ts";
import { TextTable } from "./text-table.ts";

/** Number of records that are read in one turn of the event loop. */
export const RECORDS_PER_TURN = 200;

/** A text with fewer characters is hardly longer than a reference to it. */
const SHORT = 9;
const LONG = 160;
/** Number of short texts to which a record can refer. With more, references grow longer. */
const MOST_RECENT = 1_000;
/** Maximum number of records of a line, which is written and read at once. */
const MOST_IN_LINE = 200;

const MARK = "~";
const LITERAL = `${MARK}=`;
const LONG_TEXT = `${MARK}#`;
const GONE = `${MARK}-`;
/** Precedes an object that replaces another object or a list. */
const REPLACED = `${MARK}:`;
/** Precedes the JSON of an object that is not compared. */
const WHOLE = `${MARK}!`;
/** Key of the length of a list whose length has changed. */
const LENGTH = MARK;
/** Kind of records that are not compared with others. */
const ALONE = -1;

interface Template {
  [key: string]: unknown;
}
type Members = Readonly<Record<string, unknown>>;

/** Placeholder for an object with the key `__proto__`, which a copy would use as its prototype. */
const NOT_COPIED: unknown = Object.freeze({});

export class RecordCodec {
  readonly #kinds = new Map<string, number>();
  /** Last record of each kind, mutable except for frozen parts. */
  #templates: unknown[] = [];
  /** True if the templates were read, and are not prepared for writing. */
  #areRead = false;
  #long = new TextTable();
  #recent = new TextTable(MOST_RECENT);
  /** Records that were written or read since the journal was opened. */
  #count = 0;
  #lines: string[] = [];
  #entries: (readonly [kind: number, change: unknown])[] = [];
  /** Copy of the value that was written last. */
  #copy: unknown;

  /**
   * Returns a factory of codecs that continue from here. Cheap: the present templates are shared
   * and frozen.
   */
  createFactory(): () => RecordCodec {
    const [templates, count] = [this.#templates.map(deepFreeze), this.#count];
    this.#areRead = true;
    const [long, recent] = [this.#long.createFactory(), this.#recent.createFactory()];
    return () => {
      const codec = new RecordCodec();
      codec.#templates = [...templates];
      codec.#count = count;
      codec.#long = long();
      codec.#recent = recent();
      return codec;
    };
  }

  /** Adds a record, as it is now, to the next lines. */
  add(record: JournalRecord): void {
    if (record.type === "run") {
      this.#endLine();
      this.#restart();
      this.#lines.push(JSON.stringify(record));
      return;
    }
    if (this.#areRead) this.#templates = this.#templates.map(copyDeep);
    this.#areRead = false;
    this.#entries.push(this.#encodeRecord(record));
    if (this.#entries.length === MOST_IN_LINE) this.#endLine();
  }

  /** Returns the lines of the records that were added since the last call. */
  take(): readonly string[] {
    this.#endLine();
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }

  /**
   * Returns the records of a line, frozen and not validated. Lines must be read in order.
   *
   * Throws `unsupported_version`, or an error that explains why the line cannot be read.
   */
  read(line: string): readonly unknown[] {
    const records: unknown[] = [];
    this.scan(line, (record) => records.push(deepFreeze(record)));
    return records;
  }

  /**
   * Calls `see` with each record of a line, and returns the number of records. A record changes
   * with the next one unless it is frozen: a caller that retains a record, or a part of it, freezes
   * it whole.
   */
  scan(line: string, see: (record: unknown) => void): number {
    if (!line.startsWith("[")) {
      see(this.#readWhole(line));
      return 1;
    }
    const [before, ...entries] = requireList(JSON.parse(line));
    if (before === 0) this.#restart();
    if (before !== this.#count)
      throw new RangeError(`it follows ${String(before)} records, not ${this.#count}`);
    this.#areRead = true;
    for (const entry of entries) see(this.#readEntry(entry));
    return entries.length;
  }

  /**
   * Encodes a record. If that fails, the next record is encoded as if it were the first, at which
   * readers restart, too.
   */
  #encodeRecord(record: JournalRecord): readonly [kind: number, change: unknown] {
    const isAlone = record.type === "restored";
    const name = isAlone ? "" : getRecordKind(record);
    const kind = isAlone ? ALONE : (this.#kinds.get(name) ?? this.#templates.length);
    const template = isAlone ? undefined : this.#templates[kind];
    let change: unknown;
    try {
      change = this.#change(template, record);
    } catch (cause) {
      this.#endLine();
      this.#restart();
      throw cause;
    }
    if (isAlone) return [ALONE, change];
    this.#kinds.set(name, kind);
    this.#templates[kind] = this.#copy;
    return [kind, change ?? {}];
  }

  #endLine(): void {
    if (this.#entries.length === 0) return;
    this.#lines.push(JSON.stringify([this.#count, ...this.#entries]));
    this.#count += this.#entries.length;
    this.#entries = [];
  }

  #restart(): void {
    this.#kinds.clear();
    this.#templates = [];
    this.#long = new TextTable();
    this.#recent = new TextTable(MOST_RECENT);
    this.#count = 0;
  }

  /**
   * Returns the change that turns a copy into the value, and sets `#copy`. `undefined` if nothing
   * changed.
   */
  #change(before: unknown, value: unknown): unknown {
    if (Array.isArray(value)) return this.#diffList(before, value);
    if (isRecord(value)) return this.#diffObject(before, value);
    this.#copy = value;
    if (value === before) return undefined;
    return typeof value === "string" ? this.#encodeText(value) : value;
  }

  #diffList(before: unknown, value: readonly unknown[]): unknown {
    if (!Array.isArray(before)) {
      const copy: unknown[] = [];
      const written = value.map((item) => {
        const change = this.#change(undefined, item ?? null);
        copy.push(this.#copy);
        return change;
      });
      this.#copy = copy;
      return written;
    }
    const changes: Template = {};
    let isChanged = before.length !== value.length;
    if (isChanged) changes[LENGTH] = value.length;
    before.length = Math.min(before.length, value.length);
    for (let index = 0; index < value.length; index += 1) {
      const change = this.#change(before[index], value[index] ?? null);
      if (change === undefined) continue;
      before[index] = this.#copy;
      changes[index] = change;
      isChanged = true;
    }
    this.#copy = before;
    return isChanged ? changes : undefined;
  }

  #diffObject(before: unknown, value: Members): unknown {
    if (Object.hasOwn(value, "__proto__")) {
      this.#copy = NOT_COPIED;
      return [WHOLE, JSON.stringify(value)];
    }
    const keys = Object.keys(value);
    if (isTemplate(before)) {
      const beforeKeys = Object.keys(before);
      if (isSameList(beforeKeys, keys)) return this.#diffParts(before, keys, value);
      const present = keys.filter((key) => !isAbsent(value[key]));
      if (hasSameKeyOrder(beforeKeys, present)) {
        const gone = beforeKeys.filter((key) => !Object.hasOwn(value, key));
        return this.#diffParts(before, [...keys, ...gone], value);
      }
    }
    const written = this.#copyObject(keys, value);
    return typeof before === "object" && before !== null ? [REPLACED, written] : written;
  }

  /**
   * Copies an object in the shape that the value has in the engine: objects that grow key by key
   * are slow.
   */
  #copyObject(keys: readonly string[], value: Members): Template {
    const copy: Template = { ...value };
    const written: Template = { ...value };
    for (const key of keys) {
      const part = value[key];
      if (isAbsent(part)) {
        delete copy[key];
        delete written[key];
        continue;
      }
      // Most parts are plain values, which need no further call.
      if (typeof part === "string") written[key] = this.#encodeText(part);
      if (typeof part !== "object" || part === null) continue;
      written[key] = this.#change(undefined, part);
      copy[key] = this.#copy;
    }
    this.#copy = copy;
    return written;
  }

  #diffParts(copy: Template, keys: readonly string[], value: Members): Template | undefined {
    let changes: Template | undefined;
    for (const key of keys) {
      const part = value[key];
      const before = copy[key];
      if (part === before) continue;
      const change = isAbsent(part) ? GONE : this.#change(before, part);
      if (change === undefined || (change === GONE && !Object.hasOwn(copy, key))) continue;
      if (change === GONE) delete copy[key];
      else copy[key] = this.#copy;
      changes ??= {};
      changes[key] = change;
    }
    this.#copy = copy;
    return changes;
  }

  #encodeText(text: string): string {
    if (text.length >= SHORT) {
      const isLong = text.length >= LONG;
      const texts = isLong ? this.#long : this.#recent;
      const number = texts.findNumber(text);
      if (number !== undefined) return `${isLong ? LONG_TEXT : MARK}${number}`;
      texts.add(text);
    }
    return text.startsWith(MARK) ? `${LITERAL}${text}` : text;
  }

  #readWhole(line: string): unknown {
    const record: unknown = JSON.parse(line);
    if (!isRecord(record)) return record;
    checkVersion(record["version"]);
    if (record["type"] === "run") this.#restart();
    return record;
  }

  #readEntry(entry: unknown): unknown {
    const [kind, change] = requireList(entry);
    this.#count += 1;
    if (kind === ALONE) return this.#applyChange(undefined, change);
    if (typeof kind !== "number" || kind > this.#templates.length)
      throw new RangeError(`its kind ${String(kind)} is unknown`);
    const record = this.#applyChange(this.#templates[kind], change);
    if (kind === this.#templates.length) this.#kinds.set(getRecordKind(record), kind);
    this.#templates[kind] = record;
    return record;
  }

  /**
   * Returns the value after a change. Frozen parts are copied as far as they change; others are
   * mutated.
   */
  #applyChange(before: unknown, change: unknown): unknown {
    if (typeof change === "string") return this.#decodeText(change);
    if (isRecord(change))
      return Array.isArray(before)
        ? this.#changeList(before, change)
        : this.#changeObject(isRecord(before) ? before : { ...change }, change);
    if (!Array.isArray(change)) return change;
    if (change[0] === REPLACED) return this.#applyChange(undefined, change[1]);
    if (change[0] === WHOLE) return deepFreeze(JSON.parse(String(change[1])));
    return change.map((item) => this.#applyChange(undefined, item));
  }

  #changeList(before: unknown[], change: Members): unknown {
    const after = Object.isFrozen(before) ? [...before] : before;
    for (const [key, part] of Object.entries(change)) {
      if (key === LENGTH) after.length = Number(part);
      else after[Number(key)] = this.#applyChange(after[Number(key)], part);
    }
    return after;
  }

  #changeObject(before: Template, change: Members): unknown {
    let after = Object.isFrozen(before) ? { ...before } : before;
    for (const key of Object.keys(change)) {
      const part = change[key];
      if (part === GONE) after = omitKey(after, key);
      else if (typeof part === "string") after[key] = this.#decodeText(part);
      else if (typeof part !== "object" || part === null) after[key] = part;
      else after[key] = this.#applyChange(Object.hasOwn(after, key) ? after[key] : undefined, part);
    }
    return after;
  }

  #decodeText(written: string): string {
    const isMarked = written.startsWith(MARK);
    if (isMarked && written.startsWith(LONG_TEXT))
      return this.#long.getText(Number(written.slice(2)));
    const isLiteral = !isMarked || written.startsWith(LITERAL);
    if (!isLiteral) return this.#recent.getText(Number(written.slice(1)));
    const text = isMarked ? written.slice(LITERAL.length) : written;
    if (text.length >= LONG) this.#long.add(text);
    else if (text.length >= SHORT) this.#recent.add(text);
    return text;
  }
}

/** Checks the version, which only the first record of a journal, or of a reopened journal, has. */
function checkVersion(version: unknown): void {
  if (typeof version !== "number" || version === JOURNAL_VERSION) return;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected a journal of format version ${JOURNAL_VERSION}, got version ${version}. Read it with the version of espalier that wrote it.`,
    data: { expected: JOURNAL_VERSION, got: version },
  });
}

/** Returns a new object without the key: an object from which keys are deleted stays slow. */
function omitKey(object: Template, key: string): Template {
  const { [key]: _gone, ...rest } = object;
  return rest;
}

/** Returns the kind of a record. Records of the same kind have mostly the same fields. */
function getRecordKind(record: unknown): string {
  if (!isRecord(record)) return "";
  const { type, event, phase, done, name } = record;
  let more = phase;
  if (isRecord(event)) more = event["type"];
  else if (isRecord(done)) more = done["operation"];
  return [type, more ?? (typeof name === "string" ? name.split(".")[0] : "")].join(" ");
}

function isTemplate(value: unknown): value is Template {
  return isRecord(value) && value !== NOT_COPIED;
}

/** Returns a mutable deep copy of a read value. */
function copyDeep(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyDeep);
  if (!isRecord(value)) return value;
  if (Object.hasOwn(value, "__proto__")) return NOT_COPIED;
  const copy: Template = {};
  for (const [key, part] of Object.entries(value)) copy[key] = copyDeep(part);
  return copy;
}

/** Returns true if JSON omits the value in objects. */
function isAbsent(value: unknown): boolean {
  return value === undefined || typeof value === "function" || typeof value === "symbol";
}

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index += 1)
    if (left[index] !== right[index]) return false;
  return true;
}

/**
 * Returns true if a copy with these keys, to which new keys are appended, has the keys of the value
 * in order.
 */
function hasSameKeyOrder(copy: readonly string[], value: readonly string[]): boolean {
  const places = copy.length > FEW_KEYS ? new Map(copy.map((key, at) => [key, at])) : undefined;
  let next = 0;
  for (const key of value) {
    const at = places === undefined ? copy.indexOf(key) : (places.get(key) ?? -1);
    if (at !== -1 && at < next) return false;
    next = at === -1 ? copy.length : at + 1;
  }
  return true;
}

/** Up to this number, a linear search is as fast as a map. */
const FEW_KEYS = 16;

function requireList(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new TypeError("it is not an array");
}
