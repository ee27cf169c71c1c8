// CodeUnits: builds one long string. Owns its UTF-16 code units. Adding one costs less than
// concatenating strings.

export class CodeUnits {
  #bytes: Buffer;
  #length = 0;
  /** All bits that any unit has. */
  #bits = 0;

  /** `capacity`: the expected length. It grows as needed. */
  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafe(capacity * 2);
  }

  get length(): number {
    return this.#length;
  }

  /** The last code unit; 0 if there is none. */
  get last(): number {
    return this.#length === 0 ? 0 : this.#at(this.#length - 1);
  }

  push(unit: number): void {
    const at = this.#length * 2;
    if (at + 2 > this.#bytes.length) this.#grow();
    this.#bytes[at] = unit;
    this.#bytes[at + 1] = unit >> 8;
    this.#bits |= unit;
    this.#length += 1;
  }

  pushText(text: string): void {
    for (let index = 0; index < text.length; index += 1) this.push(text.charCodeAt(index));
  }

  /** Removes code units from the end for which `isRemoved` is true, down to the length `least`. */
  trimEnd(least: number, isRemoved: (unit: number) => boolean): void {
    while (this.#length > least && isRemoved(this.last)) this.#length -= 1;
  }

  /** Returns the string. The builder must not be used any more. */
  finish(): string {
    const bytes = this.#bytes;
    const length = this.#length;
    if (this.#bits > 0xff) return bytes.toString("utf16le", 0, length * 2);
    for (let index = 0; index < length; index += 1) bytes[index] = bytes[index * 2] ?? 0;
    return bytes.toString("latin1", 0, length);
  }

  #at(index: number): number {
    return (this.#bytes[index * 2] ?? 0) | ((this.#bytes[index * 2 + 1] ?? 0) << 8);
  }

  #grow(): void {
    const grown = Buffer.allocUnsafe(this.#bytes.length * 2 + 16);
    this.#bytes.copy(grown);
    this.#bytes = grown;
  }
}
