// PrintedText: text that comes in pieces, as rows. HeldRows: rows that wait while the output is suspended.

import { stripControlCharacters, wrapLine } from "./terminal-text.ts";

export class PrintedText {
  #rest = "";

  /** The row that is not complete yet; empty: there is none. */
  get rest(): string {
    return this.#rest;
  }

  /** Returns the rows that are complete with this piece, each with a line break at its end. */
  take(piece: string, width: number): string {
    const plain = stripControlCharacters(piece);
    // What came before is read again only if it is cut: a row may come in very many pieces.
    const lastStart = plain.lastIndexOf("\n") + 1;
    const rows = lastStart === 0 ? "" : wrapLines(this.#rest + plain.slice(0, lastStart), width);
    const last = lastStart === 0 ? this.#rest + plain : plain.slice(lastStart);
    const lastRows = [...wrapLine(last, width)];
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

/** Wraps the lines of a text. No code unit needs more than two cells. */
function wrapLines(text: string, width: number): string {
  if (text.length <= width / 2) return text;
  const longLines = new RegExp(`^.{${Math.ceil(width / 2)},}`, "gm");
  return text.replace(longLines, (line) => wrapLine(line, width).join("\n"));
}

export class HeldRows {
  readonly #write: (rows: string) => void;
  #suspensions = 0;
  #held = "";

  constructor(write: (rows: string) => void) {
    this.#write = write;
  }

  get isSuspended(): boolean {
    return this.#suspensions > 0;
  }

  /** Writes rows, at once unless it is suspended. */
  add(rows: string): void {
    this.#held += rows;
    if (this.isSuspended || this.#held === "") return;
    const held = this.#held;
    this.#held = "";
    this.#write(held);
  }

  suspend(): () => void {
    this.#suspensions += 1;
    let resume = (): void => {
      resume = () => {};
      this.#suspensions -= 1;
      this.add("");
    };
    return () => resume();
  }

  /** Writes what waits, whoever has suspended it. */
  flush(): void {
    this.#suspensions = 0;
    this.add("");
  }
}
