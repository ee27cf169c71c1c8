// The result of a run that workers lead, as the store has it: there once the run rests, whichever process led it there.

import { EspalierError } from "../../kernel/error.ts";
import type { JsonValue } from "../../kernel/json.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";
import { unknownRun } from "../../store/store-errors.ts";
import { foldJournal, type FoldedRun } from "../durability/fold-journal.ts";
import { persistedResult } from "./persisted-result.ts";
import { storedRun } from "./recover.ts";
import { isCall, unreadMail, type ReceivedMail } from "./run-mail.ts";
import type { RunResult } from "./run-result.ts";

/** Undefined: the run does not rest. Rejects with what no worker could do, `unknown_run` or `store_failed`. */
export async function readResult(
  store: RunStore,
  runId: RunId,
): Promise<RunResult<JsonValue> | undefined> {
  const rested = await restedRun(store, runId);
  if (rested === undefined) return undefined;
  const { folded, mail } = rested;
  if (folded?.status === "ended") return await persistedResult(folded); // Whatever came too late for it.
  const refusal = refusalIn(rested);
  if (refusal !== undefined) throw new EspalierError(refusal);
  // It was put to rest between two looks, or something is asked of it that a worker has yet to do.
  if (folded === undefined || folded.status === "open" || mail.some(isCall)) return undefined;
  return await persistedResult(folded);
}

/** Whether the last mail of a run is a refusal: why no worker could lead it. */
export async function isRefused(store: RunStore, runId: RunId): Promise<boolean> {
  const rested = await restedRun(store, runId);
  return rested !== undefined && refusalIn(rested) !== undefined;
}

/** A run that rests, as far as the store knows. */
interface RestedRun {
  /** Undefined: nothing is kept of it yet. */
  readonly folded: FoldedRun | undefined;
  readonly mail: readonly ReceivedMail[];
}

/** Undefined: it is open. */
async function restedRun(store: RunStore, runId: RunId): Promise<RestedRun | undefined> {
  const found = await storedRun(store, runId);
  if (found === undefined) throw unknownRun(runId);
  if (found.status === "open") return undefined;
  const folded = found.recordCount === 0 ? undefined : await foldJournal(runId, store.read(runId));
  return { folded, mail: await unreadMail(store, runId, folded?.posts ?? []) };
}

/** Why no worker could lead the run, if its last mail says so. */
function refusalIn({ folded, mail }: RestedRun) {
  const last = folded?.status === "ended" ? undefined : mail.at(-1)?.mail;
  return last?.type === "refused" ? { code: last.code, message: last.message } : undefined;
}
