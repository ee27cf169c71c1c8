// `espalier runs`: the stored runs and their states; with `--watch`, updated until Ctrl-C.

import type { CommandBody, CommandCall } from "../command-call.ts";
import { jsonLine } from "../json-text.ts";
import { wallTimeMs } from "../machine-time.ts";
import { outputStyle } from "../output-style.ts";
import { findProject } from "../project.ts";
import { MOST_LISTED, newestRuns } from "../newest-runs.ts";
import { runsText } from "../runs-text.ts";
import { note, ownCommand, say } from "../shell.ts";
import { STATUSES } from "../status-text.ts";
import { openStoreToList } from "../store-choice.ts";
import { UsageError } from "../usage-error.ts";
import { watchRuns } from "../watch-runs.ts";

const USUAL_LIMIT = 20;

export const body: CommandBody = async (call) => {
  const { shell, has, text } = call;
  const limit = limitOf(text("limit"));
  const statuses = statusesOf(text("status"));
  const isWatched = isWatchedIn(call);
  const project = await findProject(shell);
  await using kept = await openStoreToList(call, project);
  const read = newestRuns(kept.store, { limit, statuses });
  const empty = `${statuses === undefined ? "No runs" : "No such runs"} in ${kept.name}.`;
  if (isWatched) return await watchRuns(shell, read, empty);
  const nowMs = wallTimeMs();
  const { rows, problems, isMore, unread } = await read(nowMs);
  if (has("json")) say(shell, jsonLine({ runs: rows }));
  else if (rows.length > 0) say(shell, runsText(rows, { ...outputStyle(shell), nowMs }));
  else
    note(shell, statuses === undefined ? `${empty} Start one: ${ownCommand(shell)} run …` : empty);
  for (const problem of problems) note(shell, problem);
  if (isMore) note(shell, `There are older ones: --limit ${limit * 2}`);
  if (unread > 0 && statuses !== undefined)
    note(shell, `Long runs were not read (${unread}): they are listed without --status.`);
  return 0;
};

function isWatchedIn({ shell, has }: CommandCall): boolean {
  if (!has("watch")) return false;
  if (!has("json") && shell.stdout.isTTY === true) return true;
  const advice = "A program asks again and again, or reads on: espalier tail <run> --events";
  throw new UsageError(`Expected --watch on a terminal, and without --json. ${advice}.`);
}

function limitOf(said: string | undefined): number {
  if (said === undefined) return USUAL_LIMIT;
  const limit = Number(said);
  if (Number.isInteger(limit) && limit > 0 && limit <= MOST_LISTED) return limit;
  throw new UsageError(`Expected --limit to be a number from 1 to ${MOST_LISTED}, got ${said}.`);
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
