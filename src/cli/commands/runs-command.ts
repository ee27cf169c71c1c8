// `espalier runs`: lists the stored runs and their statuses. With `--watch`, updates the list until
// Ctrl-C.

import { setTimeout as wait } from "node:timers/promises";

import type { Store } from "espalier/extend";
import type { RunRow } from "espalier/view";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { formatJsonLine } from "../json-text.ts";
import { getTimeMs } from "../machine-time.ts";
import { detectOutputStyle, formatRunList, STATUSES } from "../run-text.ts";
import { adviseWithoutRuns, openProjectStore } from "../project.ts";
import { printNotice, printLine, type Shell } from "../shell.ts";
import { UsageError, EXIT_CODES } from "../exit-codes.ts";
import { isOfOneRun, StoredRunReader, describeUnreadableRun } from "../stored-run-reader.ts";
import { LiveArea } from "../../terminal/live-area.ts";
import { fit } from "../../terminal/terminal-text.ts";
import { formatQuantity } from "../../read-model/amounts.ts";

const DEFAULT_LIMIT = 20;

export const body: CommandBody = async (call) => {
  const { shell, has, text } = call;
  const limit = parseLimit(text("limit"));
  const matches = readFilter(text("status"), text("session"));
  const isWatched = checkWatched(call);
  await using chosenStore = await openProjectStore(call, "list");
  const read = listNewestRuns(chosenStore.store, limit, matches);
  const empty = `${matches === undefined ? "No runs" : "No matching runs"} in ${chosenStore.name}.`;
  if (isWatched) return await watchRuns(shell, read, empty);
  const nowMs = getTimeMs();
  const { rows, problems, isMore, unread } = await read(nowMs);
  if (has("json")) printLine(shell, formatJsonLine({ runs: rows }));
  else if (rows.length > 0)
    printLine(shell, formatRunList(rows, { ...detectOutputStyle(shell), nowMs }));
  else if (matches !== undefined) printNotice(shell, empty);
  else printNotice(shell, `${empty} ${adviseWithoutRuns(chosenStore, call.command)}`);
  for (const problem of problems) printNotice(shell, problem);
  if (isMore) printNotice(shell, `There are older ones: --limit ${limit * 2}`);
  if (unread > 0 && matches !== undefined)
    printNotice(shell, `Long runs were not read (${unread}). List them without a filter.`);
  return 0;
};

function checkWatched({ shell, has }: CommandCall): boolean {
  if (!has("watch")) return false;
  if (!has("json") && shell.stdout.isTTY === true) return true;
  const advice = "In a program, poll the list or use espalier tail <run> --events";
  throw new UsageError(`--watch needs a terminal and excludes --json. ${advice}.`);
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = Number(text);
  if (Number.isInteger(limit) && limit > 0 && limit <= MAX_LISTED) return limit;
  throw new UsageError(`Expected --limit to be a number from 1 to ${MAX_LISTED}, got ${text}.`);
}

type Matches = (row: RunRow) => boolean;

/** Returns the filter of the list. `undefined` for all runs. */
function readFilter(status: string | undefined, session: string | undefined): Matches | undefined {
  const statuses = readStatuses(status);
  if (statuses === undefined && session === undefined) return undefined;
  return (row) =>
    (statuses === undefined || statuses.includes(row.status)) &&
    (session === undefined || row.sessionId === session);
}

function readStatuses(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const statuses = text.split(",").map((status) => status.trim().replace(/[ -]/u, "_"));
  const unknown = statuses.find((status) => !STATUSES.includes(status));
  if (unknown === undefined) return statuses;
  throw new UsageError(
    `Expected --status to be a comma-separated list of ${STATUSES.join(", ")}, got ${JSON.stringify(unknown)}.`,
  );
}

/** Maximum number of listed runs. */
const MAX_LISTED = 10_000;
/**
 * Maximum number of records that are read for a list. Further runs are shown as the store lists
 * them.
 */
const MAX_RECORDS = 20_000;

/**
 * Returns a function that lists the newest runs, at most `limit`. Each call reads the records since
 * the previous call. `matches` is `undefined` for all.
 */
function listNewestRuns(store: Store, limit: number, matches: Matches | undefined) {
  let known = new Map<string, StoredRunReader>();
  return async (nowMs: number) => {
    const readings = new Map<string, StoredRunReader>();
    const rows: RunRow[] = [];
    const problems: string[] = [];
    let [records, unread, isMore] = [0, 0, false];
    const most = matches === undefined ? limit + 1 : MAX_LISTED;
    for (const stored of await store.list({ limit: most })) {
      isMore = rows.length === limit;
      if (isMore) break;
      const run = known.get(stored.runId) ?? new StoredRunReader(store, stored);
      readings.set(stored.runId, run);
      records += stored.recordCount;
      let row: RunRow | undefined;
      try {
        if (records > MAX_RECORDS) unread += 1;
        else row = await readRow(run, nowMs);
      } catch (cause) {
        // An unreadable run does not hide the others.
        if (!isOfOneRun(cause)) throw cause;
        problems.push(describeUnreadableRun(stored.runId, cause));
      }
      row ??= run.getListing(nowMs);
      if (matches?.(row) !== false) rows.push(row);
    }
    known = readings;
    return { rows, problems, isMore, unread };
  };
}

async function readRow(run: StoredRunReader, nowMs: number): Promise<RunRow> {
  await run.advance();
  if (run.fold.startedAtMs !== undefined)
    return { ...run.getHead(nowMs), questions: run.questions };
  const { refusal } = run;
  return { ...run.getListing(nowMs), ...(refusal && { reason: refusal }) };
}

const LOOK_MS = 500;
/** Rows of a terminal with unknown height. */
const DEFAULT_ROWS = 24;

/** Draws the list until Ctrl-C. `empty` is the line for no runs. Returns the exit code. */
async function watchRuns(
  shell: Shell,
  read: ReturnType<typeof listNewestRuns>,
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
      const nowMs = getTimeMs();
      const { rows, problems } = await read(nowMs);
      const style = detectOutputStyle(shell);
      const table = rows.length === 0 ? [] : formatRunList(rows, { ...style, nowMs }).split("\n");
      const words = rows.length === 0 ? [empty, ...problems] : problems;
      const lines = [...table, ...words.map((line) => fit(line, style.width))];
      const room = (shell.stdout.rows || DEFAULT_ROWS) - 1;
      const hidden = lines.length <= room ? 0 : lines.length - room + 1;
      const more = hidden === 0 ? [] : [`… ${formatQuantity(hidden, "more line")}`];
      area.draw([...lines.slice(0, lines.length - hidden), ...more]);
      await wait(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  } finally {
    area.close();
  }
  return EXIT_CODES.cancelled;
}
