// LiveView: the trees of running runs, drawn over and over at the end of a terminal.
// Owns the views of these runs, the frame timer and the live area. Talks to one stream.
//
// 1. It draws at most ten frames a second, however many events come; an event costs microseconds.
// 2. When no run is running it holds nothing: no timer, no listener, no hidden cursor. A run that is
//    paused is not running: when it is resumed, its tree grows anew.
// 3. A stream that breaks silences the view and harms nothing else.

import type { EspalierEvent, EventSink, RunId } from "../index.ts";
import type { Clock } from "../extend.ts";
import { LiveArea, type TerminalStream } from "./live-area.ts";
import { renderRun } from "./render-tree.ts";
import { nextRunView, type RunView } from "./run-view.ts";

const FRAME_MS = 100;
const USUAL_COLUMNS = 80;
const USUAL_ROWS = 24;

/** A running run, and how far its time is ahead of the monotonic clock, by which it is carried on since its last event. */
interface Shown {
  readonly view: RunView;
  readonly aheadMs: number;
}

export class LiveView implements EventSink {
  readonly isLive = true;
  readonly #stream: TerminalStream;
  readonly #clock: Clock;
  readonly #lastFrame: "keep" | "erase";
  readonly #area: LiveArea;
  readonly #runs = new Map<RunId, Shown>();
  #stopTimer: (() => void) | undefined;
  #isStopped = false;

  constructor(stream: TerminalStream, clock: Clock, lastFrame: "keep" | "erase") {
    this.#stream = stream;
    this.#clock = clock;
    this.#lastFrame = lastFrame;
    this.#area = new LiveArea(stream);
  }

  take(event: EspalierEvent): void {
    if (this.#isStopped) return;
    const view = nextRunView(this.#runs.get(event.runId)?.view, event);
    if (view === undefined) return;
    if (this.#runs.size === 0) this.#begin();
    const shown = { view, aheadMs: event.atMs - this.#clock.monotonicMs() };
    this.#runs.set(event.runId, shown);
    if (view.end !== undefined) this.#endRun(shown);
  }

  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    if (this.#runs.size > 0) this.#draw();
    this.#rest();
  }

  #begin(): void {
    this.#stream.on("error", this.#onBroken);
    this.#schedule();
  }

  #schedule(): void {
    this.#stopTimer = this.#clock.setTimer(FRAME_MS, () => {
      try {
        this.#draw();
        this.#schedule();
      } catch {
        // Nothing above a timer catches: what a stream throws must not end the program (3.).
        this.#onBroken();
      }
    });
  }

  #endRun(shown: Shown): void {
    this.#runs.delete(shown.view.runId);
    if (this.#lastFrame === "keep") this.#area.keep(this.#render(shown, this.#rows()));
    else this.#area.erase();
    if (this.#runs.size === 0) this.#rest();
  }

  /** Stops the timer and releases the terminal. */
  #rest(): void {
    this.#runs.clear();
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#area.close();
    this.#stream.off("error", this.#onBroken);
  }

  #draw(): void {
    const rows = Math.max(1, Math.floor(this.#rows() / this.#runs.size));
    this.#area.draw([...this.#runs.values()].flatMap((shown) => this.#render(shown, rows)));
  }

  #render({ view, aheadMs }: Shown, height: number): readonly string[] {
    // Many terminals lose the last character of a line that is as wide as they are.
    const width = (this.#stream.columns ?? USUAL_COLUMNS) - 1;
    const nowMs = aheadMs + this.#clock.monotonicMs();
    return renderRun(view, { width, height, nowMs, hasColor: true });
  }

  #rows(): number {
    return Math.max(1, (this.#stream.rows ?? USUAL_ROWS) - 1);
  }

  readonly #onBroken = (): void => {
    this.#isStopped = true;
    this.#rest();
  };
}
