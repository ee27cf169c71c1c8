import type { Tracing } from "../../../src/protocol/tracing.ts";

/** Creates the tracing of a process that dies: nothing arrives after its death. */
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
