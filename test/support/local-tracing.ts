// Tracing without spans for tests: the ids of runs that nothing traces, from their first event on.

import { mintTraceIds, randomHex, type MintHex } from "../../src/kernel/trace-ids.ts";
import {
  followAgent,
  idsIn,
  newRunIds,
  type OpenRun,
} from "../../src/orchestrator/tree/run-ids.ts";
import type { EventBody, EventScope, TraceIds } from "../../src/protocol/event.ts";
import type { RunId } from "../../src/protocol/ids.ts";
import type { Tracing } from "../../src/protocol/tracing.ts";

/** Gives ids to the events of any number of runs, as a run without tracing has them, from the first event on. */
export function localTracing(mintHex: MintHex = randomHex): Tracing {
  const runs = new Map<RunId, OpenRun>();
  const follow = (scope: EventScope, body: EventBody): TraceIds => {
    const { runId } = scope;
    const run = runs.get(runId);
    switch (body.type) {
      case "run.started":
      case "run.resumed": {
        const { parentSpanId, ...ids } = newRunIds(body, mintHex);
        runs.set(runId, { ids, agents: new Map() });
        return parentSpanId === undefined ? ids : { ...ids, parentSpanId };
      }
      case "run.paused":
      case "run.ended":
        runs.delete(runId);
        return run?.ids ?? mintTraceIds(mintHex, undefined);
      default:
        return run === undefined
          ? mintTraceIds(mintHex, undefined)
          : followAgent(run, scope, body.type, mintHex);
    }
  };
  return {
    place: ({ scope, body }) => follow(scope, body),
    within: (_scope, work) => work(),
    idsOf: (scope) => {
      const run = runs.get(scope.runId);
      return run && idsIn(run, scope);
    },
    leave: ({ scope }) => void runs.delete(scope.runId),
  };
}
