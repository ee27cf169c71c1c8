// Root cause analysis of a run: where a failure or a stop began, and its path up the tree. Pure.

import { BUDGET_STOP_CODES, type StopCode } from "../protocol/stop.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import { TOOL_FAILURES } from "../protocol/tool-failure.ts";
import type { AgentFold } from "./agent-fold.ts";
import type { AgentEnd, ExecutionEnd } from "./agent-end.ts";
import type { CallFold } from "./step-fold.ts";
import type { Cause, RefusalRow } from "./viewer-data.ts";

const MOST = 20;

type CauseChain = readonly Cause[];

/**
 * Returns the causes of a run, at most 20. `agents` must have parents before their descendants.
 *
 * If the root failed or was stopped: its chain of causes. Otherwise the chains of failed agents,
 * earliest first, then the first agent that reached each limit.
 */
export function findCauses(
  agents: readonly AgentFold[],
  refusals: readonly RefusalRow[],
): readonly Cause[] {
  const [root] = agents;
  if (root === undefined) return [];
  if (isBroken(root.end)) return buildCauseChain(root, agents).slice(0, MOST);
  const failed = buildCauseChains(
    agents.filter(({ end: rest }) => rest?.status === "failed"),
    agents,
  );
  const reported = new Set(failed.flat().map(({ agentId }) => agentId));
  const limits = [
    ...buildCauseChains(
      findLimitedAgents(agents.filter(({ agentId }) => !reported.has(agentId))),
      agents,
    ),
    ...findLimitRefusals(agents, refusals),
  ];
  return [...sortEarliestFirst(failed), ...sortEarliestFirst(limits)].flat().slice(0, MOST);
}

/** Returns the chains of agents, without agents that an earlier chain contains. */
function buildCauseChains(
  broken: readonly AgentFold[],
  agents: readonly AgentFold[],
): readonly CauseChain[] {
  const seen = new Set<string>();
  return broken.flatMap((agent) => {
    if (seen.has(agent.agentId)) return [];
    const chain = buildCauseChain(agent, agents);
    for (const { agentId } of chain) seen.add(agentId);
    return [chain];
  });
}

/**
 * Returns for each limit the stopped agent that owns the limit, or else the first stopped agent.
 */
function findLimitedAgents(agents: readonly AgentFold[]): readonly AgentFold[] {
  const firsts = new Map<string, AgentFold>();
  for (const agent of agents) {
    const { end: rest } = agent;
    if (rest === undefined || !isAtLimit(rest)) continue;
    const { axis, accountPath = agent.agentPath } = rest.reason.data;
    const key = JSON.stringify([accountPath, axis ?? rest.reason.code]);
    const first = firsts.get(key);
    const isFirst =
      first === undefined ||
      (first.agentPath !== accountPath && rest.atMs < (first.end?.atMs ?? 0));
    if (isFirst) firsts.set(key, agent);
  }
  return [...firsts.values()];
}

/** Returns for each agent the first spawn that each limit refused. */
function findLimitRefusals(
  agents: readonly AgentFold[],
  refusals: readonly RefusalRow[],
): readonly CauseChain[] {
  const seen = new Set<string>();
  return refusals.flatMap(({ agent: index, step, code, message, atMs }) => {
    const agent = agents[index];
    const key = `${index} ${code}`;
    if (agent === undefined || !REFUSED_BY_LIMITS.has(code) || seen.has(key)) return [];
    seen.add(key);
    const { agentId, agentPath } = agent;
    return [[{ agentId, agentPath, step, code, message, isLimit: true, atMs }]];
  });
}

const REFUSED_BY_LIMITS: ReadonlySet<SpawnRefusal["code"]> = new Set<SpawnRefusal["code"]>([
  "depth_limit",
  "breadth_limit",
  "total_limit",
  "budget_exhausted",
]);

function sortEarliestFirst(chains: readonly CauseChain[]): readonly CauseChain[] {
  return chains.toSorted(([left], [right]) => (left?.atMs ?? 0) - (right?.atMs ?? 0));
}

/** Returns the chain of causes of an agent: root cause first, the agent last. */
function buildCauseChain(
  agent: AgentFold,
  agents: readonly AgentFold[],
  at = agent.end,
): CauseChain {
  if (at === undefined) return [];
  const agentCause = createCause(agent, at);
  const first = findFirstLimited(agent, at, agents);
  if (first !== undefined) return [...collectPathCauses(first, agent), agentCause];
  const ending = findEndingCall(agent, at);
  if (ending === undefined) return [agentCause];
  const below = findSubagentChain(ending.call, agents);
  // The subagent has already reported the reason of such a call.
  const isSaid = below.length > 0 && ending.call.error?.code.startsWith("subagent_") === true;
  return [...below, ...(isSaid ? [] : [createCallCause(agent, ending)]), agentCause];
}

/** Returns the chain of the subagent whose failure ended a call. Empty without such a subagent. */
function findSubagentChain(call: CallFold, agents: readonly AgentFold[]): CauseChain {
  const { endSeq = Infinity } = call;
  for (const index of call.children) {
    const child = agents[index];
    const rest = child?.findEndBefore(endSeq);
    if (child !== undefined && isBroken(rest)) return buildCauseChain(child, agents, rest);
  }
  return [];
}

