// Cancels a run that is kept in a store, whether this process leads it, another one, or none.

import { checkKeys, checkText } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { RunId } from "../../protocol/ids.ts";
import { requireStorage, type Settings } from "../tree/settings.ts";
import type { LiveRuns } from "./live-runs.ts";
import { assertFree, keptRun, recoverRun, storedRun } from "./recover.ts";
import { postMail } from "./run-mail.ts";

/** How a run is cancelled. */
export interface CancelOptions {
  /** Why, for the reason of its end. Default: that the caller cancelled it. */
  readonly message?: string;
  /** As in `StartOptions`, for a run that has to be led to its end here. */
  readonly context?: unknown;
}

/** See `Orchestrator.cancel`. */
export async function cancelRun(
  settings: Settings,
  live: LiveRuns,
  runId: RunId,
  options: CancelOptions,
): Promise<void> {
  checkKeys("cancel options", options, ["message", "context"]);
  const { message = "The caller cancelled the run.", context } = options;
  checkText("message", message);
  const storage = requireStorage(settings);
  const { store } = storage;
  const here = live.find(runId);
  if (here !== undefined) {
    await here.cancel(message);
    return;
  }
  const number = await postMail(store, runId, { type: "cancel", message });
  const found = await storedRun(store, runId);
  // Nothing is kept of it: it is cancelled before it begins.
  if (found === undefined || found.recordCount === 0) return;
  try {
    assertFree(found, storage); // First: a run that is led elsewhere needs no roles here.
    const run = await live.during(async () =>
      live.add(await recoverRun(settings, runId, { context })),
    );
    await run.settled;
  } catch (cause) {
    const code = EspalierError.is(cause) ? cause.code : undefined;
    if (code === "run_alive") return;
    if (code !== "run_ended") throw cause;
    const { folded } = await keptRun(storage, runId);
    if (!folded.posts.includes(number)) throw cause; // Else another process has done it meanwhile.
  }
}
