// LiveView: redraws the trees of running runs at the end of a terminal. Owns the folds of these
// runs, the printed text above them, the frame timer and the live area. Uses one stream.
//
// 1. It draws at most ten frames a second, regardless of the number of events. An event costs
//    microseconds.
// 2. While no run is active, the view holds no timer, no listener and no hidden cursor. A paused
//    run is not active: when it is resumed, its tree starts empty.
// 3. If the stream breaks, the view stops drawing and harms nothing else.

import type { EspalierEvent, EventSink, RunId } from "../index.ts";
import type { Clock } from "../extend.ts";
import { HeldRows, PrintedText } from "./printed-text.ts";
import { LiveArea, type TerminalStream } from "./live-area.ts";
import { renderRun } from "./render-tree.ts";
import { RunFold } from "../read-model/run-fold.ts";

const FRAME_MS = 100;
const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;

/**
 * An active run, and the offset of its time to the monotonic clock, which advances it between
 * events.
 */
interface Shown {
  readonly fold: RunFold;
  aheadMs: number;
}

export class LiveView implements EventSink {
  readonly isLive = true;
  readonly #stream: TerminalStream;
  readonly #clock: Clock;
  readonly #lastFrame: "keep" | "erase";
  readonly #area: LiveArea;
  readonly #runs = new Map<RunId, Shown>();
  readonly #text = new PrintedText();
  /** Rows to print with the next frame, each with a line break at its end. */
  #printed = "";
  #stopTimer: (() => void) | undefined;
  /** Permanent rows above the area. */
  readonly #staying: HeldRows;
  #isStopped = false;

  constructor(stream: TerminalStream, clock: Clock, lastFrame: "keep" | "erase") {
    this.#stream = stream;
    this.#clock = clock;
    this.#lastFrame = lastFrame;
    this.#area = new LiveArea(stream);
    this.#staying = new HeldRows((rows) => {
      if (!this.#isStopped) this.#area.keep(rows);
    });
  }

  emit(event: EspalierEvent): void {
    if (this.#isStopped) return;
    const shown = this.#runs.get(event.runId) ?? this.#open(event);
    if (shown === undefined) return;
    shown.fold.apply(event);
    shown.aheadMs = event.atMs - this.#clock.monotonicMs();
    if (shown.fold.end !== undefined) this.#endRun(shown);
  }

  print(text: string): void {
    if (this.#isStopped) return;
    const rows = this.#text.take(text, this.#getColumns());
    if (this.#runs.size > 0) this.#printed += rows;
    else this.#staying.add(rows + this.#text.end());
  }

  suspend(): () => void {
    if (this.#runs.size > 0) this.#area.erase();
    this.#area.close();
    return this.#staying.suspend();
  }

  stop(): void {
    if (this.#isStopped) return;
    this.#staying.flush();
    this.#isStopped = true;
    this.#printed += this.#text.end();
    if (this.#runs.size > 0) this.#draw();
    this.#release();
  }

  /** Starts to show a run at its start or resume. */
  #open({ type, runId }: EspalierEvent): Shown | undefined {
    if (type !== "run.started" && type !== "run.resumed") return undefined;
    if (this.#runs.size === 0) {
      this.#stream.on("error", this.#onBroken);
      this.#schedule();
    }
    const shown = { fold: new RunFold(runId), aheadMs: 0 };
    this.#runs.set(runId, shown);
    return shown;
  }

  #schedule(): void {
    this.#stopTimer = this.#clock.setTimer(FRAME_MS, () => {
      try {
        if (!this.#staying.isSuspended) this.#draw();
        this.#schedule();
      } catch {
        // No code above a timer callback catches, and an error of the stream must not end the
        // program (3.).
        this.#onBroken();
      }
    });
  }

  #endRun(shown: Shown): void {
    this.#runs.delete(shown.fold.runId);
    const isLast = this.#runs.size === 0;
    const printed = this.#printed + (isLast ? this.#text.end() : "");
    this.#printed = "";
    const frame = this.#lastFrame === "keep" ? this.#render(shown, this.#getRows()) : [];
    const staying = printed + frame.map((line) => `${line}\n`).join("");
    if (staying !== "") this.#staying.add(staying);
    else this.#area.erase();
    if (isLast) this.#release();
  }

  /** Stops the timer and releases the terminal. */
  #release(): void {
    this.#runs.clear();
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#area.close();
    this.#stream.off("error", this.#onBroken);
  }

  #draw(): void {
    const rest = this.#text.rest === "" ? [] : [this.#text.rest];
    const rows = Math.max(1, Math.floor((this.#getRows() - rest.length) / this.#runs.size));
    const trees = [...this.#runs.values()].flatMap((shown) => this.#render(shown, rows));
    this.#area.draw([...rest, ...trees], this.#printed);
    this.#printed = "";
  }

  #render({ fold, aheadMs }: Shown, height: number): readonly string[] {
    const nowMs = aheadMs + this.#clock.monotonicMs();
    return renderRun(fold, { width: this.#getColumns(), height, nowMs, hasColor: true });
  }

  /** Returns the usable width. Many terminals lose the last character of a full line. */
  #getColumns(): number {
    return Math.max(1, (this.#stream.columns || DEFAULT_COLUMNS) - 1);
  }

  #getRows(): number {
    return Math.max(1, (this.#stream.rows || DEFAULT_ROWS) - 1);
  }

  readonly #onBroken = (): void => {
    this.#isStopped = true;
    this.#release();
  };
}
