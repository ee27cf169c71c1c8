// The timeline beside the tree: a canvas that stays in view while the rows scroll, redrawn at most
// once per frame. Screen readers skip it, because the tree has the same content.

import { computed, effect, signal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { theme } from "../app/theme.ts";
import { AT } from "../data/agent-row.ts";
import { formatDuration } from "../../src/read-model/amounts.ts";
import { toLine } from "../text/shown-text.tsx";
import { fitCanvas } from "./fitted-canvas.ts";
import { readPalette } from "./palette.ts";
import { computeElapsedMs, createScale } from "./run-time.ts";
import { ROW_PX, type RunView } from "./run-view.ts";
import { iterateSpans, type Span } from "./spans.ts";
import { paintAxis, paintTimeline, scaleToShare, toTime, type Sheet } from "./timeline-paint.ts";

const ALL = { from: 0, to: 1 };
/** Distance from a span that still hits it, in pixels. */
const NEAR_PX = 3;

interface Tip {
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

export type Hover = ReturnType<typeof createHover>;

/** Creates the hover state of the timeline: the row at the pointer, and its tooltip. */
export function createHover() {
  const at: Signal<number | undefined> = signal(undefined);
  const tip: Signal<Tip | undefined> = signal(undefined);
  return { at, tip };
}

interface TimelineProps {
  readonly view: RunView;
  readonly hover: Hover;
  readonly onChoose: (at: number) => void;
}

export function TimeAxis({ view }: { readonly view: RunView }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => drawEachFrame(canvas.current, view, () => undefined, paintAxis), [view]);
  return <canvas ref={canvas} class="axis" aria-hidden="true" />;
}

export function Timeline({ view, hover, onChoose }: TimelineProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const watched = (): void => {
      void view.range.value;
      void view.scrollTop.value;
      void view.cursor.value;
      void view.listing.value;
      void hover.at.value;
    };
    return drawEachFrame(canvas.current, view, watched, (sheet) =>
      paintTimeline(sheet, collectRows(view, hover)),
    );
  }, [view, hover]);
  const leave = (): void => {
    hover.at.value = undefined;
    hover.tip.value = undefined;
  };
  return (
    <canvas
      ref={canvas}
      class="timeline"
      aria-hidden="true"
      onPointerMove={(event) => updateHover(event, view, hover)}
      onPointerLeave={leave}
      onClick={(event) => onChoose(Math.floor((event.offsetY + view.scrollTop.value) / ROW_PX))}
      onWheel={(event) => zoom(event, view)}
    />
  );
}

function collectRows(view: RunView, hover: Hover) {
  const { state } = view;
  const { from, to } = view.range.peek();
  return {
    lines: view.listing.peek().lines.slice(from, to),
    from,
    topPx: from * ROW_PX - view.scrollTop.peek(),
    cursorAt: view.cursorAt,
    hoverAt: hover.at.peek(),
    agents: state.agents,
    startedAtMs: state.head.peek().startedAtMs,
    spansOf: (index: number) => state.getSpans(index),
  };
}

/** Draws the canvas whenever a watched signal changes. Returns the function that stops it. */
function drawEachFrame(
  canvas: HTMLCanvasElement | null,
  view: RunView,
  watched: () => void,
  paint: (sheet: Sheet) => void,
): () => void {
  if (canvas === null) return () => undefined;
  let frame = 0;
  const draw = (): void => {
    frame = 0;
    const fitted = fitCanvas(canvas);
    if (fitted === undefined) return;
    const window = view.timeWindow.peek() ?? ALL;
    paint({
      ...fitted,
      palette: readPalette(canvas),
      rowPx: ROW_PX,
      scale: createScale(view.state),
      window,
    });
  };
  const schedule = (): void => {
    if (frame === 0) frame = requestAnimationFrame(draw);
  };
  const elapsed = computed(() => computeElapsedMs(view.state));
  const stop = effect(() => {
    void elapsed.value;
    void view.state.amounts.value;
    void view.timeWindow.value;
    void theme.value;
    watched();
    schedule();
  });
  const sizes = new ResizeObserver(schedule);
  sizes.observe(canvas);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", schedule);
  return () => {
    stop();
    sizes.disconnect();
    dark.removeEventListener("change", schedule);
    cancelAnimationFrame(frame);
  };
}

