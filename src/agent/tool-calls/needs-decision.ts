// What makes a call wait for a decision: guards, a hook that denied it, an approval that its tool wants, and the watch for calls that repeat
// themselves (R74, X21).

import { isRecord } from "../../kernel/json.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import { guardsFor } from "../../tools/tool-guard.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { OpenCall } from "./open-call.ts";

/** True if guards, a hook or the watch for repetition have a word in it. */
export function needsDecision(call: OpenCall, bound: GuardableCall): boolean {
  const { agent, planned } = call;
  return (
    planned.denial !== undefined ||
    (agent.guards.length > 0 && guardsFor(agent.guards, bound.tool.name).length > 0) ||
    repetition(call, bound) !== undefined
  );
}

/** True if the tool itself wants an approval, or wants to decide on it. */
export function needsApproval({ planned }: OpenCall, bound: GuardableCall): boolean {
  if (bound.type !== "function") return false;
  return (bound.use.needsApproval ?? planned.settings.needsApproval) !== false;
}

/** Who asks, and why; undefined: the call does not repeat itself too often. */
export interface Repetition {
  readonly guard: "identical-calls" | "identical-delegations";
  readonly reason: string;
}

/** A call about which guards are asked. */
export type GuardableCall = Exclude<BoundCall, { readonly type: "rejected" | "finish" }>;

/** Counts calls of function tools, one right after the other, and delegations of one task to one role, anywhere in the run. */
export function repetition(call: OpenCall, bound: GuardableCall): Repetition | undefined {
  if (bound.type === "function") return repeatedCall(call, bound.tool.name);
  return bound.tool.name === SPAWN_TOOL_NAME ? repeatedDelegation(call, bound.input) : undefined;
}

function repeatedCall({ planned }: OpenCall, toolName: string): Repetition | undefined {
  const { identicalCalls, settings } = planned;
  const { maxIdenticalCalls: most } = settings;
  if (most === "unlimited" || identicalCalls < most) return undefined;
  const reason =
    identicalCalls === 0
      ? `No call of ${toolName} may be made unasked.`
      : `${toolName} was called with the same arguments ${identicalCalls + 1} times in a row.`;
  return { guard: "identical-calls", reason };
}

/** Calls of one reply count once. */
function repeatedDelegation({ agent, place }: OpenCall, input: unknown): Repetition | undefined {
  const { maxIdenticalDelegations: most } = agent.role.delegation;
  if (most === "unlimited" || !isRecord(input)) return undefined;
  const { task, continue: childName } = input;
  const isContinued = typeof childName === "string" && childName.trim() !== "";
  const role = isContinued ? agent.subagent(childName)?.role.name : input["role"];
  if (typeof role !== "string" || typeof task !== "string") return undefined;
  const before = agent.run.subagents.delegationsBefore({ role, task }, place.stepId);
  if (before < most) return undefined;
  const reason =
    before === 0
      ? `No ${role} may be started unasked.`
      : `${role} was started with the same task ${before} times in this run.`;
  return { guard: "identical-delegations", reason };
}
