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
import type { EventScope, EventBody, EventType, TraceIds } from "../../protocol/event.ts";
import type { Tracing } from "../../protocol/tracing.ts";
import { callKey, type AgentId, type RunId } from "../../protocol/ids.ts";
import { continuesSpan } from "../../protocol/span-tree.ts";

interface OpenRun {
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

export function localTracing(mintHex: MintHex = randomHex): Tracing {
  const runs = new Map<RunId, OpenRun>();
  const follow = (scope: EventScope, body: EventBody): TraceIds => {
    const { type } = body;
    const { runId } = scope;
    const run = runs.get(runId);
    switch (type) {
      case "run.started":
      case "run.resumed": {
        const caller = callerOf(body);
        const ids = idsBefore(body) ?? mintTraceIds(mintHex, caller);
        runs.set(runId, { ids, agents: new Map() });
        return caller === undefined ? ids : { ...ids, parentSpanId: caller.spanId };
      }
      case "run.paused":
      case "run.ended":
        runs.delete(runId);
        return run?.ids ?? mintTraceIds(mintHex, undefined);
      default:
        return run === undefined
          ? mintTraceIds(mintHex, undefined)
          : followAgent(run, mintHex, scope, type);
    }
  };
  return {
    place: ({ scope, body }) => follow(scope, body),
    follow,
    within: (_scope, work) => work(),
    idsOf: (scope) => {
      const run = runs.get(scope.runId);
      if (run === undefined) return undefined;
      const agent = agentAt(run, scope);
      if (agent === undefined) return idsAbove(run, scope);
      const { calls, ids } = agent;
      return calls.get(callKey("tool", scope)) ?? calls.get(callKey("model", scope)) ?? ids;
    },
    leave: ({ scope }) => void runs.delete(scope.runId),
  };
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

function followAgent(run: OpenRun, mintHex: MintHex, scope: EventScope, type: EventType): TraceIds {
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
