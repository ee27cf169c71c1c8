// Tracing without OpenTelemetry: the default. Makes no spans, yet gives every event of a run the same trace id, and one span id to each run,
// execution, model call and tool call, so that an event log can be read as a trace. Ids have the format of W3C Trace Context.
// Owns the ids of what is open, by the rules of `SpanTree`. Nothing is kept of a run that has ended or is paused.

import {
  mintTraceIds,
  parseTraceparent,
  randomHex,
  type MintHex,
  type TraceParent,
} from "../../kernel/trace-ids.ts";
import {
  continuesSpan,
  type EventScope,
  type EventBody,
  type EventType,
  type TraceIds,
} from "../../protocol/event.ts";
import type { Tracing } from "../../protocol/tracing.ts";
import { callKey, type AgentId, type RunId } from "../../protocol/ids.ts";

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

/** Returns a tracing that gives ids to the events of any number of runs. */
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
    follow,
    within: (_scope, work) => work(),
    idsOf: (scope) => {
      const run = runs.get(scope.runId);
      return run && idsIn(run, scope);
    },
    leave: ({ scope }) => void runs.delete(scope.runId),
  };
}

/** Returns the ids of the span of a run that begins or continues with this event. */
export function newRunIds(
  body: EventBody<"run.started" | "run.resumed">,
  mintHex: MintHex = randomHex,
): TraceIds {
  const caller = callerOf(body);
  const ids = idsBefore(body) ?? mintTraceIds(mintHex, caller);
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
function callerOf(body: EventBody<"run.started" | "run.resumed">): TraceParent | undefined {
  return body.traceparent === undefined ? undefined : parseTraceparent(body.traceparent);
}

/** A run that is recovered continues under the ids that it had. */
function idsBefore(body: EventBody<"run.started" | "run.resumed">): TraceIds | undefined {
  if (!continuesSpan(body)) return undefined;
  const { previousTraceId: traceId, previousSpanId: spanId = "" } = body;
  return traceId === "" || spanId === "" ? undefined : { traceId, spanId };
}

/** Opens, closes or finds the span of an event of an agent, and returns its ids. */
export function followAgent(
  run: OpenRun,
  scope: EventScope,
  type: EventType,
  mintHex: MintHex = randomHex,
): TraceIds {
  const { agentId, executionId } = scope;
  if (type === "agent.started" || type === "agent.resumed") {
    const ids = mintTraceIds(mintHex, run.ids);
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
      const ids = mintTraceIds(mintHex, run.ids);
      calls.set(key, ids);
      return ids;
    }
    case "tool.rejected": // It begins and ends.
      calls.delete(key);
      return mintTraceIds(mintHex, run.ids);
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
