// Maps the time of a run to positions on a line, and back. Each long rest takes a small part of the
// line, as a marked break: otherwise a run that was paused overnight would show only the night.
// Pure.

import type { SpanNumbers } from "../../src/read-model/viewer-data.ts";
import { iterateSpans } from "./spans.ts";

/** The visible time, as shares of the whole line from 0 to 1. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

export interface Rest {
  readonly fromMs: number;
  readonly toMs: number;
}

interface TimePiece extends Rest {
  /** Position on the line, from 0 to 1. */
  readonly from: number;
  readonly to: number;
  readonly isRest: boolean;
}

/** Share of a folded rest. A rest that takes more of the time is folded to this share. */
const REST_SHARE = 0.03;

/** Returns the rests of a run until now, which are spans of its root. */
export function listRests(spans: SpanNumbers, nowMs: number): readonly Rest[] {
  return [...iterateSpans(spans, nowMs)].flatMap(({ kind, fromMs, toMs }) =>
    kind === "park" ? [{ fromMs, toMs }] : [],
  );
}

/** Maps the milliseconds from 0 to `endMs` to positions on a line. */
export class TimeScale {
  readonly endMs: number;
  readonly pieces: readonly TimePiece[];

  constructor(endMs: number, rests: readonly Rest[]) {
    this.endMs = Math.max(1, endMs);
    this.pieces = splitLine(this.endMs, rests);
  }

  toShare(ms: number): number {
    const piece = this.pieces.find(({ toMs }) => ms <= toMs) ?? this.pieces.at(-1);
    if (piece === undefined) return 0;
    const inside = (ms - piece.fromMs) / (piece.toMs - piece.fromMs);
    return piece.from + Math.max(0, Math.min(1, inside)) * (piece.to - piece.from);
  }

  toTime(share: number): number {
    const piece = this.pieces.find(({ to }) => share <= to) ?? this.pieces.at(-1);
    if (piece === undefined) return 0;
    const inside = (share - piece.from) / (piece.to - piece.from);
    return piece.fromMs + Math.max(0, Math.min(1, inside)) * (piece.toMs - piece.fromMs);
  }

  /** Returns times for labels, at least `leastPx` apart. */
  listTicks({ from, to }: TimeWindow, widthPx: number, leastPx: number): readonly number[] {
    const msPerPx = this.#computeMsPerShare() * ((to - from) / Math.max(1, widthPx));
    const step = chooseStep(msPerPx * leastPx);
    const ticks: number[] = [];
    for (const piece of this.pieces) {
      if (piece.isRest) continue;
      const firstMs = Math.max(piece.fromMs, this.toTime(from));
      const lastMs = Math.min(piece.toMs, this.toTime(to));
      for (
        let ms = Math.ceil(firstMs / step) * step;
        ms <= lastMs && ticks.length < 100;
        ms += step
      )
        ticks.push(ms);
    }
    return ticks;
  }

  #computeMsPerShare(): number {
    const work = this.pieces.find(({ isRest }) => !isRest);
    return work === undefined ? this.endMs : (work.toMs - work.fromMs) / (work.to - work.from);
  }
}

function splitLine(endMs: number, rests: readonly Rest[]): readonly TimePiece[] {
  const long = rests
    .map(({ fromMs, toMs }) => ({ fromMs: Math.max(0, fromMs), toMs: Math.min(endMs, toMs) }))
    .filter(({ fromMs, toMs }) => toMs - fromMs > endMs * REST_SHARE);
  const idleMs = long.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
  const workMs = endMs - idleMs;
  const workShare = workMs <= 0 ? 0 : 1 - long.length * REST_SHARE;
  const restShare = workMs <= 0 ? 1 / Math.max(1, long.length) : REST_SHARE;
  const pieces: TimePiece[] = [];
  let ms = 0;
  let share = 0;
  const add = (toMs: number, width: number, isRest: boolean): void => {
    if (toMs <= ms) return;
    pieces.push({ fromMs: ms, toMs, from: share, to: share + width, isRest });
    ms = toMs;
    share += width;
  };
  for (const { fromMs, toMs } of long) {
    add(fromMs, ((fromMs - ms) / workMs) * workShare, false);
    add(toMs, restShare, true);
  }
  add(endMs, workMs <= 0 ? 0 : ((endMs - ms) / workMs) * workShare, false);
  return pieces;
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3,
  900e3, 1800e3, 3600e3, 7200e3, 14_400e3, 21_600e3, 43_200e3, 86_400e3,
] as const;

function chooseStep(leastMs: number): number {
  return STEPS_MS.find((step) => step >= leastMs) ?? Math.ceil(leastMs / 86_400e3) * 86_400e3;
}
