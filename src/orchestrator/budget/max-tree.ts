// MaxTree: rows of numbers in a fixed order, of which it finds the first with a number above its bound without looking at the others.
// Owns: a binary tree over the rows; each of its nodes has the greatest number of every column below it.
//
// Appending, changing, removing and finding take time logarithmic in the rows that it holds, on average.

import { invariant } from "../../kernel/assert.ts";

/** Where an item stands. Changes when the tree makes room, so it is looked up anew each time. */
export interface Row<Item> {
  readonly item: Item;
  readonly slot: number;
}

/** Whether some number of a row, or of all rows below a node, is above its bound. They stand in `numbers` from `offset` on. */
export type IsAbove = (numbers: Float64Array, offset: number) => boolean;

interface MovableRow<Item> extends Row<Item> {
  slot: number;
}

const FEWEST_SLOTS = 2;

export class MaxTree<Item> {
  readonly #columns: number;
  /** A power of two. The node of slot s is at `#slots + s`; node n has its children at 2n and 2n + 1. */
  #slots = FEWEST_SLOTS;
  #numbers: Float64Array;
  /** By slot; undefined: removed. */
  #rows: (MovableRow<Item> | undefined)[] = [];
  #size = 0;

  constructor(columns: number) {
    this.#columns = columns;
    this.#numbers = this.#empty();
  }

  /** Rows that it holds. */
  get size(): number {
    return this.#size;
  }

  /** Puts a row after all others. */
  append(item: Item, numbers: readonly number[]): Row<Item> {
    if (this.#rows.length === this.#slots) this.#makeRoom();
    const row = { item, slot: this.#rows.length };
    this.#rows.push(row);
    this.#size += 1;
    this.changeSome(row, numbers);
    return row;
  }

  /** Replaces the first numbers of a row. */
  changeSome({ slot }: Row<Item>, numbers: readonly number[]): void {
    invariant(numbers.length <= this.#columns, "a row has a number for each column");
    this.#numbers.set(numbers, (this.#slots + slot) * this.#columns);
    this.#climb(slot);
  }

  /** Replaces one number of a row. */
  changeOne({ slot }: Row<Item>, column: number, number: number): void {
    this.#numbers[(this.#slots + slot) * this.#columns + column] = number;
    this.#climb(slot);
  }

  remove({ slot }: Row<Item>): void {
    invariant(this.#rows[slot] !== undefined, "a row is removed once");
    this.#rows[slot] = undefined;
    this.#size -= 1;
    const start = (this.#slots + slot) * this.#columns;
    this.#numbers.fill(-Infinity, start, start + this.#columns);
    this.#climb(slot);
  }

  /** The first row from a slot on of which a number is above its bound. */
  first(from: number, isAbove: IsAbove): Row<Item> | undefined {
    if (from >= this.#rows.length) return undefined;
    let node = this.#slots + from;
    while (!isAbove(this.#numbers, node * this.#columns)) {
      while (node % 2 === 1) {
        if (node === 1) return undefined;
        node = (node - 1) / 2;
      }
      node += 1;
    }
    while (node < this.#slots) {
      node *= 2;
      if (!isAbove(this.#numbers, node * this.#columns)) node += 1;
    }
    return this.#rows[node - this.#slots];
  }

  /** All rows, in order. */
  *[Symbol.iterator](): Iterator<Row<Item>, undefined> {
    for (const row of this.#rows) if (row !== undefined) yield row;
  }

  /** Brings the nodes above a slot up to date. */
  #climb(slot: number): void {
    for (let node = (this.#slots + slot) >> 1; node >= 1; node >>= 1) this.#gather(node);
  }

  #gather(node: number): void {
    const [at, left] = [node * this.#columns, node * 2 * this.#columns];
    for (let column = 0; column < this.#columns; column += 1) {
      const [one = -Infinity, other = -Infinity] = [
        this.#numbers[left + column],
        this.#numbers[left + this.#columns + column],
      ];
      this.#numbers[at + column] = one > other ? one : other;
    }
  }

  /** Closes the gaps that removed rows left; doubles the slots if there are few. */
  #makeRoom(): void {
    const [before, slots] = [this.#numbers, this.#slots];
    if (this.#size * 2 > slots) this.#slots = slots * 2;
    this.#numbers = this.#empty();
    const rows = this.#rows.filter((row) => row !== undefined);
    for (const [slot, row] of rows.entries()) {
      const start = (slots + row.slot) * this.#columns;
      const numbers = before.subarray(start, start + this.#columns);
      this.#numbers.set(numbers, (this.#slots + slot) * this.#columns);
      row.slot = slot;
    }
    this.#rows = rows;
    for (let node = this.#slots - 1; node >= 1; node -= 1) this.#gather(node);
  }

  #empty(): Float64Array {
    return new Float64Array(this.#slots * 2 * this.#columns).fill(-Infinity);
  }
}
