// Draws the visible rows of the timeline. Work is solid, waiting is hatched or thin.

import type { AgentRow, SpanNumbers } from "../../src/read-model/viewer-data.ts";
import { AT, hasEnded, getDisplayStatus } from "../data/agent-row.ts";
import { formatDuration } from "../../src/read-model/amounts.ts";
import type { TimeScale, TimeWindow } from "./time-scale.ts";
import type { AgentLine, GroupLine, TreeLine } from "./tree-lines.ts";
import { getHatching, type Palette } from "./palette.ts";
import { iterateSpans, type Span } from "./spans.ts";

const BAR_PX = 10;
const THIN_PX = 4;
const THIN: ReadonlySet<Span["kind"]> = new Set(["budget", "queue", "busy", "retry"]);
/** Minimum width, so that short spans are visible. */
const MIN_PX = 1.5;
/** Margins: before the start, and after the end for the cross of a failure. */
const LEFT_PX = 8;
const RIGHT_PX = 14;

export interface Sheet {
  readonly context: CanvasRenderingContext2D;
  readonly palette: Palette;
  readonly widthPx: number;
  readonly heightPx: number;
  readonly rowPx: number;
  readonly scale: TimeScale;
  readonly window: TimeWindow;
}

export type TimeLine = Pick<Sheet, "scale" | "window" | "widthPx">;

export interface TimelineRows {
  readonly lines: readonly TreeLine[];
  /** Index of the first line, and its offset above the sheet. */
  readonly from: number;
  readonly topPx: number;
  readonly cursorAt: number;
  readonly hoverAt: number | undefined;
  readonly agents: readonly AgentRow[];
  readonly startedAtMs: number;
  spansOf(index: number): SpanNumbers;
}

export function paintTimeline(sheet: Sheet, rows: TimelineRows): void {
  const { context, widthPx, heightPx } = sheet;
  context.clearRect(0, 0, widthPx, heightPx);
  paintGrid(sheet);
  for (const [at, line] of rows.lines.entries()) {
    const y = rows.topPx + at * sheet.rowPx;
    if (rows.from + at === rows.cursorAt) paintRow(sheet, y, sheet.palette("selected"));
    else if (rows.from + at === rows.hoverAt) paintRow(sheet, y, sheet.palette("hover"));
    if (line.kind === "agent") paintAgent(sheet, rows, line, y);
    if (line.kind === "group") paintGroup(sheet, rows, line, y);
  }
  paintBreaks(sheet);
}

/** Returns the x position for a time since the start of the run. */
function toX({ scale, window, widthPx }: TimeLine, ms: number): number {
  return scaleToX((scale.toShare(ms) - window.from) / (window.to - window.from), widthPx);
}

/** Returns the x position for a share of the visible time. */
export function scaleToX(share: number, widthPx: number): number {
  return LEFT_PX + share * (widthPx - LEFT_PX - RIGHT_PX);
}

/** Returns the share of the visible time at an x position. */
export function scaleToShare(x: number, widthPx: number): number {
  return Math.max(0, Math.min(1, (x - LEFT_PX) / Math.max(1, widthPx - LEFT_PX - RIGHT_PX)));
}

/** Returns the time since the start of the run at an x position. */
export function toTime({ scale, window, widthPx }: TimeLine, x: number): number {
  return scale.toTime(window.from + scaleToShare(x, widthPx) * (window.to - window.from));
}

function paintRow({ context, widthPx, rowPx }: Sheet, y: number, colour: string): void {
  context.fillStyle = colour;
  context.fillRect(0, y, widthPx, rowPx);
}

function paintGrid(sheet: Sheet): void {
  const { context, palette, scale, window, widthPx, heightPx } = sheet;
  context.fillStyle = palette("faint");
  for (const ms of scale.listTicks(window, widthPx, 90))
    context.fillRect(Math.round(toX(sheet, ms)), 0, 1, heightPx);
}

function paintAgent(
  sheet: Sheet,
  rows: TimelineRows,
  { index, isDimmed }: AgentLine,
  y: number,
): void {
  const row = rows.agents[index];
  if (row === undefined) return;
  const { context, palette, scale } = sheet;
  const middle = y + sheet.rowPx / 2;
  const endMs = row[AT.endedAtMs] < 0 ? scale.endMs : row[AT.endedAtMs] - rows.startedAtMs;
  context.globalAlpha = isDimmed ? 0.35 : 1;
  const left = toX(sheet, row[AT.startedAtMs] - rows.startedAtMs);
  const right = toX(sheet, endMs);
  context.fillStyle = palette("line");
  context.fillRect(left, middle - 0.5, Math.max(1, right - left), 1);
  for (const span of iterateSpans(rows.spansOf(index), scale.endMs)) paintSpan(sheet, span, middle);
  const status = getDisplayStatus(row);
  if (hasEnded(status)) paintEnd(sheet, right, middle, status === "failed");
  context.globalAlpha = 1;
}

