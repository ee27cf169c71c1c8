// Tracing without spans for tests: the ids of runs that nothing traces, from their first event on.

import { mintTraceIds, randomHex } from "../../src/kernel/trace-ids.ts";
import {
  followAgent,
  getScopeIds,
  createRunIds,
  type OpenRun,
} from "../../src/run-services/run-ids.ts";
import type { EventBody, EventScope, TraceIds } from "../../src/protocol/event.ts";
import type { RunId } from "../../src/protocol/ids.ts";
import type { Tracing } from "../../src/protocol/tracing.ts";

/** Assigns ids to the events of any number of runs, as in a run without tracing. */
export function localTracing(): Tracing {
  const runs = new Map<RunId, OpenRun>();
  const follow = (scope: EventScope, body: EventBody): TraceIds => {
    const { runId } = scope;
    const run = runs.get(runId);
    switch (body.type) {
      case "run.started":
      case "run.resumed": {
        const { parentSpanId, ...ids } = createRunIds(body);
        runs.set(runId, { ids, agents: new Map() });
        return parentSpanId === undefined ? ids : { ...ids, parentSpanId };
      }
      case "run.paused":
      case "run.ended":
        runs.delete(runId);
        return run?.ids ?? mintTraceIds(randomHex, undefined);
      default:
        return run === undefined
          ? mintTraceIds(randomHex, undefined)
          : followAgent(run, scope, body.type);
    }
  };
  return {
    traceEvent: ({ scope, body }) => follow(scope, body),
    runInSpan: (_scope, work) => work(),
    getIds: (scope) => {
      const run = runs.get(scope.runId);
      return run && getScopeIds(run, scope);
    },
    release: ({ scope }) => void runs.delete(scope.runId),
  };
}

/** The same with ids that count from 1 in the order of their appearance. */
export function countedTracing(): Tracing {
  const numbers = new Map<string, string>();
  const count = (id: string): string => {
    const number = numbers.get(id) ?? (numbers.size + 1).toString(16).padStart(id.length, "0");
    numbers.set(id, number);
    return number;
  };
  const counted = ({ traceId, spanId, ...parent }: TraceIds): TraceIds => {
    if (parent.parentSpanId !== undefined) numbers.set(traceId, traceId); // It is the caller's.
    return { traceId: count(traceId), spanId: count(spanId), ...parent };
  };
  const local = localTracing();
  return {
    ...local,
    traceEvent: (draft) => counted(local.traceEvent(draft)),
    getIds: (scope) => {
      const ids = local.getIds(scope);
      return ids && counted(ids);
    },
  };
}
