// Long texts that are expensive to clean, measure or wrap, and a check that work on them is linear.

import { expect } from "vitest";

/** What each text repeats. */
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

/** Text before it has grown: at this size, quadratic work takes seconds. */
const FIRST_BYTES = 160_000;
/** The least of many rounds is close to the time that the work needs, whatever else the machine does. */
const ROUNDS = 10;
/** A busy machine may take so much longer than a quiet one. */
const MOST_MS = 2_000;
const NOISE_MS = 100;
/** Halfway, by factors, between linear work and quadratic work, which takes 256 times as long. */
const LENGTHENED = 16;
const MOST_GROWTH = LENGTHENED ** 1.5;

/**
 * Checks that `work` is fast on a text of so many bytes, and needs at most 64 times as long as on a
 * sixteenth of it. Returns the time on the whole text. It starts with little text, so that a
 * failure is quick.
 */
export function expectLinear(
  name: string,
  repeated: string,
  { bytes, work }: { readonly bytes: number; readonly work: (text: string) => unknown },
): number {
  expect(timeOf(work, longText(repeated, FIRST_BYTES), MOST_MS), `${name}, first`).toBeLessThan(
    MOST_MS,
  );
  const part = timeOf(work, longText(repeated, bytes / LENGTHENED), 0);
  const mostMs = Math.min(MOST_MS, MOST_GROWTH * part + NOISE_MS);
  const whole = timeOf(work, longText(repeated, bytes), mostMs);
  expect(whole, `${name}, after ${part} ms on a sixteenth of it`).toBeLessThan(mostMs);
  return whole;
}

/** Checks that `work` is fast. Returns its time. */
export function expectFast(name: string, work: () => unknown): number {
  const ms = timeOf(work, "", MOST_MS);
  expect(ms, name).toBeLessThan(MOST_MS);
  return ms;
}

/**
 * Returns the best of some rounds, in milliseconds of this thread: other work on the machine does
 * not count. Where that cannot be told, the time that has passed. A round below `enoughMs` is the
 * last one.
 */
function timeOf(work: (text: string) => unknown, text: string, enoughMs: number): number {
  let best = Infinity;
  for (let round = 0; round < ROUNDS && best >= enoughMs; round += 1) {
    const startedMs = threadMs();
    work(text);
    best = Math.min(best, threadMs() - startedMs);
  }
  return best;
}

function threadMs(): number {
  if (typeof process.threadCpuUsage !== "function") return performance.now();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
