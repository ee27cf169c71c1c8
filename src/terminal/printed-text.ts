// PrintedText: converts streamed text to rows. HeldRows: buffers rows while the output is
// suspended.

import { stripControlCharacters, wrapLine } from "./terminal-text.ts";

export class PrintedText {
  #rest = "";

  /** The incomplete last row. Empty after a line break. */
  get rest(): string {
    return this.#rest;
  }

  /** Returns the rows that this piece completes, each with a line break at its end. */
  take(piece: string, width: number): string {
    const plain = stripControlCharacters(piece);
    // The previous rest is read again only when a row ends, because a row may have very many
    // pieces.
    const lastStart = plain.lastIndexOf("\n") + 1;
    const rows = lastStart === 0 ? "" : wrapLines(this.#rest + plain.slice(0, lastStart), width);
    const last = lastStart === 0 ? this.#rest + plain : plain.slice(lastStart);
    const lastRows = [...wrapLine(last, width)];
    this.#rest = lastRows.pop() ?? "";
    return rows + lastRows.map((row) => `${row}\n`).join("");
  }

  /** Returns the incomplete last row, like `take`, at the end of the text. */
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

  /** Writes rows at once, or buffers them while suspended. */
  add(rows: string): void {
    this.#held += rows;
    if (this.isSuspended || this.#held === "") return;
    const buffered = this.#held;
    this.#held = "";
    this.#write(buffered);
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

  /** Writes all buffered rows, and ends every suspension. */
  flush(): void {
    this.#suspensions = 0;
    this.add("");
  }
}
