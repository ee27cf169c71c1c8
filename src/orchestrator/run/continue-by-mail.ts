// Continues a paused run when mail comes that asks for it. Loads the recovery only then.

import { tried } from "../durability/journal.ts";
import { requireStorage, type Settings } from "../tree/settings.ts";
import type { LedParts, LiveRun } from "./live-run.ts";
import type { Recovery } from "./recover.ts";
import { isCall } from "./run-mail.ts";

/**
 * Returns the run. Whenever it pauses, it continues if mail has come that makes it continue. If another
 * process was faster, or the run cannot continue, it stays in the store, open, as it was.
 */
export function continuedByMail(
  settings: Settings,
  run: LiveRun,
  { options, isClosed }: { readonly options: Recovery; readonly isClosed: () => boolean },
): LiveRun {
  const storage = requireStorage(settings);
  const { runId } = run;
  const look = async (): Promise<LedParts | undefined> => {
    const { status, owner } = (await storage.store.find(runId)) ?? {};
    if (isClosed() || status !== "open" || owner !== null) return undefined;
    const { keptRun, recoveredParts } = await import("./recover.ts");
    const kept = await keptRun(storage, runId);
    if (!kept.mail.some(isCall)) return undefined;
    const how = { ...options, kept, areAllNeeded: false, takeOver: false };
    return await recoveredParts(settings, runId, how);
  };
  run.whenPaused(() => tried(storage.clock, look).catch(() => undefined));
  return run;
}
