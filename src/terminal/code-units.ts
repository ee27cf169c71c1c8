// CodeUnits: builds one long string. Owns its UTF-16 code units. Adding one costs less than
// concatenating strings.

import { endianness } from "node:os";

export class CodeUnits {
  #units: Uint16Array<ArrayBuffer>;
  #length = 0;
  /** All bits that any unit has. */
  #bits = 0;

  /** `capacity`: the expected length. It grows as needed. */
  constructor(capacity: number) {
    this.#units = new Uint16Array(capacity);
  }

  get length(): number {
    return this.#length;
  }

  /** The last code unit; 0 if there is none. */
  get last(): number {
    return this.#units[this.#length - 1] ?? 0;
  }

  push(unit: number): void {
    if (this.#length === this.#units.length) this.#grow();
    this.#units[this.#length] = unit;
    this.#bits |= unit;
    this.#length += 1;
  }

  /** Adds one code unit so many times. */
  pushRun(unit: number, count: number): void {
    const end = this.#length + count;
    while (end > this.#units.length) this.#grow();
    this.#units.fill(unit, this.#length, end);
    this.#bits |= unit;
    this.#length = end;
  }

  /** Removes code units from the end for which `isRemoved` is true, down to the length `least`. */
  trimEnd(least: number, isRemoved: (unit: number) => boolean): void {
    const units = this.#units;
    let length = this.#length;
    while (length > least && isRemoved(units[length - 1] ?? 0)) length -= 1;
    this.#length = length;
  }

  /** Returns the string. The builder must not be used any more. */
  finish(): string {
    const units = this.#units.subarray(0, this.#length);
    // One byte is enough for each unit.
    if (this.#bits <= 0xff) return Buffer.from(units).toString("latin1");
    const bytes = Buffer.from(units.buffer, 0, units.byteLength);
    return (isLittleEndian ? bytes : bytes.swap16()).toString("utf16le");
  }

  #grow(): void {
    const grown = new Uint16Array(this.#units.length * 2 + 16);
    grown.set(this.#units);
    this.#units = grown;
  }
}

/** Returns the code units of a text. Reading them costs less than `charCodeAt`. */
export function codeUnitsOf(text: string): Uint16Array {
  const bytes = Buffer.alloc(text.length * 2);
  bytes.write(text, "utf16le");
  if (!isLittleEndian) bytes.swap16();
  return new Uint16Array(bytes.buffer, bytes.byteOffset, text.length);
}

const isLittleEndian = endianness() === "LE";
