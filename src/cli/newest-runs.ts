// The newest runs of a store, as rows.

import type { Store } from "espalier/extend";
import type { RunRow } from "espalier/view";

import { isOfOneRun, RunReading, unreadableText } from "./run-reading.ts";

/** Runs of a list. */
export const MOST_LISTED = 10_000;
/** Records that are read for a list; of runs beyond them it says what the store says. */
const MOST_RECORDS = 20_000;

interface NewestRunsOptions {
  /** So many of the newest. */
  readonly limit: number;
  /** Undefined: all. */
  readonly statuses: readonly string[] | undefined;
}

/** What is there at a time. */
export interface ListedRuns {
  readonly rows: readonly RunRow[];
  /** What is wrong with runs that cannot be read. */
  readonly problems: readonly string[];
  /** There are older ones. */
  readonly isMore: boolean;
  /** Runs that are too long to be read for a list. */
  readonly unread: number;
}

/** Reads the newest runs. Each time it reads what came since the time before. */
export type ReadNewestRuns = (nowMs: number) => Promise<ListedRuns>;

export function newestRuns(store: Store, { limit, statuses }: NewestRunsOptions): ReadNewestRuns {
  let known = new Map<string, RunReading>();
  return async (nowMs) => {
    const readings = new Map<string, RunReading>();
    const rows: RunRow[] = [];
    const problems: string[] = [];
    let [records, unread, isMore] = [0, 0, false];
    for (const stored of await store.list({
      limit: statuses === undefined ? limit + 1 : MOST_LISTED,
    })) {
      isMore = rows.length === limit;
      if (isMore) break;
      const run = known.get(stored.runId) ?? new RunReading(store, stored);
      readings.set(stored.runId, run);
      records += stored.recordCount;
      const isRead = records <= MOST_RECORDS;
      if (!isRead) unread += 1;
      const problem = isRead ? await problemOf(run) : undefined;
      if (problem !== undefined) problems.push(problem);
      const row = problem === undefined ? rowOf(run, nowMs) : run.listing(nowMs);
      if (statuses?.includes(row.status) !== false) rows.push(row);
    }
    known = readings;
    return { rows, problems, isMore, unread };
  };
}

/** Reads a run. What is wrong with one hides no other. */
async function problemOf(run: RunReading): Promise<string | undefined> {
  try {
    await run.advance();
    return undefined;
  } catch (cause) {
    if (!isOfOneRun(cause)) throw cause;
    return unreadableText(run.stored, cause);
  }
}

function rowOf(run: RunReading, nowMs: number): RunRow {
  const { refusal } = run;
  if (run.fold.startedAtMs === undefined)
    return { ...run.listing(nowMs), ...(refusal === undefined ? {} : { reason: refusal }) };
  return { ...run.head(nowMs), questions: run.questions };
}
