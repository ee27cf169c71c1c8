// Long texts that are expensive to clean, measure or wrap, and a check that work on them is linear.

import { expect } from "vitest";

/** The repeated unit of each text. */
export const REPEATED: Readonly<Record<string, string>> = {
  "ESC ]": "\u001b]",
  "ESC [": "\u001b[",
  "ESC ]8;;": "\u001b]8;;a",
  "C1 OSC": "\u009d",
  "C1 CSI": "\u009b",
  "both C1 controls": "\u009d\u009b",
  "parameters of a sequence": "0;",
  "complete sequences": "\u001b[31mred\u001b[0m",
  "one line": "a",
  words: "word ",
  "letters with many marks": `e${"\u0301".repeat(12)}`,
  marks: "\u0301",
  "emoji sequences": "👩‍👩‍👧‍👦",
  "a chain of joiners": "\u200d👩",
  flags: "🇫🇷",
  "wide characters": "文",
  backspaces: "\b",
  tabs: "\t",
  "direction marks": "a\u202e",
  backticks: "`",
  brackets: "[",
  quotes: '"',
  slashes: "/",
  "lone surrogates": "\ud83d",
  lines: "ab\n",
  "line breaks": "\n",
  "two line breaks": "\r\n",
};

/** Returns a text of at most so many bytes. */
export function longText(repeated: string, bytes: number): string {
  return repeated.repeat(Math.floor(bytes / Buffer.byteLength(repeated)));
}

/** Shorter texts come first, so that a failure is quick. */
const FIRST_BYTES = [160_000, 625_000];
/**
 * The minimum of many rounds approximates the time that the work needs, whatever else the machine
 * does.
 */
const ROUNDS = 10;
/** A busy machine may take so much longer than a quiet one. */
const MOST_MS = 2_000;
/** The part of a long text that shows how fast the machine is. */
export const PART = 1 / 16;
/**
 * On a slow machine the whole text may take so many times as long as its part: the part fits in the
 * caches of the processor, the whole does not. Quadratic work takes 256 times as long.
 */
const MOST_GROWTH = 40;

/**
 * Checks that `work` is fast on a text of so many bytes. Returns the time on the whole text. Work
 * that is quadratic fails: at a tenth of a nanosecond per step it needs 2.5 s for 160 kB, and hours
 * for 10 MB.
 */
export function expectLinear(
  name: string,
  repeated: string,
  { bytes, work }: { readonly bytes: number; readonly work: (text: string) => unknown },
): number {
  for (const first of FIRST_BYTES)
    if (first < bytes) expectFast(`${name}, ${first} bytes`, () => work(longText(repeated, first)));
  const part = longText(repeated, bytes * PART);
  const whole = longText(repeated, bytes);
  return expectFast(
    name,
    () => work(whole),
    () => work(part),
  );
}

/**
 * Checks that `work` takes less than the bound, or than `MOST_GROWTH` times as long as `part`.
 * Returns its time.
 */
export function expectFast(name: string, work: () => unknown, part?: () => unknown): number {
  const mostMs =
    part === undefined ? MOST_MS : Math.max(MOST_MS, MOST_GROWTH * timeOf(part, MOST_MS));
  const ms = timeOf(work, mostMs);
  expect(ms, name).toBeLessThan(mostMs);
  return ms;
}

/**
 * Returns the best of some rounds, in milliseconds of this thread: other work on the machine does
 * not count. Where that cannot be told, the time that has passed. A round below the bound is the
 * last one.
 */
function timeOf(work: () => unknown, enoughMs: number): number {
  let best = Infinity;
  for (let round = 0; round < ROUNDS && best >= enoughMs; round += 1) {
    const startedMs = threadMs();
    work();
    best = Math.min(best, threadMs() - startedMs);
  }
  return best;
}

function threadMs(): number {
  if (typeof process.threadCpuUsage !== "function") return performance.now();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
