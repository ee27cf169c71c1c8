// PlainView: runs as plain lines, one for each event that is worth it. Owns when the active runs
// began. Holds nothing when none does. A stream that breaks silences it.

import type { EspalierEvent, EventSink, RunId } from "../index.ts";
import { durationText } from "../view/amounts.ts";
import type { TerminalStream } from "./live-area.ts";
import { HeldRows } from "./held-rows.ts";
import { plainLine } from "./plain-lines.ts";
import { PrintedText } from "./printed-text.ts";

const TIME_WIDTH = 7;

export class PlainView implements EventSink {
  readonly isLive = false;
  readonly #stream: TerminalStream;
  readonly #startedAtMs = new Map<RunId, number>();
  readonly #text = new PrintedText();
  readonly #rows: HeldRows;
  #isStopped = false;

  constructor(stream: TerminalStream) {
    this.#stream = stream;
    this.#rows = new HeldRows((rows) => {
      if (!this.#isStopped) stream.write(rows);
    });
  }

  take(event: EspalierEvent): void {
    if (this.#isStopped) return;
    if (event.type === "run.started" || event.type === "run.resumed") this.#begin(event);
    const line = plainLine(event);
    if (line !== undefined) this.#rows.add(`${this.#stamp(event)}  ${line}\n`);
    if (event.type === "run.ended" || event.type === "run.paused") this.#end(event.runId);
  }

  print(text: string): void {
    if (this.#isStopped) return;
    const rows = this.#text.take(text, Infinity);
    this.#rows.add(this.#startedAtMs.size > 0 ? rows : rows + this.#text.end());
  }

  suspend(): () => void {
    return this.#rows.suspend();
  }

  stop(): void {
    if (this.#isStopped) return;
    this.#rows.add(this.#text.end());
    this.#rows.flush();
    this.#onBroken();
  }

  #begin({ runId, atMs }: EspalierEvent<"run.started" | "run.resumed">): void {
    if (this.#startedAtMs.size === 0) this.#stream.on("error", this.#onBroken);
    this.#startedAtMs.set(runId, atMs);
  }

  #end(runId: RunId): void {
    this.#startedAtMs.delete(runId);
    if (this.#startedAtMs.size > 0) return;
    this.#rows.add(this.#text.end());
    this.#stream.off("error", this.#onBroken);
  }

  /** Time since the start of the run, or since it was resumed, and which run if there are several. */
  #stamp({ runId, atMs }: EspalierEvent): string {
    const sinceMs = atMs - (this.#startedAtMs.get(runId) ?? atMs);
    const time = durationText(sinceMs).padStart(TIME_WIDTH);
    return this.#startedAtMs.size > 1 ? `${time}  ${runId}` : time;
  }

  readonly #onBroken = (): void => {
    this.#isStopped = true;
    this.#startedAtMs.clear();
    this.#stream.off("error", this.#onBroken);
  };
}
