// Workers that die of one of their runs: the same checks for each engine.

import type { RunClient } from "../../../src/engines.ts";
import type { PoisonPlace } from "../../support/poison-place.ts";

/** The outcomes of a run that ends its processes, of one beside it, and of one after it. */
export const POISONED = {
  poison: ["failed", "error", ["crash_loop"]],
  healthy: ["completed", "healthy is done"],
  later: ["completed", "healthy is done"],
  calls: 5,
};

export async function whatBecomes(client: RunClient, place: PoisonPlace) {
  await place.serves();
  const poison = await client.start("poison", "Go.", { runId: "poison-1" });
  const healthy = await client.start("healthy", "Go.", { runId: "healthy-1" });
  const [failed, completed] = await Promise.all([poison.getResult(), healthy.getResult()]);
  // The process that failed the run has not died of it.
  const later = await client.start("healthy", "Go.", { runId: "healthy-2" });
  const last = await later.getResult();
  return {
    poison: [failed.status, failed.reason.code, failed.errors.map(({ code }) => code)],
    healthy: [completed.status, completed.text],
    later: [last.status, last.text],
    calls: place.calls("boom").length,
  };
}
