// First cause first: where it began that a run failed or was stopped, and how that went up the tree. Pure.

import type { StopCode } from "../protocol/stop.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import { isToolFailureCode, TOOL_FAILURES } from "../protocol/tool-failure.ts";
import type { AgentFold } from "./agent-fold.ts";
import type { AgentEnd, ExecutionEnd } from "./agent-rest.ts";
import type { CallFold } from "./step-fold.ts";
import type { Cause, RefusalRow } from "./viewer-data.ts";

const MOST = 20;

type CauseChain = readonly Cause[];

/**
 * Of a run whose root failed or was stopped: what that came from, and its way up. Of any other: the same of each agent that failed, the
 * earliest first; then of each limit that stopped an agent or had a spawn refused, with the agent that came to it first. `agents`: parents before
 * those below them.
 */
export function causesOf(
  agents: readonly AgentFold[],
  refusals: readonly RefusalRow[],
): readonly Cause[] {
  const [root] = agents;
  if (root === undefined) return [];
  if (isBroken(root.end)) return chainOf(root, agents).slice(0, MOST);
  const failed = chainsOf(
    agents.filter(({ end: rest }) => rest?.status === "failed"),
    agents,
  );
  const reported = new Set(failed.flat().map(({ agentId }) => agentId));
  const limits = [
    ...chainsOf(firstAtEachLimit(agents.filter(({ agentId }) => !reported.has(agentId))), agents),
    ...refusedByLimits(agents, refusals),
  ];
  return [...earliestFirst(failed), ...earliestFirst(limits)].flat().slice(0, MOST);
}

/** The chains of agents, without those that stand in one before. */
function chainsOf(
  broken: readonly AgentFold[],
  agents: readonly AgentFold[],
): readonly CauseChain[] {
  const seen = new Set<string>();
  return broken.flatMap((agent) => {
    if (seen.has(agent.agentId)) return [];
    const chain = chainOf(agent, agents);
    for (const { agentId } of chain) seen.add(agentId);
    return [chain];
  });
}

/** Of each limit that stopped agents: whose limit it is, if it was stopped too; else the first of them. */
function firstAtEachLimit(agents: readonly AgentFold[]): readonly AgentFold[] {
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

/** Of each agent, the first spawn that each limit refused. */
function refusedByLimits(
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

function earliestFirst(chains: readonly CauseChain[]): readonly CauseChain[] {
  return chains.toSorted(([left], [right]) => (left?.atMs ?? 0) - (right?.atMs ?? 0));
}

/** Returns what an agent broke of, the first cause first, itself last. */
function chainOf(agent: AgentFold, agents: readonly AgentFold[], at = agent.end): CauseChain {
  if (at === undefined) return [];
  const own = causeIn(agent, at);
  const first = firstAtLimit(agent, at, agents);
  if (first !== undefined) return [...pathUp(first, agent), own];
  const made = callBehind(agent, at);
  if (made === undefined) return [own];
  const below = chainBelow(made.call, agents);
  // A call without words of its own failed as its subagent did.
  const isSaid = below.length > 0 && made.call.message === undefined;
  return [...below, ...(isSaid ? [] : [callCause(agent, made)]), own];
}

/** Returns the chain of the subagent that had broken when a call ended. Empty if none had. */
function chainBelow(call: CallFold, agents: readonly AgentFold[]): CauseChain {
  const { endSeq = Infinity } = call;
  for (const index of call.children) {
    const child = agents[index];
    const rest = child?.findEndBefore(endSeq);
    if (child !== undefined && isBroken(rest)) return chainOf(child, agents, rest);
  }
  return [];
}

/** It failed, or was stopped. */
export function isBroken(rest: AgentEnd | undefined): boolean {
  return rest?.status === "failed" || rest?.status === "stopped";
}

/** A limit stopped it: one of a budget, or of its errors. */
function isAtLimit({ status, reason }: AgentEnd): boolean {
  return status === "stopped" && STOPPED_BY_LIMITS.has(reason.code);
}

const STOPPED_BY_LIMITS: ReadonlySet<string> = new Set<StopCode>([
  "step_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_call_limit",
  "retry_limit",
  "error_budget",
]);

function causeIn({ agentId, agentPath }: AgentFold, rest: ExecutionEnd): Cause {
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

function callCause({ agentId, agentPath }: AgentFold, { step, call }: MadeCall): Cause {
  const { toolName, errorCode, errorName, outcome, startedAtMs, endedAtMs = startedAtMs } = call;
  const code = errorCode ?? outcome;
  const known = OUTCOMES[outcome] ?? "The call came to nothing.";
  const message = call.message || (errorName === undefined ? known : `${known} (${errorName})`);
  return { agentId, agentPath, step, toolName, code, message, atMs: endedAtMs };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  failed: "The call failed.",
  refused: "The call was refused.",
  retry: "The call had to be corrected.",
};

/** The first agent, at or below an agent, that was stopped by the limit that stopped it; undefined: itself, or it was no limit. */
function firstAtLimit(
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
    // A limit that stopped it before this execution has been raised since.
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

/** From an agent up to one above it, without that; those that did not break are left out. */
function pathUp(agent: AgentFold, end: AgentFold): readonly Cause[] {
  const causes: Cause[] = [];
  for (let at: AgentFold | undefined = agent; at !== undefined && at !== end; at = at.parent)
    if (at.end !== undefined && isBroken(at.end)) causes.push(causeIn(at, at.end));
  return causes;
}

/** A call, and the number of the step in which it was made. */
interface MadeCall {
  readonly step: number;
  readonly call: CallFold;
}

/** Returns the call for which an execution ended. `undefined` if it ended for another reason. */
function callBehind(agent: AgentFold, { execution, reason }: ExecutionEnd): MadeCall | undefined {
  const calls = agent.steps
    .filter((step) => step.execution === execution)
    .flatMap(({ number, calls: made }) => made.map((call) => ({ step: number, call })));
  const { limit, callId } = reason.data;
  switch (reason.code) {
    case "error_budget":
      return firstOfBudget(calls, limit);
    case "retry_limit":
    case "blocked":
      return calls.findLast(({ call }) => call.callId === callId);
    case "tool_call_limit":
      return calls.find(({ call }) => call.errorCode === "tool_call_limit");
    case "error":
      return calls.find(({ call }) => call.outcome === "failed" && call.severity === "abortive");
    default:
      return undefined;
  }
}

/** Returns the first of the calls that used up a limit of the error budget. */
function firstOfBudget(calls: readonly MadeCall[], limit: unknown): MadeCall | undefined {
  if (limit === "maxConsecutiveErrors") return longestRow(calls)[0];
  const counts = limit === "maxRetryErrors" ? "retry" : "error";
  return calls.find(({ call }) => isCounted(call, counts));
}

/** Returns the most failed calls without a successful one between them. */
function longestRow(calls: readonly MadeCall[]): readonly MadeCall[] {
  let row: MadeCall[] = [];
  let longest = row;
  for (const made of calls) {
    if (made.call.outcome === "succeeded") row = [];
    if (isCounted(made.call, "error")) row.push(made);
    if (row.length > longest.length) longest = row;
  }
  return longest;
}

/** Returns true for a call that an error budget counts as an error, or as a retry. */
function isCounted({ errorCode = "" }: CallFold, counts: "error" | "retry"): boolean {
  return isToolFailureCode(errorCode) && TOOL_FAILURES[errorCode].counts === counts;
}
