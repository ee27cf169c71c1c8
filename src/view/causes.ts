// First cause first: where it began that a run failed or was stopped, and how that went up the tree. Pure.

import type { StopCode } from "../protocol/stop.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import type { AgentFold, AgentRest } from "./agent-fold.ts";
import type { CallFold } from "./step-fold.ts";
import type { Cause, RefusalRow } from "./viewer-data.ts";

const MOST = 20;

type Chain = readonly Cause[];

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
  if (isBroken(root.rest)) return chainOf(root, agents).slice(0, MOST);
  const failed = chainsOf(
    agents.filter(({ rest }) => rest?.status === "failed"),
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
function chainsOf(broken: readonly AgentFold[], agents: readonly AgentFold[]): readonly Chain[] {
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
    const { rest } = agent;
    if (rest === undefined || !isAtLimit(rest)) continue;
    const { axis, accountPath = agent.agentPath } = rest.reason.data;
    const key = JSON.stringify([accountPath, axis ?? rest.reason.code]);
    const first = firsts.get(key);
    const isFirst =
      first === undefined ||
      (first.agentPath !== accountPath && rest.atMs < (first.rest?.atMs ?? 0));
    if (isFirst) firsts.set(key, agent);
  }
  return [...firsts.values()];
}

/** Of each agent, the first spawn that each limit refused. */
function refusedByLimits(
  agents: readonly AgentFold[],
  refusals: readonly RefusalRow[],
): readonly Chain[] {
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

function earliestFirst(chains: readonly Chain[]): readonly Chain[] {
  return chains.toSorted(([left], [right]) => (left?.atMs ?? 0) - (right?.atMs ?? 0));
}

/** What an agent broke of, the first cause first, itself last. */
function chainOf(agent: AgentFold, agents: readonly AgentFold[]): readonly Cause[] {
  const { rest } = agent;
  if (rest === undefined) return [];
  const own = causeIn(agent, rest);
  const first = firstAtLimit(agent, rest, agents);
  if (first !== undefined) return [...pathUp(first, agent), own];
  const call = callBehind(agent, rest);
  if (call === undefined) return [own];
  const child = call.child === undefined ? undefined : agents[call.child];
  if (child !== undefined && isBroken(child.rest)) return [...chainOf(child, agents), own];
  return [callCause(agent, call), own];
}

/** It failed, or was stopped. */
export function isBroken(rest: AgentRest | undefined): boolean {
  return rest?.status === "failed" || rest?.status === "stopped";
}

/** A limit stopped it: one of a budget, or of its errors. */
function isAtLimit({ status, reason }: AgentRest): boolean {
  return status === "stopped" && STOPPED_BY_LIMITS.has(reason.code);
}

const STOPPED_BY_LIMITS: ReadonlySet<string> = new Set<StopCode>([
  "steps_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_calls_limit",
  "retry_limit",
  "error_budget",
]);

function causeIn(agent: AgentFold, rest: AgentRest): Cause {
  const { agentId, agentPath, step } = agent;
  const { error, reason, atMs } = rest;
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

function callCause({ agentId, agentPath, step }: AgentFold, call: CallFold): Cause {
  const { toolName, errorCode, errorName, outcome, startedAtMs, durationMs = 0 } = call;
  const code = errorCode ?? outcome;
  const known = OUTCOMES[outcome] ?? "The call came to nothing.";
  const message = call.message || (errorName === undefined ? known : `${known} (${errorName})`);
  return { agentId, agentPath, step, toolName, code, message, atMs: startedAtMs + durationMs };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  failed: "The call failed.",
  refused: "The call was refused.",
  retry: "The call had to be corrected.",
};

/** The first agent, at or below an agent, that was stopped by the limit that stopped it; undefined: itself, or it was no limit. */
function firstAtLimit(
  agent: AgentFold,
  { reason }: AgentRest,
  agents: readonly AgentFold[],
): AgentFold | undefined {
  const { axis, accountPath } = reason.data;
  if (axis === undefined || accountPath === undefined) return undefined;
  let first = agent;
  for (const other of agents) {
    const { rest } = other;
    if (rest?.reason.data["axis"] !== axis) continue;
    if (rest.reason.data["accountPath"] !== accountPath || !isBelow(other, agent)) continue;
    const isEarlier = rest.atMs < (first.rest?.atMs ?? 0);
    const isDeeper = rest.atMs === first.rest?.atMs && other.depth > first.depth;
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
    if (at.rest !== undefined && isBroken(at.rest)) causes.push(causeIn(at, at.rest));
  return causes;
}

/** The call of its last execution for which an agent broke: of those that an error budget counts, the first. */
function callBehind(agent: AgentFold, { error, reason }: AgentRest): CallFold | undefined {
  const calls = agent.steps
    .filter(({ execution }) => execution === agent.executions)
    .flatMap((step) => step.calls);
  switch (reason.code) {
    case "error_budget":
      return calls.find(({ outcome }) => OUTCOMES[outcome] !== undefined);
    case "retry_limit":
    case "blocked":
    case "tool_calls_limit":
      return calls.findLast(({ outcome }) => OUTCOMES[outcome] !== undefined);
    case "error":
      return calls.findLast(
        ({ errorCode }) => errorCode !== undefined && errorCode === error?.code,
      );
    default:
      return undefined;
  }
}
