// PrintedText: text that comes in pieces, as rows. Owns the row that is not complete yet. A row is complete once a line break ends it, or
// once it is as wide as it may be.

import { plainPiece, wrappedRows } from "./terminal-text.ts";

export class PrintedText {
  #rest = "";

  /** The row that is not complete yet; empty: there is none. */
  get rest(): string {
    return this.#rest;
  }

  /** The rows that are complete with this piece. */
  take(text: string, width: number): readonly string[] {
    const [first = "", ...lines] = plainPiece(text).split("\n");
    const rows: string[] = [];
    for (const line of [this.#rest + first, ...lines]) {
      // No code unit needs more than two cells. A row without a limit is not read again: it may come
      // in very many pieces.
      if (line.length <= width / 2) rows.push(line);
      else for (const row of wrappedRows(line, width)) rows.push(row);
    }
    this.#rest = rows.pop() ?? "";
    return rows;
  }

  /** The row that was not complete, if there is one: nothing follows it. */
  end(): readonly string[] {
    const { rest } = this;
    this.#rest = "";
    return rest === "" ? [] : [rest];
  }
}
