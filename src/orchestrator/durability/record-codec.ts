// RecordCodec: the records of a journal as lines of text, and back. Of a record it writes what differs from the one before of its kind: the
// events and changes of one step are those of the step before but for a few fields. Owns the last record of each kind, the long texts, each
// of which stands in a journal once (C28), and the short ones that came last.
//
// A line is `[records before it, [kind, change], …]`, or a record as it is: the first of a journal, and all that was written before version
// 3. In a change, an object changes the object or the list in its place; anything else takes that place.

import { deepFreeze, isRecord } from "../../kernel/json.ts";
import type { JournalRecord } from "./journal-record.ts";
import { TextTable } from "./text-table.ts";
import { readWhole } from "./whole-record.ts";

/** A text of fewer characters is hardly longer than a reference to it. */
const SHORT = 9;
const LONG = 160;
/** Short texts to which a record can refer. With more of them references grow longer. */
const MOST_RECENT = 1_000;
/** Records of a line, which is written and read in one piece. */
const MOST_IN_LINE = 200;

const MARK = "~";
const LITERAL = `${MARK}=`;
const LONG_TEXT = `${MARK}#`;
const GONE = `${MARK}-`;
/** Stands before an object that takes the place of another, or of a list. */
const REPLACED = `${MARK}:`;
/** The key of the length of a list that has another one. */
const LENGTH = MARK;
/** The kind of a record that no other is compared with. */
const ALONE = -1;

interface Template {
  [key: string]: unknown;
}

export class RecordCodec {
  readonly #kinds = new Map<string, number>();
  /** The last record of each kind: a copy of our own where it was written, frozen where it was read. */
  readonly #templates: unknown[] = [];
  readonly #long = new TextTable();
  readonly #recent = new TextTable(MOST_RECENT);
  /** Records that were written or read since the journal was opened. */
  #count = 0;
  #lines: string[] = [];
  #entries: (readonly [kind: number, change: unknown])[] = [];
  /** What stands in the place of the value that was written last. */
  #copy: unknown;

  /** Puts a record in. It is in the lines that are taken next, as it is now. */
  add(record: JournalRecord): void {
    if (record.type === "run") {
      this.#endLine();
      this.#restart();
      this.#lines.push(JSON.stringify(record));
      return;
    }
    this.#entries.push(this.#entry(record));
    if (this.#entries.length === MOST_IN_LINE) this.#endLine();
  }

  /** The lines of what was put in since the last call. */
  take(): readonly string[] {
    this.#endLine();
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }

  /**
   * The records of a line, frozen and not checked. Lines are read in the order in which they were written. Throws what says that the line
   * cannot be read, or does not follow upon the last one.
   */
  read(line: string): readonly unknown[] {
    if (!line.startsWith("[")) return this.#readWhole(line);
    const [before, ...entries] = listOf(JSON.parse(line));
    if (before !== this.#count)
      throw new RangeError(`it follows upon ${String(before)} records, not upon ${this.#count}`);
    return entries.map((entry) => this.#readEntry(entry));
  }

  #entry(record: JournalRecord): readonly [kind: number, change: unknown] {
    if (record.type === "restored") return [ALONE, this.#change(undefined, record)];
    const name = kindOf(record);
    const kind = this.#kinds.get(name) ?? this.#kinds.size;
    this.#kinds.set(name, kind);
    const template = this.#templates[kind];
    const change = this.#change(Object.isFrozen(template) ? copied(template) : template, record);
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
    this.#templates.length = 0;
    this.#long.clear();
    this.#recent.clear();
    this.#count = 0;
  }

  /** What makes a copy the value, and `#copy` what it is then; undefined: it is the value already. */
  #change(before: unknown, given: unknown): unknown {
    const value = asJson(given);
    if (Array.isArray(value))
      return Array.isArray(before) ? this.#listChange(before, value) : this.#newList(value);
    if (!isRecord(value)) {
      this.#copy = value;
      if (value === before) return undefined;
      return typeof value === "string" ? this.#written(value) : value;
    }
    if (isTemplate(before) && keepsOrder(before, value)) return this.#objectChange(before, value);
    const change = this.#objectChange(newTemplate(), value) ?? {};
    return typeof before === "object" && before !== null ? [REPLACED, change] : change;
  }

  #newList(value: readonly unknown[]): unknown {
    const copy: unknown[] = [];
    const written = value.map((item) => {
      const change = this.#change(undefined, item ?? null);
      copy.push(this.#copy);
      return change;
    });
    this.#copy = copy;
    return written;
  }

  #listChange(copy: unknown[], value: readonly unknown[]): unknown {
    const changes = newTemplate();
    let isChanged = copy.length !== value.length;
    if (isChanged) changes[LENGTH] = value.length;
    copy.length = Math.min(copy.length, value.length);
    for (const [index, item] of value.entries()) {
      const change = this.#change(copy[index], item ?? null);
      if (change === undefined) continue;
      copy[index] = this.#copy;
      changes[index] = change;
      isChanged = true;
    }
    this.#copy = copy;
    return isChanged ? changes : undefined;
  }

  #objectChange(copy: Template, value: Readonly<Record<string, unknown>>): Template | undefined {
    let changes: Template | undefined;
    let count = 0;
    for (const key of Object.keys(value)) {
      const part = value[key];
      if (isAbsent(part)) continue;
      count += 1;
      const change = this.#change(copy[key], part);
      if (change === undefined) continue;
      copy[key] = this.#copy;
      changes ??= newTemplate();
      changes[key] = change;
    }
    const keys = Object.keys(copy);
    if (keys.length > count) changes ??= newTemplate();
    if (changes !== undefined && keys.length > count)
      for (const key of keys) {
        if (Object.hasOwn(value, key) && !isAbsent(value[key])) continue;
        delete copy[key];
        changes[key] = GONE;
      }
    this.#copy = copy;
    return changes;
  }

