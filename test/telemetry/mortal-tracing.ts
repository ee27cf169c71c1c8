import type { Tracing } from "../../src/protocol/tracing.ts";

/** A tracing of a process that dies: from then on nothing of it arrives. */
export function mortalTracing(tracing: Tracing, isDead: () => boolean): Tracing {
  const nowhere = { traceId: "0".repeat(32), spanId: "0".repeat(16) };
  return {
    place: (draft) => (isDead() ? nowhere : tracing.place(draft)),
    within: (scope, work) => (isDead() ? work() : tracing.within(scope, work)),
    idsOf: (scope) => tracing.idsOf(scope),
    endLost: (lost, atUs) => (isDead() ? undefined : tracing.endLost?.(lost, atUs)),
    kept: (runId, seq) => (isDead() ? undefined : tracing.kept?.(runId, seq)),
    leave: (moment, why) => (isDead() ? undefined : tracing.leave?.(moment, why)),
  };
}
