// `espalier runs`: what is kept, and how it stands.

import type { RunRow } from "espalier/view";

import type { CommandBody } from "../command-call.ts";
import { jsonLine } from "../json-text.ts";
import { isOfOneRun, RunReading, unreadableText } from "../run-reading.ts";
import { wallTimeMs } from "../machine-time.ts";
import { outputStyle } from "../output-style.ts";
import { findProject } from "../project.ts";
import { runsText } from "../runs-text.ts";
import { note, say } from "../shell.ts";
import { STATUSES } from "../status-text.ts";
import { openStoreToView, storePlace } from "../store-choice.ts";
import { UsageError } from "../usage-error.ts";

const USUAL_LIMIT = 20;
const MOST = 10_000;
/** Records that are read for a list; of runs beyond them it says what the store says. */
const MOST_RECORDS = 20_000;

export const body: CommandBody = async (call) => {
  const { shell, has, text } = call;
  const limit = limitOf(text("limit"));
  const statuses = statusesOf(text("status"));
  const project = await findProject(shell);
  await using kept = await openStoreToView(storePlace(call, project), { canPost: false });
  const nowMs = wallTimeMs();
  const rows: RunRow[] = [];
  const passed: string[] = [];
  let records = 0;
  let unread = 0;
  let isMore = false;
  for (const stored of await kept.store.list({
    limit: statuses === undefined ? limit + 1 : MOST,
  })) {
    isMore = rows.length === limit;
    if (isMore) break;
    const run = new RunReading(kept.store, stored);
    records += stored.recordCount;
    const isRead = records <= MOST_RECORDS;
    if (!isRead) unread += 1;
    const problem = isRead ? await problemOf(run) : undefined;
    if (problem !== undefined) passed.push(problem);
    const row = problem === undefined ? rowOf(run, nowMs) : run.listing(nowMs);
    if (statuses?.includes(row.status) !== false) rows.push(row);
  }
  if (has("json")) say(shell, jsonLine({ runs: rows }));
  else if (rows.length > 0) say(shell, runsText(rows, { ...outputStyle(shell), nowMs }));
  else if (statuses === undefined)
    note(shell, `No runs in ${kept.name}. Start one: espalier run …`);
  else note(shell, `No such runs in ${kept.name}.`);
  for (const problem of passed) note(shell, problem);
  if (isMore) note(shell, `There are older ones: --limit ${limit * 2}`);
  if (unread > 0 && statuses !== undefined)
    note(shell, `Long runs were not read (${unread}): they are listed without --status.`);
  return 0;
};

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
  if (run.fold.startedAtMs === undefined) return run.listing(nowMs);
  return { ...run.head(nowMs), questions: run.fold.snapshot().questions };
}

function limitOf(said: string | undefined): number {
  if (said === undefined) return USUAL_LIMIT;
  const limit = Number(said);
  if (Number.isInteger(limit) && limit > 0 && limit <= MOST) return limit;
  throw new UsageError(`Expected --limit to be a number from 1 to ${MOST}, got ${said}.`);
}

function statusesOf(said: string | undefined): readonly string[] | undefined {
  if (said === undefined) return undefined;
  const statuses = said.split(",").map((status) => status.trim());
  const unknown = statuses.find((status) => !STATUSES.includes(status));
  if (unknown === undefined) return statuses;
  throw new UsageError(
    `Expected --status to be some of ${STATUSES.join(", ")}, with commas between them, got ${JSON.stringify(unknown)}.`,
  );
}
