// The ids of a run without tracing. Created on the first read by a sink or by
// `getCorrelationIds()`. Spans that are open by then get ids on demand.
//
// Every event of a run has the same trace id. The run, each execution, each model call and each
// tool call have a span id, by the rules of `SpanTree`, so that an event log reads as a trace.

import {
  mintTraceIds,
  parseTraceparent,
  randomHex,
  type TraceParent,
} from "../kernel/trace-ids.ts";
import {
  type EventBody,
  type EventDraft,
  type EventScope,
  type EventType,
  type TraceIds,
} from "../protocol/event.ts";
import { createCallKey, type AgentId } from "../protocol/ids.ts";

/** The open spans of a run. */
export interface OpenRun {
  readonly ids: TraceIds;
  /** By agent id. An agent has one execution at a time. */
  readonly agents: Map<AgentId, OpenAgent>;
}

interface OpenAgent {
  readonly ids: TraceIds;
  readonly executionId: EventScope["executionId"];
  /** Ids of its model calls and tool calls, by `createCallKey`. */
  readonly calls: Map<string, TraceIds>;
}

/** Fields that `run.started` and `run.resumed` share. */
export type StartFacts = Pick<
  EventBody<"run.started" | "run.resumed">,
  "schemaVersion" | "role" | "task" | "limits" | "budget" | "sessionId" | "queuedMs"
>;

/**
 * Other fields of the first event of a run, from which its ids follow. Retains nothing of the run.
 */
export type RunOrigin =
  | Omit<EventBody<"run.started">, keyof StartFacts>
  | Omit<EventBody<"run.resumed">, keyof StartFacts>;

/** Events that begin or end a span. */
const SPAN_EVENTS: ReadonlySet<string> = new Set(
  `run.started run.resumed run.paused run.ended agent.started agent.resumed agent.paused agent.ended
  model.requested model.replied model.failed tool.started tool.resumed tool.paused tool.rejected
  tool.ended`.split(/\s+/u),
);

/** Returns true for an event that opens or closes a span. */
export function isSpanEvent(type: EventType): boolean {
  return SPAN_EVENTS.has(type);
}

export class RunIds {
  /** Ids of the event that begins the run. */
  readonly #ids: TraceIds;
  /** `undefined` once the run has paused or ended, to retain nothing. */
  #run: OpenRun | undefined;

  /** `scopes` are those of the active agents. */
  constructor(ids: TraceIds, scopes: readonly EventScope[]) {
    const { traceId, spanId } = ids;
    this.#ids = ids;
    this.#run = { ids: { traceId, spanId }, agents: new Map() };
    for (const scope of scopes) followAgent(this.#run, scope, "agent.started");
  }

  traceEvent({ scope, body: { type } }: EventDraft): TraceIds {
    const run = this.#run;
    if (run === undefined) return mintTraceIds(randomHex, undefined);
    if (type === "run.started" || type === "run.resumed") return this.#ids;
    if (type !== "run.paused" && type !== "run.ended") return followAgent(run, scope, type);
    this.#run = undefined;
    return run.ids;
  }

  /**
   * Returns the ids of the innermost open span. `isInCall` means that the span of the call is open,
   * whether or not its start was recorded.
   */
  getIds(scope: EventScope, isInCall: boolean): TraceIds | undefined {
    const run = this.#run;
    if (run === undefined) return undefined;
    const agent = run.agents.get(scope.agentId);
    if (!isInCall || agent?.executionId !== scope.executionId) return getScopeIds(run, scope);
    const [tool, model] = [createCallKey("tool", scope), createCallKey("model", scope)];
    const known = agent.calls.get(tool) ?? agent.calls.get(model);
    if (known !== undefined) return known;
    const ids = mintTraceIds(randomHex, agent.ids);
    agent.calls.set(scope.callId === null ? model : tool, ids);
    return ids;
  }

  release(): void {
    this.#run = undefined;
  }
}

/** Returns the ids of the span of a run that begins or continues with this event. */
export function createRunIds(origin: RunOrigin): TraceIds {
  const caller = parseCaller(origin);
  const ids = findEarlierIds(origin) ?? mintTraceIds(randomHex, caller);
  return caller === undefined ? ids : { ...ids, parentSpanId: caller.spanId };
}

/** Returns the ids of the innermost open span in a scope. */
export function getScopeIds(run: OpenRun, scope: EventScope): TraceIds {
  const agent = getOpen(run, scope);
  if (agent === undefined) return getParentIds(run, scope);
  const { calls, ids } = agent;
  return calls.get(createCallKey("tool", scope)) ?? calls.get(createCallKey("model", scope)) ?? ids;
}

/** Returns the span that the caller named. */
function parseCaller({ traceparent }: RunOrigin): TraceParent | undefined {
  return traceparent === undefined ? undefined : parseTraceparent(traceparent);
}

/** Returns the earlier ids of a recovered run, which it continues to use. */
function findEarlierIds(origin: RunOrigin): TraceIds | undefined {
  if (origin.type === "run.started" || origin.recovery?.isSpanOpen !== true) return undefined;
  const { previousTraceId: traceId, previousSpanId: spanId = "" } = origin;
  return traceId === "" || spanId === "" ? undefined : { traceId, spanId };
}

/** Opens, closes or finds the span of an event of an agent, and returns its ids. */
export function followAgent(run: OpenRun, scope: EventScope, type: EventType): TraceIds {
  const { agentId, executionId } = scope;
  if (type === "agent.started" || type === "agent.resumed") {
    const ids = mintTraceIds(randomHex, run.ids);
    run.agents.set(agentId, { ids, executionId, calls: new Map() });
    return ids;
  }
  const agent = getOpen(run, scope);
  if (agent === undefined) return getParentIds(run, scope);
  if (type === "agent.paused" || type === "agent.ended") {
    run.agents.delete(agentId);
    return agent.ids;
  }
  const { calls } = agent;
  const key = createCallKey(type, scope);
  switch (type) {
    case "model.requested":
    case "tool.started":
    case "tool.resumed": {
      const ids = mintTraceIds(randomHex, run.ids);
      calls.set(key, ids);
      return ids;
    }
    case "tool.rejected": // Begins and ends at once.
      calls.delete(key);
      return mintTraceIds(randomHex, run.ids);
    case "model.replied":
    case "model.failed":
    case "tool.paused":
    case "tool.ended": {
      const ids = calls.get(key) ?? agent.ids;
      calls.delete(key);
      return ids;
    }
    default:
      return calls.get(key) ?? agent.ids;
  }
}

/** Returns the agent of a scope, unless the scope belongs to an earlier execution. */
function getOpen({ agents }: OpenRun, { agentId, executionId }: EventScope): OpenAgent | undefined {
  const agent = agents.get(agentId);
  return executionId === null || agent?.executionId === executionId ? agent : undefined;
}

/** Returns the ids for an event of an agent that is not open: those of its parent or of the run. */
function getParentIds({ ids, agents }: OpenRun, { parentAgentId }: EventScope): TraceIds {
  const parent = parentAgentId === null ? undefined : agents.get(parentAgentId);
  return parent?.ids ?? ids;
}
