// The result of a run that workers lead, as the store has it: there once the run rests, whichever process led it there.

import { EspalierError } from "../../kernel/error.ts";
import type { JsonValue } from "../../kernel/json.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";
import { unknownRun } from "../../store/store-errors.ts";
import { foldJournal } from "../durability/fold-journal.ts";
import { persistedResult } from "./persisted-result.ts";
import { storedRun } from "./recover.ts";
import { isCall, unreadMail, type ReceivedMail } from "./run-mail.ts";
import type { RunResult } from "./run-result.ts";

/** Undefined: the run does not rest. Rejects with what no worker could do, `unknown_run` or `store_failed`. */
export async function readResult(
  store: RunStore,
  runId: RunId,
): Promise<RunResult<JsonValue> | undefined> {
  const found = await storedRun(store, runId);
  if (found === undefined) throw unknownRun(runId);
  if (found.status === "open") return undefined;
  if (found.recordCount === 0) {
    const mail = await unreadMail(store, runId, []);
    throwRefusal(mail);
    return undefined;
  }
  const folded = await foldJournal(runId, store.read(runId));
  const mail = await unreadMail(store, runId, folded.posts);
  throwRefusal(mail);
  // It was put to rest between two looks, or something is asked of it that a worker has yet to do.
  if (folded.status === "open" || mail.some(isCall)) return undefined;
  return persistedResult(folded);
}

/** Throws why no worker could lead the run, if that was the last that was heard of it. */
function throwRefusal(mail: readonly ReceivedMail[]): void {
  const last = mail.at(-1)?.mail;
  if (last?.type !== "refused") return;
  throw new EspalierError({ code: last.code, message: last.message });
}
