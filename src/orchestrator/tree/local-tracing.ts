import { mintTraceIds, randomHex, type MintHex } from "../../kernel/trace-ids.ts";
import type { TraceIds } from "../../protocol/event.ts";
import type { Tracing } from "../../protocol/event-sink.ts";
import { ScopeTree } from "../../protocol/span-scope.ts";

/**
 * Tracing without OpenTelemetry: the default. Makes no spans, yet gives every event of a run the
 * same trace id, and one span id to each run, execution, model call and tool call, so that an event
 * log can be read as a trace. Ids have the format of W3C Trace Context.
 */
export function localTracing(mintHex: MintHex = randomHex): Tracing {
  const scopes = new ScopeTree<TraceIds>({
    open: (_body, _moment, parent) => mintTraceIds(mintHex, parent),
    note: () => {},
    close: () => {},
    abandon: () => {},
    end: () => {},
  });
  return {
    place: (draft) => scopes.place(draft) ?? mintTraceIds(mintHex, undefined),
    within: (_scope, work) => work(),
    idsOf: (scope) => scopes.find(scope),
    leave: (moment, why) => scopes.leave(moment, why),
  };
}
