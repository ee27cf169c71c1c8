// LiveArea: redraws the last lines of a terminal. Owns these lines and the cursor, which is hidden
// while the area is open. Uses one stream, and the process for its end.
//
// 1. However the program ends, by itself, by an uncaught error or by a signal, the cursor is shown
//    again.
// 2. Signals still reach the program: its own handler decides, and without one, the signal ends the
//    process.

import { measureDisplayWidth } from "./terminal-text.ts";

/** Part of a writable stream that a view needs. `process.stdout` and `process.stderr` fit. */
export interface TerminalStream {
  /** Whether the stream is a terminal. */
  readonly isTTY?: boolean;
  /** Width in cells. `undefined` or 0 if it is unknown. */
  readonly columns?: number;
  /** Height in lines. `undefined` or 0 if it is unknown. */
  readonly rows?: number;
  /** Writes text. */
  write(text: string): unknown;
  /** Adds a listener for errors of the stream. */
  on(event: "error", listener: (error: Error) => void): unknown;
  /** Removes a listener. */
  off(event: "error", listener: (error: Error) => void): unknown;
}

const HIDE_CURSOR = "\x1b[?25l";
const SHOW_CURSOR = "\x1b[?25h";
const CLEAR_TO_END_OF_LINE = "\x1b[K";
const CLEAR_BELOW = "\x1b[J";
const moveCursorUp = (rows: number): string => (rows === 0 ? "" : `\x1b[${rows}A`);

const ENDING_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export class LiveArea {
  readonly #stream: TerminalStream;
  #drawn: readonly string[] = [];
  #isOpen = false;

  constructor(stream: TerminalStream) {
    this.#stream = stream;
  }

  /**
   * Draws `lines` over the previous ones, below the permanent rows of `staying`. Lines must not be
   * wider than the terminal. Each row of `staying` ends with a line break.
   */
  draw(lines: readonly string[], staying = ""): void {
    const opening = this.#isOpen ? "" : this.#open();
    const above = staying === "" ? "" : CLEAR_BELOW + staying;
    const rows = lines.map((line) => `${line}${CLEAR_TO_END_OF_LINE}\n`).join("");
    this.#stream.write(opening + this.#toTop() + above + rows + CLEAR_BELOW);
    this.#drawn = lines;
  }

  /**
   * Writes permanent rows above the area. Each ends with a line break. The next frame redraws the
   * area.
   */
  keep(rows: string): void {
    this.#stream.write(this.#toTop() + CLEAR_BELOW + rows);
    this.#drawn = [];
  }

  /** Erases the area. */
  erase(): void {
    if (this.#drawn.length > 0) this.draw([]);
  }

  /** Leaves the last frame in place and restores the terminal. */
  close(): void {
    this.#drawn = [];
    if (!this.#isOpen) return;
    this.#isOpen = false;
    process.off("exit", this.#showCursor);
    for (const signal of ENDING_SIGNALS) process.off(signal, this.#endBySignal);
    this.#showCursor();
  }

  #open(): string {
    this.#isOpen = true;
    process.on("exit", this.#showCursor);
    // Prepended, so that a listener that removes itself when called is still counted.
    for (const signal of ENDING_SIGNALS) process.prependListener(signal, this.#endBySignal);
    return HIDE_CURSOR;
  }

  #toTop(): string {
    // After the window was narrowed, earlier lines take more rows.
    const columns = this.#stream.columns || Infinity;
    const rows = this.#drawn.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(measureDisplayWidth(line) / columns)),
      0,
    );
    return `${moveCursorUp(rows)}\r`;
  }

  readonly #showCursor = (): void => {
    this.#stream.write(SHOW_CURSOR);
  };

  readonly #endBySignal = (signal: NodeJS.Signals): void => {
    if (process.listenerCount(signal) > 1) return;
    this.close();
    process.kill(process.pid, signal);
  };
}
