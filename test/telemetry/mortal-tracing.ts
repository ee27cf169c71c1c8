import type { Tracing } from "../../src/protocol/tracing.ts";

/** A tracing of a process that dies: from then on nothing of it arrives. */
export function mortalTracing(tracing: Tracing, isDead: () => boolean): Tracing {
  const nowhere = { traceId: "0".repeat(32), spanId: "0".repeat(16) };
  return {
    traceEvent: (draft) => (isDead() ? nowhere : tracing.traceEvent(draft)),
    runInSpan: (scope, work) => (isDead() ? work() : tracing.runInSpan(scope, work)),
    getIds: (scope) => tracing.getIds(scope),
    endLostSpans: (lost, atUs) => (isDead() ? undefined : tracing.endLostSpans?.(lost, atUs)),
    onPersisted: (runId, seq) => (isDead() ? undefined : tracing.onPersisted?.(runId, seq)),
    release: (moment, reason) => (isDead() ? undefined : tracing.release?.(moment, reason)),
  };
}
