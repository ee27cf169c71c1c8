import { randomBytes } from "node:crypto";

import type { TraceIds } from "../protocol/event.ts";
import type { Tracing } from "../protocol/event-sink.ts";
import { mintTraceIds, pooledHex, ScopeTree, type MintHex } from "../protocol/span-scope.ts";

const systemHex = pooledHex((bytes) => randomBytes(bytes).toString("hex"));

/**
 * Tracing without OpenTelemetry: the default. Makes no spans, yet gives every event of a run the
 * same trace id, and one span id to each run, execution, model call and tool call, so that an event
 * log can be read as a trace. Ids have the format of W3C Trace Context.
 */
export function localTracing(mintHex: MintHex = systemHex): Tracing {
  const scopes = new ScopeTree<TraceIds>({
    open: (_body, _moment, parent) => mintTraceIds(mintHex, parent),
    note: () => {},
    close: () => {},
    abandon: () => {},
  });
  return {
    place: (draft) => scopes.place(draft) ?? mintTraceIds(mintHex, undefined),
    within: (_scope, work) => work(),
  };
}