function paintSpan(sheet: Sheet, span: Span, middle: number): void {
  const { context, palette, widthPx } = sheet;
  const left = toX(sheet, span.fromMs);
  const right = Math.max(left + MIN_PX, toX(sheet, span.toMs));
  if (right < 0 || left > widthPx || span.kind === "park") return;
  const isThin = THIN.has(span.kind);
  const height = isThin ? THIN_PX : BAR_PX;
  const top = middle - height / 2;
  const isSolid = span.kind !== "wait" && span.kind !== "ask";
  const colour = palette(span.kind);
  context.fillStyle = isSolid ? colour : getHatching(colour, palette("surface"));
  context.fillRect(left, top, right - left, height);
  if (!isSolid) outline(sheet, { left, top, width: right - left, height }, colour);
  // Separates adjacent spans of the same kind.
  if (isSolid && right - left > 3) {
    context.fillStyle = palette("surface");
    context.fillRect(right - 0.75, top, 0.75, height);
  }
  if (span.kind === "retry") {
    context.fillStyle = colour;
    context.fillRect(left, middle - BAR_PX / 2, 2.5, BAR_PX);
  }
  if (span.end === "failed" || span.end === "rejected") {
    context.fillStyle = palette("bad");
    context.fillRect(right - 2.5, top - 1, 2.5, height + 2);
  }
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

function outline({ context }: Sheet, { left, top, width, height }: Box, colour: string): void {
  if (width < 3) return;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.globalAlpha *= 0.6;
  context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
  context.globalAlpha /= 0.6;
}

/** Draws a small cross for a failure, and a stroke for any other end. */
function paintEnd(
  { context, palette }: Sheet,
  x: number,
  middle: number,
  hasFailed: boolean,
): void {
  context.strokeStyle = hasFailed ? palette("bad") : palette("muted");
  context.lineWidth = hasFailed ? 1.75 : 1;
  context.beginPath();
  if (hasFailed) {
    context.moveTo(x + 2, middle - 3);
    context.lineTo(x + 8, middle + 3);
    context.moveTo(x + 8, middle - 3);
    context.lineTo(x + 2, middle + 3);
  } else {
    context.moveTo(x + 0.5, middle - 4);
    context.lineTo(x + 0.5, middle + 4);
  }
  context.stroke();
}

function paintGroup(
  sheet: Sheet,
  rows: TimelineRows,
  { members, status }: GroupLine,
  y: number,
): void {
  const { context, palette, widthPx, rowPx } = sheet;
  const bucketPx = 2;
  const changes = new Int32Array(Math.ceil(widthPx / bucketPx) + 2);
  for (const index of members) {
    const row = rows.agents[index];
    if (row === undefined) continue;
    const left = Math.floor(toX(sheet, row[AT.startedAtMs] - rows.startedAtMs) / bucketPx);
    const right = Math.ceil(toX(sheet, row[AT.endedAtMs] - rows.startedAtMs) / bucketPx);
    const from = Math.max(0, left);
    const to = Math.min(changes.length - 1, Math.max(right, left + 1));
    if (to <= from) continue;
    changes[from] = (changes[from] ?? 0) + 1;
    changes[to] = (changes[to] ?? 0) - 1;
  }
  let most = 1;
  let count = 0;
  for (const change of changes) {
    count += change;
    most = Math.max(most, count);
  }
  count = 0;
  context.fillStyle = status === "failed" ? palette("bad") : palette("wait");
  context.globalAlpha = 0.75;
  for (const [at, change] of changes.entries()) {
    count += change;
    if (count === 0) continue;
    const height = Math.max(1.5, (count / most) * (rowPx - 8));
    context.fillRect(at * bucketPx, y + rowPx - 4 - height, bucketPx, height);
  }
  context.globalAlpha = 1;
}

function paintBreaks(sheet: Sheet): void {
  const { context, palette, scale, heightPx } = sheet;
  for (const piece of scale.pieces) {
    if (!piece.isRest) continue;
    const left = toX(sheet, piece.fromMs);
    const right = toX(sheet, piece.toMs);
    context.fillStyle = palette("surface");
    context.fillRect(left, 0, right - left, heightPx);
    context.globalAlpha = 0.5;
    context.fillStyle = getHatching(palette("park"), palette("surface"));
    context.fillRect(left, 0, right - left, heightPx);
    context.globalAlpha = 1;
  }
}

export function paintAxis(sheet: Sheet): void {
  const { context, palette, scale, window, widthPx, heightPx } = sheet;
  context.clearRect(0, 0, widthPx, heightPx);
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  const middle = heightPx / 2;
  const taken = scale.pieces.filter(({ isRest }) => isRest);
  for (const ms of scale.listTicks(window, widthPx, 90)) {
    const x = Math.round(toX(sheet, ms));
    context.fillStyle = palette("line");
    context.fillRect(x, heightPx - 5, 1, 5);
    const label = formatTick(ms);
    context.fillStyle = palette("muted");
    // A label that is cut off would be read as another time.
    if (x + 4 + context.measureText(label).width <= widthPx) context.fillText(label, x + 4, middle);
  }
  for (const { fromMs, toMs } of taken) {
    const left = toX(sheet, fromMs);
    const label = `rest ${formatDuration(toMs - fromMs)}`;
    const width = context.measureText(label).width + 8;
    const x = Math.min(left, widthPx - width);
    context.fillStyle = palette("surface");
    context.fillRect(x, 0, width, heightPx);
    context.fillStyle = palette("text");
    context.fillText(label, x + 4, middle);
  }
}

function formatTick(ms: number): string {
  if (ms === 0) return "0";
  return formatDuration(ms)
    .replace(/\.0s$/, "s")
    .replace(/ 00[ms]$/, "");
}
