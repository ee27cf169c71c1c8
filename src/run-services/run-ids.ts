// The ids of one run that nothing traces, from the moment when something first reads one: a sink, or code that
// asks for `getCorrelationIds()`. Until then no id is made. Spans that are open by then get ids when something asks for them.
// Every event of a run has the same trace id, and there is one span id for the run, for each execution, model call
// and tool call, by the rules of `SpanTree`, so that an event log reads as a trace.

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
import { callKey, type AgentId } from "../protocol/ids.ts";

/** A run whose ids are followed. */
export interface OpenRun {
  readonly ids: TraceIds;
  /** By id: an agent has one execution at a time. */
  readonly agents: Map<AgentId, OpenAgent>;
}

interface OpenAgent {
  readonly ids: TraceIds;
  readonly executionId: EventScope["executionId"];
  /** Its model calls and tool calls: see `callKey`. */
  readonly calls: Map<string, TraceIds>;
}

/** The facts that the event of a beginning and that of a continuation share. */
export type StartFacts = Pick<
  EventBody<"run.started" | "run.resumed">,
  "schemaVersion" | "role" | "task" | "limits" | "budget" | "sessionId" | "queuedMs"
>;

/** The other parts of the first event of a run, from which its ids follow. Holds nothing of the run. */
export type RunOrigin =
  | Omit<EventBody<"run.started">, keyof StartFacts>
  | Omit<EventBody<"run.resumed">, keyof StartFacts>;

/** Events with which a span begins or ends. */
const SPAN_EVENTS: ReadonlySet<string> = new Set(
  `run.started run.resumed run.paused run.ended agent.started agent.resumed agent.paused agent.ended
  model.requested model.replied model.failed tool.started tool.resumed tool.paused tool.rejected
  tool.ended`.split(/\s+/u),
);

/** True for an event that changes which span is open. */
export function isSpanEvent(type: EventType): boolean {
  return SPAN_EVENTS.has(type);
}

export class RunIds {
  /** Of the event with which the run begins. */
  readonly #ids: TraceIds;
  /** Undefined once the run rests: nothing is kept of it. */
  #run: OpenRun | undefined;

  /** `scopes`: of the agents that are at work. */
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

  /** Returns the ids of the innermost open span. `isInCall`: the span of the call is open, whether or not it was seen to begin. */
  getIds(scope: EventScope, isInCall: boolean): TraceIds | undefined {
    const run = this.#run;
    if (run === undefined) return undefined;
    const agent = run.agents.get(scope.agentId);
    if (!isInCall || agent?.executionId !== scope.executionId) return idsIn(run, scope);
    const [tool, model] = [callKey("tool", scope), callKey("model", scope)];
    const known = agent.calls.get(tool) ?? agent.calls.get(model);
    if (known !== undefined) return known;
    const ids = mintTraceIds(randomHex, agent.ids);
    agent.calls.set(scope.callId === null ? model : tool, ids);
    return ids;
  }

  leave(): void {
    this.#run = undefined;
  }
}

/** Returns the ids of the span of a run that begins or continues with this event. */
export function newRunIds(origin: RunOrigin): TraceIds {
  const caller = callerOf(origin);
  const ids = idsBefore(origin) ?? mintTraceIds(randomHex, caller);
  return caller === undefined ? ids : { ...ids, parentSpanId: caller.spanId };
}

/** Returns the ids of the innermost span that is open in a scope. */
export function idsIn(run: OpenRun, scope: EventScope): TraceIds {
  const agent = agentAt(run, scope);
  if (agent === undefined) return idsAbove(run, scope);
  const { calls, ids } = agent;
  return calls.get(callKey("tool", scope)) ?? calls.get(callKey("model", scope)) ?? ids;
}

/** The span that the caller named. */
function callerOf({ traceparent }: RunOrigin): TraceParent | undefined {
  return traceparent === undefined ? undefined : parseTraceparent(traceparent);
}

/** A run that is recovered continues under the ids that it had. */
function idsBefore(origin: RunOrigin): TraceIds | undefined {
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
  const agent = agentAt(run, scope);
  if (agent === undefined) return idsAbove(run, scope);
  if (type === "agent.paused" || type === "agent.ended") {
    run.agents.delete(agentId);
    return agent.ids;
  }
  const { calls } = agent;
  const key = callKey(type, scope);
  switch (type) {
    case "model.requested":
    case "tool.started":
    case "tool.resumed": {
      const ids = mintTraceIds(randomHex, run.ids);
      calls.set(key, ids);
      return ids;
    }
    case "tool.rejected": // It begins and ends.
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

/** The agent of a scope, unless an earlier execution of it is meant. */
function agentAt({ agents }: OpenRun, { agentId, executionId }: EventScope): OpenAgent | undefined {
  const agent = agents.get(agentId);
  return executionId === null || agent?.executionId === executionId ? agent : undefined;
}

/** Where events of an agent belong that is not open. */
function idsAbove({ ids, agents }: OpenRun, { parentAgentId }: EventScope): TraceIds {
  const parent = parentAgentId === null ? undefined : agents.get(parentAgentId);
  return parent?.ids ?? ids;
}
