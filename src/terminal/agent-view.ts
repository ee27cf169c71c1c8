// One agent as it looks from outside, with all below it; and how such a tree is changed: what did not
// change stays the same value. Pure.

import type { AgentId, SettledStatus, StopReason, Usage } from "../index.ts";
import type { CallId } from "../extend.ts";

/** One agent, with those that it started in the order of their start. */
export interface AgentView {
  readonly agentId: AgentId;
  readonly agentPath: string;
  readonly role: string;
  readonly task: string;
  readonly startedAtMs: number;
  readonly activity: Activity;
  /** The step it is at; 0 before the first. */
  readonly step: number;
  readonly own: Spent;
  /** Its own and that of all below it. */
  readonly subtree: Spent;
  /** Spawns of its own that were refused. */
  readonly refusals: number;
  readonly children: readonly AgentView[];
}

export type Spent = Pick<Usage, "totalTokens" | "costMicroUsd" | "unpricedCalls">;

/** What an agent is doing. */
export type Activity =
  /** Between two effects, or waiting in line for its budget. */
  | { readonly kind: "preparing" }
  /** It has its budget, and waits for a free slot. */
  | { readonly kind: "queued" }
  | { readonly kind: "thinking" }
  | { readonly kind: "retrying"; readonly attempt: number; readonly errorCode: string }
  | { readonly kind: "calling"; readonly calls: readonly OpenCallView[] }
  /** At rest: ended, or paused until the run is resumed. */
  | {
      readonly kind: "settled";
      readonly status: SettledStatus;
      readonly reason: StopReason;
      readonly durationMs: number;
    };

/** A tool call under way. */
export interface OpenCallView {
  readonly callId: CallId | null;
  readonly toolName: string;
  /** `question`: it has not begun; a question must be answered first. */
  readonly kind: "tool" | "delegation" | "question";
}

export const NOTHING_SPENT: Spent = { totalTokens: 0, costMicroUsd: 0, unpricedCalls: 0 };

/**
 * Changes the agent at `path`, and with `onPath` each of its ancestors; the rest of the tree stays
 * the same value.
 */
export function changeAt(
  agent: AgentView,
  path: string,
  target: (agent: AgentView) => AgentView,
  onPath: (agent: AgentView) => AgentView = (unchanged) => unchanged,
): AgentView {
  if (agent.agentPath === path) return target(agent);
  const index = agent.children.findIndex(isOnPath(path));
  const child = agent.children[index];
  if (child === undefined) return agent;
  const children = agent.children.with(index, changeAt(child, path, target, onPath));
  return onPath({ ...agent, children });
}

export function findAt(agent: AgentView | undefined, path: string): AgentView | undefined {
  if (agent === undefined || agent.agentPath === path) return agent;
  return findAt(agent.children.find(isOnPath(path)), path);
}

function isOnPath(path: string): (agent: AgentView) => boolean {
  return ({ agentPath }) => agentPath === path || path.startsWith(`${agentPath}/`);
}

export function spentOf(usage: Usage): Spent {
  return plus(NOTHING_SPENT, usage);
}

/** The sum of both; with a `sign` of -1, what the right one leaves of the left one. */
export function plus(left: Spent, right: Spent, sign: 1 | -1 = 1): Spent {
  return {
    totalTokens: left.totalTokens + sign * right.totalTokens,
    costMicroUsd: left.costMicroUsd + sign * right.costMicroUsd,
    unpricedCalls: left.unpricedCalls + sign * right.unpricedCalls,
  };
}