function updateHover(event: PointerEvent, view: RunView, hover: Hover): void {
  const { currentTarget, offsetX, offsetY } = event;
  if (!(currentTarget instanceof HTMLElement)) return;
  const at = Math.floor((offsetY + view.scrollTop.value) / ROW_PX);
  hover.at.value = at;
  const line = view.listing.value.lines[at];
  const sheet = {
    scale: createScale(view.state),
    window: view.timeWindow.value ?? ALL,
    widthPx: currentTarget.clientWidth,
  };
  const hovered =
    line?.kind === "agent"
      ? findSpan(
          view,
          line.index,
          toTime(sheet, offsetX - NEAR_PX),
          toTime(sheet, offsetX + NEAR_PX),
        )
      : undefined;
  hover.tip.value = hovered && {
    x: event.clientX,
    y: event.clientY,
    text: describeSpan(hovered, view),
  };
}

/** Returns the shortest span at a position, because short spans are drawn over long ones. */
function findSpan(
  { state }: RunView,
  index: number,
  fromMs: number,
  toMs: number,
): Span | undefined {
  const near = [...iterateSpans(state.getSpans(index), computeElapsedMs(state))].filter(
    (span) => span.fromMs <= toMs && span.toMs >= fromMs,
  );
  return near.toSorted((left, right) => left.toMs - left.fromMs - (right.toMs - right.fromMs))[0];
}

const KIND_TEXTS: Readonly<Record<Span["kind"], string>> = {
  chat: "model call",
  tool: "tool",
  wait: "waits for a subagent",
  budget: "waits for budget",
  queue: "waits for a slot or a provider limit",
  busy: "the process is busy",
  retry: "waits before another attempt",
  ask: "waits for an answer",
  park: "the run is paused",
};

function describeSpan(
  { kind, step, fromMs, toMs, end, account }: Span,
  { state }: RunView,
): string {
  const ending = end === "ok" ? "" : ` · ${end}`;
  const owner = state.agents[account]?.[AT.name];
  const ofOwner = owner === undefined ? "" : ` of ${toLine(owner)}`;
  return `${KIND_TEXTS[kind]}${ofOwner}${step > 0 ? ` · step ${step}` : ""} · ${formatDuration(toMs - fromMs)}${ending}`;
}

/** Zooms the time around the pointer, with Ctrl and the wheel. */
function zoom(event: WheelEvent, view: RunView): void {
  if (!event.ctrlKey || !(event.currentTarget instanceof HTMLElement)) return;
  event.preventDefault();
  const { from, to } = view.timeWindow.value ?? ALL;
  const centre = from + scaleToShare(event.offsetX, event.currentTarget.clientWidth) * (to - from);
  const factor = event.deltaY > 0 ? 1.25 : 0.8;
  const next = {
    from: Math.max(0, centre - (centre - from) * factor),
    to: Math.min(1, centre + (to - centre) * factor),
  };
  view.timeWindow.value = next.from === 0 && next.to === 1 ? undefined : next;
}

const LEGEND = [
  ["chat", "", "model"],
  ["tool", "", "tool"],
  ["wait", "hatched", "waits for a subagent"],
  ["budget", "thin", "for budget"],
  ["queue", "thin", "for a slot or limit"],
  ["busy", "thin", "process busy"],
  ["retry", "thin", "for another attempt"],
  ["ask", "hatched", "for an answer"],
] as const;

export function TimelineLegend() {
  return (
    <div class="legend" aria-hidden="true">
      {LEGEND.map(([kind, look, text]) => (
        <span key={kind}>
          <i class={`key ${look}`} style={{ "--colour": `var(--${kind})` }} />
          {text}
        </span>
      ))}
    </div>
  );
}

export function TimelineTip({ hover }: { readonly hover: Hover }) {
  const tip = hover.tip.value;
  if (tip === undefined) return null;
  return (
    <div class="tip" aria-hidden="true" style={{ left: `${tip.x + 12}px`, top: `${tip.y + 14}px` }}>
      {tip.text}
    </div>
  );
}