  #written(text: string): string {
    if (text.length >= SHORT) {
      const isLong = text.length >= LONG;
      const texts = isLong ? this.#long : this.#recent;
      const number = texts.numberOf(text);
      if (number !== undefined) return `${isLong ? LONG_TEXT : MARK}${number}`;
      texts.add(text);
    }
    return text.startsWith(MARK) ? `${LITERAL}${text}` : text;
  }

  #readWhole(line: string): readonly unknown[] {
    const record = readWhole(line, this.#long);
    if (isRecord(record) && record["type"] === "run") this.#restart();
    return record === undefined ? [] : [deepFreeze(record)];
  }

  #readEntry(entry: unknown): unknown {
    const [kind, change] = listOf(entry);
    this.#count += 1;
    if (kind === ALONE) return this.#changed(undefined, change);
    if (typeof kind !== "number" || kind > this.#templates.length)
      throw new RangeError(`there is no kind ${String(kind)}`);
    const record = this.#changed(this.#templates[kind], change);
    if (kind === this.#templates.length) this.#kinds.set(kindOf(record), kind);
    this.#templates[kind] = record;
    return record;
  }

  /** The value after a change, frozen. It shares what did not change. */
  #changed(before: unknown, change: unknown): unknown {
    if (typeof change === "string") return this.#text(change);
    if (isRecord(change))
      return Array.isArray(before)
        ? this.#changedList(before, change)
        : this.#changedObject(isRecord(before) ? before : {}, change);
    if (!Array.isArray(change)) return change;
    if (change[0] === REPLACED) return this.#changed(undefined, change[1]);
    return Object.freeze(change.map((item) => this.#changed(undefined, item)));
  }

  #changedList(before: readonly unknown[], change: Readonly<Record<string, unknown>>): unknown {
    const after = [...before];
    for (const [key, part] of Object.entries(change)) {
      if (key === LENGTH) after.length = Number(part);
      else after[Number(key)] = this.#changed(after[Number(key)], part);
    }
    return Object.freeze(after);
  }

  #changedObject(
    before: Readonly<Record<string, unknown>>,
    change: Readonly<Record<string, unknown>>,
  ): unknown {
    const after = { ...before };
    for (const [key, part] of Object.entries(change)) {
      if (part === GONE) delete after[key];
      else {
        const value = this.#changed(Object.hasOwn(before, key) ? before[key] : undefined, part);
        if (key !== "__proto__") after[key] = value;
        else
          Object.defineProperty(after, key, {
            value,
            enumerable: true,
            configurable: true,
            writable: true,
          });
      }
    }
    return Object.freeze(after);
  }

  #text(written: string): string {
    if (written.startsWith(LONG_TEXT)) return this.#long.at(Number(written.slice(2)));
    const isLiteral = !written.startsWith(MARK) || written.startsWith(LITERAL);
    if (!isLiteral) return this.#recent.at(Number(written.slice(1)));
    const text = written.startsWith(MARK) ? written.slice(LITERAL.length) : written;
    if (text.length >= LONG) this.#long.add(text);
    else if (text.length >= SHORT) this.#recent.add(text);
    return text;
  }
}

/** Of records of one kind, most fields are the same. */
function kindOf(record: unknown): string {
  if (!isRecord(record)) return "";
  const { type, event, phase, done, name } = record;
  const more = isRecord(event) ? event["type"] : isRecord(done) ? done["operation"] : phase;
  return [type, more ?? (typeof name === "string" ? name.split(".")[0] : "")].join(" ");
}

function newTemplate(): Template {
  return { __proto__: null };
}

function isTemplate(value: unknown): value is Template {
  return isRecord(value);
}

/** What was read, to be changed in place. */
function copied(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copied);
  if (!isRecord(value)) return value;
  const copy = newTemplate();
  for (const [key, part] of Object.entries(value)) copy[key] = copied(part);
  return copy;
}

/** The value of which JSON has the text. */
function asJson(value: unknown): unknown {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  const isOwn = typeof value === "object" && value !== null && "toJSON" in value;
  return isOwn ? JSON.parse(JSON.stringify(value)) : value;
}

/** JSON leaves it out of objects. */
function isAbsent(value: unknown): boolean {
  return value === undefined || typeof value === "function" || typeof value === "symbol";
}

/** True if a copy that takes in what is new at its end has the keys of the value in their order. */
function keepsOrder(copy: Template, value: Readonly<Record<string, unknown>>): boolean {
  const keys = Object.keys(copy);
  let next = 0;
  for (const key of Object.keys(value)) {
    if (keys[next] === key) {
      next += 1;
      continue;
    }
    if (isAbsent(value[key])) continue;
    const at = keys.indexOf(key, next);
    if (at === -1 && Object.hasOwn(copy, key)) return false;
    next = at === -1 ? keys.length : at + 1;
  }
  return true;
}

function listOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new TypeError("it is no list");
}
