// Tracing without OpenTelemetry: the default. Makes no spans, yet gives every event of a run the same trace id, and one span id to each run,
// execution, model call and tool call, so that an event log can be read as a trace. Ids have the format of W3C Trace Context.
// Owns the ids of what is open, by the rules of `ScopeTree`. Nothing is kept of a run that has ended or is paused.

import { mintTraceIds, randomHex, type MintHex } from "../../kernel/trace-ids.ts";
import type { Correlation, EventBody, TraceIds } from "../../protocol/event.ts";
import type { Tracing } from "../../protocol/event-sink.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";

interface OpenRun {
  readonly ids: TraceIds;
  /** By id: an agent has one execution at a time. */
  readonly agents: Map<AgentId, OpenAgent>;
}

interface OpenAgent {
  readonly ids: TraceIds;
  readonly executionId: Correlation["executionId"];
  /** Its model calls and tool calls: see `modelKey` and `toolKey`. */
  readonly calls: Map<string, TraceIds>;
}

export function localTracing(mintHex: MintHex = randomHex): Tracing {
  const runs = new Map<RunId, OpenRun>();
  const follow = (scope: Correlation, body: EventBody): TraceIds => {
    const { runId } = scope;
    const { type } = body;
    if (type === "run.started" || type === "run.resumed") {
      const ids = mintTraceIds(mintHex, undefined);
      runs.set(runId, { ids, agents: new Map() });
      return ids;
    }
    const run = runs.get(runId);
    if (run === undefined) return mintTraceIds(mintHex, undefined);
    if (type === "run.ended" || type === "run.paused") {
      runs.delete(runId);
      return run.ids;
    }
    return followAgent(run, mintHex, scope, type);
  };
  return {
    place: ({ correlation, body }) => follow(correlation, body),
    follow,
    within: (_scope, work) => work(),
    idsOf: (scope) => {
      const run = runs.get(scope.runId);
      return run === undefined ? undefined : innermost(run, scope);
    },
    leave: ({ correlation }) => void runs.delete(correlation.runId),
  };
}

function followAgent(
  run: OpenRun,
  mintHex: MintHex,
  scope: Correlation,
  type: EventBody["type"],
): TraceIds {
  const { agentId, executionId } = scope;
  if (type === "agent.started" || type === "agent.resumed") {
    const ids = mintTraceIds(mintHex, run.ids);
    run.agents.set(agentId, { ids, executionId, calls: new Map() });
    return ids;
  }
  const agent = agentAt(run, scope);
  if (agent === undefined) return idsAbove(run, scope);
  const { calls } = agent;
  switch (type) {
    case "agent.ended":
    case "agent.paused":
      run.agents.delete(agentId);
      return agent.ids;
    case "model.requested":
      return opened(agent, modelKey(scope), mintTraceIds(mintHex, run.ids));
    case "tool.started":
    case "tool.resumed":
      return opened(agent, toolKey(scope), mintTraceIds(mintHex, run.ids));
    case "tool.rejected":
      calls.delete(toolKey(scope));
      return mintTraceIds(mintHex, run.ids);
    case "model.replied":
    case "model.failed":
      return closed(agent, modelKey(scope));
    case "tool.ended":
    case "tool.paused":
      return closed(agent, toolKey(scope));
    case "model.retried":
    case "model.warned":
      return calls.get(modelKey(scope)) ?? agent.ids;
    default:
      return (scope.callId === null ? undefined : calls.get(toolKey(scope))) ?? agent.ids;
  }
}

function opened({ calls }: OpenAgent, key: string, ids: TraceIds): TraceIds {
  calls.set(key, ids);
  return ids;
}

function closed({ ids, calls }: OpenAgent, key: string): TraceIds {
  const found = calls.get(key);
  calls.delete(key);
  return found ?? ids;
}

function innermost(run: OpenRun, scope: Correlation): TraceIds {
  const agent = agentAt(run, scope);
  if (agent === undefined) return idsAbove(run, scope);
  return agent.calls.get(toolKey(scope)) ?? agent.calls.get(modelKey(scope)) ?? agent.ids;
}

/** The agent of a scope, unless an earlier execution of it is meant. */
function agentAt(
  { agents }: OpenRun,
  { agentId, executionId }: Correlation,
): OpenAgent | undefined {
  const agent = agents.get(agentId);
  return executionId === null || agent?.executionId === executionId ? agent : undefined;
}

/** Where events of an agent belong that is not open. */
function idsAbove({ ids, agents }: OpenRun, { parentAgentId }: Correlation): TraceIds {
  const parent = parentAgentId === null ? undefined : agents.get(parentAgentId);
  return parent?.ids ?? ids;
}

function modelKey({ stepId, callId, modelCallNumber = 1 }: Correlation): string {
  return `model ${stepId} ${callId} ${modelCallNumber}`;
}

function toolKey({ callId }: Correlation): string {
  return `tool ${callId}`;
}
