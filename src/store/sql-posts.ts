// The mailboxes of runs in a SQL database. A post locks the row of the run, so that of two posts one comes after the other, and no number
// is given twice.

import type { RunId } from "../protocol/ids.ts";
import type { Post } from "./run-store.ts";
import { NOW_MS, sql, type SqlWork } from "./sql-driver.ts";
import { lockedRun } from "./sql-runs.ts";
import { runEnded, unknownRun } from "./store-errors.ts";
import { hasValue, numberIn, postIn, statusIn } from "./stored-row.ts";

export function* postTo(runId: RunId, { key, body }: Pick<Post, "key" | "body">): SqlWork<number> {
  const row = yield* lockedRun(runId);
  const run = numberIn(row, "sequence");
  const [known] = yield sql`select number from {schema}.post where run = ${run} and key = ${key}`;
  if (known !== undefined) return numberIn(known, "number");
  if (statusIn(row) === "ended") throw runEnded(runId);
  const [made] = yield sql`
    insert into {schema}.post (run, number, key, body, posted_at_ms)
    select ${run}, coalesce(max(number), 0) + 1, ${key}, ${body}, ${NOW_MS} from {schema}.post where run = ${run}
    returning number`;
  yield sql`update {schema}.run set status = 'open', updated_at_ms = ${NOW_MS} where sequence = ${run}`;
  return numberIn(made, "number");
}

/** Those from number `first` on. */
export function* postsOf(runId: RunId, first: number): SqlWork<readonly Post[]> {
  const rows = yield sql`
    select number, key, body, posted_at_ms from {schema}.run left join {schema}.post as post on post.run = run.sequence and post.number >= ${first}
    where run.run_id = ${runId} order by post.number`;
  if (rows.length === 0) throw unknownRun(runId);
  return rows.filter((row) => hasValue(row, "number")).map(postIn);
}
