// The list of runs on a terminal, drawn over and over until the person leaves.

import { setTimeout as wait } from "node:timers/promises";

import { LiveArea } from "../terminal/live-area.ts";
import { fit } from "../terminal/terminal-text.ts";
import { EXIT_CODES } from "./exit-codes.ts";
import { wallTimeMs } from "./machine-time.ts";
import { outputStyle } from "./output-style.ts";
import type { ListedRuns, ReadNewestRuns } from "./newest-runs.ts";
import { runsText } from "./runs-text.ts";
import type { Shell } from "./shell.ts";
import { numberOf } from "../view/amounts.ts";

const LOOK_MS = 500;
/** Of a terminal that does not say how high it is. */
const USUAL_ROWS = 24;

/** `empty`: what is said while there are none. Gives the exit code. */
export async function watchRuns(
  shell: Shell,
  read: ReadNewestRuns,
  empty: string,
): Promise<number> {
  const area = new LiveArea(shell.stdout);
  const leaving = new AbortController();
  const { signal } = leaving;
  shell.onSignal("SIGINT", () => {
    if (signal.aborted) shell.leave(EXIT_CODES.cancelled);
    leaving.abort();
  });
  try {
    while (!signal.aborted) {
      const nowMs = wallTimeMs();
      area.draw(linesOf(shell, await read(nowMs), { nowMs, empty }));
      await wait(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  } finally {
    area.close();
  }
  return EXIT_CODES.cancelled;
}

/** The lines that the terminal has room for. */
function linesOf(
  shell: Shell,
  { rows, problems }: ListedRuns,
  { nowMs, empty }: { readonly nowMs: number; readonly empty: string },
): readonly string[] {
  const style = outputStyle(shell);
  const table = rows.length === 0 ? [] : runsText(rows, { ...style, nowMs }).split("\n");
  const words = rows.length === 0 ? [empty, ...problems] : problems;
  const lines = [...table, ...words.map((line) => fit(line, style.width))];
  const room = (shell.stdout.rows || USUAL_ROWS) - 1;
  if (lines.length <= room) return lines;
  return [...lines.slice(0, room - 1), `… ${numberOf(lines.length - room + 1, "more line")}`];
}
