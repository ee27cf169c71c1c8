// PrintedText: text that comes in pieces, as rows. Owns the row that is not complete yet. A line
// break completes a row, and so does the width of the terminal.

import { plainPiece, wrappedRows } from "./terminal-text.ts";

export class PrintedText {
  #rest = "";

  /** The row that is not complete yet; empty: there is none. */
  get rest(): string {
    return this.#rest;
  }

  /** Returns the rows that are complete with this piece, each with a line break at its end. */
  take(piece: string, width: number): string {
    const plain = plainPiece(piece);
    // What came before is read again only if it is cut: a row may come in very many pieces.
    const lastStart = plain.lastIndexOf("\n") + 1;
    const rows = lastStart === 0 ? "" : wrapLines(this.#rest + plain.slice(0, lastStart), width);
    const last = lastStart === 0 ? this.#rest + plain : plain.slice(lastStart);
    const lastRows = isShort(last.length, width) ? [last] : [...wrappedRows(last, width)];
    this.#rest = lastRows.pop() ?? "";
    return rows + lastRows.map((row) => `${row}\n`).join("");
  }

  /** Returns the row that was not complete, as `take` does. Nothing follows it. */
  end(): string {
    const { rest } = this;
    this.#rest = "";
    return rest === "" ? "" : `${rest}\n`;
  }
}

/** Wraps the lines of a text that ends with a line break. */
function wrapLines(text: string, width: number): string {
  if (isShort(text.length, width)) return text;
  const most = Math.floor(width / 2);
  let wrapped = "";
  let from = 0;
  for (let start = 0; start < text.length;) {
    // The lines that end within so many code units are short. A line break is before the first.
    const shortEnd = text.lastIndexOf("\n", start + most);
    if (shortEnd >= start) {
      start = shortEnd + 1;
      continue;
    }
    const end = text.indexOf("\n", start);
    const rows = wrappedRows(text.slice(start, end), width);
    wrapped += text.slice(from, start) + rows.join("\n");
    from = end;
    start = end + 1;
  }
  return wrapped + text.slice(from);
}

/** Returns true if so many code units fit for sure: none needs more than two cells. */
function isShort(length: number, width: number): boolean {
  return length <= width / 2;
}