/** Returns true for an execution that failed or was stopped. */
export function isBroken(rest: AgentEnd | undefined): boolean {
  return rest?.status === "failed" || rest?.status === "stopped";
}

/** Returns true if a budget limit or an error limit stopped the execution. */
function isAtLimit({ status, reason }: AgentEnd): boolean {
  return status === "stopped" && STOPPED_BY_LIMITS.has(reason.code);
}

const STOPPED_BY_LIMITS: ReadonlySet<string> = new Set<string>([
  ...BUDGET_STOP_CODES,
  ...(["retry_limit", "error_budget"] satisfies StopCode[]),
]);

function createCause({ agentId, agentPath }: AgentFold, rest: ExecutionEnd): Cause {
  const { error, reason, atMs, step } = rest;
  const { code, message } = error ?? reason;
  return {
    agentId,
    agentPath,
    ...(step === 0 ? {} : { step }),
    code,
    message,
    ...(isAtLimit(rest) ? { isLimit: true } : {}),
    atMs,
  };
}

function createCallCause({ agentId, agentPath }: AgentFold, { step, call }: MadeCall): Cause {
  const { toolName, error, outcome, startedAtMs, endedAtMs = startedAtMs } = call;
  const { code = outcome, name } = error ?? {};
  const known = OUTCOMES[outcome] ?? "The call came to nothing.";
  const message = error?.message || (name === undefined ? known : `${known} (${name})`);
  return { agentId, agentPath, step, toolName, code, message, atMs: endedAtMs };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  failed: "The call failed.",
  refused: "The call was refused.",
  retry: "The call had to be corrected.",
};

/**
 * Returns the first descendant that the same limit stopped. `undefined` if that is the agent
 * itself, or no limit stopped the agent.
 */
function findFirstLimited(
  agent: AgentFold,
  { reason, startSeq }: ExecutionEnd,
  agents: readonly AgentFold[],
): AgentFold | undefined {
  const { axis, accountPath } = reason.data;
  if (axis === undefined || accountPath === undefined) return undefined;
  let first = agent;
  for (const other of agents) {
    const { end: rest } = other;
    if (rest?.reason.data["axis"] !== axis) continue;
    if (rest.reason.data["accountPath"] !== accountPath || !isBelow(other, agent)) continue;
    // The limit was raised before this execution.
    if (rest.endSeq < startSeq) continue;
    const isEarlier = rest.atMs < (first.end?.atMs ?? 0);
    const isDeeper = rest.atMs === first.end?.atMs && other.depth > first.depth;
    if (isEarlier || isDeeper) first = other;
  }
  return first === agent ? undefined : first;
}

function isBelow(agent: AgentFold, ancestor: AgentFold): boolean {
  for (let at = agent.parent; at !== undefined; at = at.parent) if (at === ancestor) return true;
  return false;
}

/**
 * Returns the causes from an agent up to below an ancestor, without agents that neither failed nor
 * were stopped.
 */
function collectPathCauses(agent: AgentFold, end: AgentFold): readonly Cause[] {
  const causes: Cause[] = [];
  for (let at: AgentFold | undefined = agent; at !== undefined && at !== end; at = at.parent)
    if (at.end !== undefined && isBroken(at.end)) causes.push(createCause(at, at.end));
  return causes;
}

/** Tool call and the number of its step. */
interface MadeCall {
  readonly step: number;
  readonly call: CallFold;
}

/**
 * Returns the call that ended an execution. `undefined` if the execution ended for another reason.
 */
function findEndingCall(
  agent: AgentFold,
  { execution, reason }: ExecutionEnd,
): MadeCall | undefined {
  const calls = agent.steps
    .filter((step) => step.execution === execution)
    .flatMap(({ number, calls: stepCalls }) => stepCalls.map((call) => ({ step: number, call })));
  const { limit, callId } = reason.data;
  switch (reason.code) {
    case "error_budget":
      return findDecisiveCall(calls, limit);
    case "retry_limit":
    case "blocked":
      return calls.findLast(({ call }) => call.callId === callId);
    case "tool_call_limit":
      return calls.find(({ call }) => call.error?.code === "tool_call_limit");
    case "error":
      return calls.find(
        ({ call }) => call.outcome === "failed" && call.error?.severity === "abortive",
      );
    default:
      return undefined;
  }
}

/** Returns the first of the calls that used up a limit of the error budget. */
function findDecisiveCall(calls: readonly MadeCall[], limit: unknown): MadeCall | undefined {
  if (limit === "maxConsecutiveErrors") return findLongestFailureRow(calls)[0];
  const counts = limit === "maxRetryErrors" ? "retry" : "error";
  return calls.find(({ call }) => isCounted(call, counts));
}

/** Returns the longest sequence of failed calls without a successful call between them. */
function findLongestFailureRow(calls: readonly MadeCall[]): readonly MadeCall[] {
  let row: MadeCall[] = [];
  let longest = row;
  for (const entry of calls) {
    if (entry.call.outcome === "succeeded") row = [];
    if (isCounted(entry.call, "error")) row.push(entry);
    if (row.length > longest.length) longest = row;
  }
  return longest;
}

/** Returns true for a call that the error budget counts as an error, or as a retry. */
function isCounted({ error }: CallFold, counts: "error" | "retry"): boolean {
  return error !== undefined && TOOL_FAILURES[error.code].counts === counts;
}
