// Minimap: shows the whole run above its timeline, to select the visible time. It is drawn after
// the first frame and at most twice a second, because it draws every span.

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { startTimer } from "../data/page-clock.ts";
import { theme } from "../app/theme.ts";
import { readPalette, type Palette } from "./palette.ts";
import type { RunView } from "./run-view.ts";
import { fitCanvas } from "./fitted-canvas.ts";
import type { SpanNumbers } from "../../src/read-model/viewer-data.ts";
import { createScale } from "./run-time.ts";
import { iterateSpans } from "./spans.ts";
import { scaleToShare, scaleToX } from "./timeline-paint.ts";
import type { TimeScale } from "./time-scale.ts";

const EVERY_MS = 500;
/** A shorter selection is a click, which resets the visible time. */
const MIN_SHARE = 0.005;

export function Minimap({ view }: { readonly view: RunView }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDue = useRef(false);
  const schedule = (): (() => void) | undefined => {
    if (isDue.current) return undefined;
    isDue.current = true;
    return startTimer(EVERY_MS, () => {
      isDue.current = false;
      if (canvas.current !== null) paintMinimap(canvas.current, view);
    });
  };
  // After the first frame, which has the rows.
  useEffect(
    () => startTimer(0, () => canvas.current !== null && paintMinimap(canvas.current, view)),
    [view],
  );
  useSignalEffect(() => {
    void view.state.amounts.value;
    void theme.value;
    void schedule();
  });
  return (
    <div class="minimap" aria-hidden="true">
      <canvas ref={canvas} onPointerDown={(event) => trackBrush(event, view)} />
      <Brush view={view} />
    </div>
  );
}

function Brush({ view }: { readonly view: RunView }) {
  const { from, to } = view.timeWindow.value ?? { from: 0, to: 1 };
  const element = useRef<HTMLDivElement>(null);
  const widthPx = element.current?.parentElement?.clientWidth ?? 0;
  const left = scaleToX(from, widthPx);
  return (
    <div
      ref={element}
      class="brush"
      hidden={from === 0 && to === 1}
      style={{ left: `${left}px`, width: `${scaleToX(to, widthPx) - left}px` }}
    />
  );
}

function trackBrush(event: PointerEvent, view: RunView): void {
  const { currentTarget, pointerId } = event;
  if (!(currentTarget instanceof HTMLElement)) return;
  const { left, width } = currentTarget.getBoundingClientRect();
  const toShare = ({ clientX }: PointerEvent): number => scaleToShare(clientX - left, width);
  const begun = toShare(event);
  const move = (moved: PointerEvent): void => {
    const now = toShare(moved);
    const isClick = Math.abs(now - begun) < MIN_SHARE;
    view.timeWindow.value = isClick
      ? undefined
      : { from: Math.min(begun, now), to: Math.max(begun, now) };
  };
  currentTarget.setPointerCapture(pointerId);
  currentTarget.addEventListener("pointermove", move);
  currentTarget.addEventListener(
    "pointerup",
    (ended) => {
      move(ended);
      currentTarget.removeEventListener("pointermove", move);
    },
    { once: true },
  );
}

function paintMinimap(canvas: HTMLCanvasElement, view: RunView): void {
  const fitted = fitCanvas(canvas);
  if (fitted === undefined) return;
  const { context, widthPx, heightPx } = fitted;
  const palette = readPalette(canvas);
  const { agents } = view.state;
  const scale = createScale(view.state);
  const rowPx = Math.min(4, heightPx / Math.max(1, agents.length));
  const rows = Math.max(1, Math.min(agents.length, Math.floor(heightPx)));
  const lines = Array.from({ length: rows }, () => new Uint8Array(Math.ceil(widthPx)));
  for (let index = 0; index < agents.length; index += 1) {
    const line = lines[Math.min(rows - 1, Math.floor((index / agents.length) * rows))];
    if (line !== undefined) markSpans(line, view.state.getSpans(index), scale);
  }
  context.clearRect(0, 0, widthPx, heightPx);
  const barPx = Math.max(1, rowPx * 0.8);
  for (const [at, line] of lines.entries())
    paintRuns(context, line, palette, { y: at * Math.max(1, rowPx), barPx });
}

/**
 * Kinds of marks. A mark is stored in a line as its index; a higher index hides a lower one, and 0
 * is empty.
 */
const MARKS = ["", "busy", "queue", "budget", "tool", "chat", "retry", "ask", "bad"] as const;
type Mark = (typeof MARKS)[number];

/**
 * Marks the pixels of a line with the activity at that time. Thousands of agents share a line, and
 * drawing them one by one would take longer than a frame.
 */
function markSpans(line: Uint8Array, spans: SpanNumbers, scale: TimeScale): void {
  for (const { kind, fromMs, toMs, end } of iterateSpans(spans, scale.endMs)) {
    if (kind === "wait" || kind === "park") continue;
    // The delay after a failed attempt is not a failure.
    const isWork = kind === "chat" || kind === "tool";
    const mark = MARKS.indexOf(isWork && end === "failed" ? "bad" : kind);
    const to = Math.ceil(scaleToX(scale.toShare(toMs), line.length));
    for (let x = Math.floor(scaleToX(scale.toShare(fromMs), line.length)); x < to; x += 1)
      if ((line[x] ?? 0) < mark) line[x] = mark;
  }
}

/** Draws adjacent equal pixels as one bar. */
function paintRuns(
  context: CanvasRenderingContext2D,
  line: Uint8Array,
  palette: Palette,
  { y, barPx }: { readonly y: number; readonly barPx: number },
): void {
  let from = 0;
  for (let x = 1; x <= line.length; x += 1) {
    if (x < line.length && line[x] === line[from]) continue;
    const mark: Mark = MARKS[line[from] ?? 0] ?? "";
    if (mark !== "") {
      context.fillStyle = palette(mark);
      context.fillRect(from, y, x - from, barPx);
    }
    from = x;
  }
}
