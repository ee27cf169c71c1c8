// FakeTerminal: a stream with a screen, so that tests inspect what a person would see instead of
// escape sequences. Owns the lines of the screen, the cursor and everything that was written.
// Supports only the sequences that the live view uses.

import type { TerminalStream } from "../../../src/terminal/live-area.ts";

export interface FakeTerminalOptions {
  /** Default true. */
  readonly isTTY?: boolean;
  /** Default 100. With 0 the width is unknown, and lines may be of any width. */
  readonly columns?: number;
  /** Default 24. With 0 the height is unknown. */
  readonly rows?: number;
}

export class FakeTerminal implements TerminalStream {
  readonly isTTY: boolean;
  readonly columns: number;
  readonly rows: number;
  /** Every write, in order. */
  readonly writes: string[] = [];
  isCursorShown = true;
  #lines: readonly string[] = [""];
  #row = 0;
  #column = 0;
  #listeners: readonly ((error: Error) => void)[] = [];

  constructor(options: FakeTerminalOptions = {}) {
    this.isTTY = options.isTTY ?? true;
    this.columns = options.columns ?? 100;
    this.rows = options.rows ?? 24;
  }

  /** The text on the screen and above it, without colours and trailing blanks. */
  get screen(): string {
    return this.#lines
      .map((line) => line.trimEnd())
      .join("\n")
      .trimEnd();
  }

  get listeners(): number {
    return this.#listeners.length;
  }

  write(text: string): boolean {
    this.writes.push(text);
    for (const [token] of text.matchAll(TOKENS)) this.#take(token);
    return true;
  }

  on(_event: "error", listener: (error: Error) => void): this {
    this.#listeners = [...this.#listeners, listener];
    return this;
  }

  off(_event: "error", listener: (error: Error) => void): this {
    this.#listeners = this.#listeners.filter((other) => other !== listener);
    return this;
  }

  /** Behaves like a pipe whose reader has closed. */
  break(): void {
    for (const listener of this.#listeners) listener(new Error("write EPIPE"));
  }

  #take(token: string): void {
    const [, amount = "", action] = SEQUENCE.exec(token) ?? [];
    switch (action) {
      case undefined:
        this.#print(token);
        return;
      case "m":
        return;
      case "A":
        this.#row -= Number(amount);
        if (this.#row < 0) throw new Error("The cursor left the screen.");
        return;
      case "K":
        this.#setLine(this.#line.slice(0, this.#column));
        return;
      case "J":
        this.#setLine(this.#line.slice(0, this.#column));
        this.#lines = this.#lines.slice(0, this.#row + 1);
        return;
      case "h":
      case "l":
        if (amount !== "?25") break;
        this.isCursorShown = action === "h";
        return;
    }
    throw new Error(`The screen does not know ${JSON.stringify(token)}.`);
  }

  #print(token: string): void {
    if (token === "\r") this.#column = 0;
    else if (token === "\n") {
      this.#row += 1;
      this.#column = 0;
      if (this.#row === this.#lines.length) this.#lines = [...this.#lines, ""];
    } else {
      const before = this.#line.slice(0, this.#column).padEnd(this.#column);
      this.#column += token.length;
      this.#setLine(before + token + this.#line.slice(this.#column));
      if (this.isTTY && this.columns > 0 && this.#column >= this.columns)
        throw new Error(`A line is too wide: ${this.#line}`);
    }
  }

  get #line(): string {
    return this.#lines[this.#row] ?? "";
  }

  #setLine(line: string): void {
    this.#lines = this.#lines.with(this.#row, line);
  }
}

/* oxlint-disable no-control-regex -- a terminal is made of control characters */
const SEQUENCE = /^\u001b\[([?0-9;]*)([A-Za-z])$/;
const TOKENS = /\u001b\[[?0-9;]*[A-Za-z]|\n|\r|[^\u001b\n\r]+/g;
