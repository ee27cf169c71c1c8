// May a call run? Most calls may at once: no guard is there for them, no hook denied them, they need no approval, and they do not repeat
// themselves (R74, X21). All others are decided upon in guards.ts, and asked about in questions.ts.

import { isRecord } from "../../kernel/json.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import { guardsFor } from "../../tools/tool-guard.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { Repetition } from "./guards.ts";
import type { OpenCall } from "./open-call.ts";
import { refusedOutcome, type Permission } from "./call-outcome.ts";
import { answered, askedAbout, permittedAgain } from "./questions.ts";

/** Gives or asks for the permission; never rejects. At once where nothing has to be asked. */
export function authorize(call: OpenCall, bound: OwnCall): Permission | Promise<Permission> {
  const { persistence } = call.agent;
  if (persistence === undefined) return requestPermission(call, bound);
  return persistence.authorize(call.effectPosition, call.planned, bound, {
    ask: () => requestPermission(call, bound),
    askAgain: (allowed) => permittedAgain(call, allowed),
  });
}

function requestPermission(call: OpenCall, bound: OwnCall): Permission | Promise<Permission> {
  const { agent, planned } = call;
  const { deferral, denial, settings } = planned;
  if (deferral?.type === "question") return answered(call, bound, deferral);
  const { name } = bound.tool;
  const repeated = repetition(call, bound);
  const isReviewed =
    denial !== undefined ||
    repeated !== undefined ||
    (agent.guards.length > 0 && guardsFor(agent.guards, name).length > 0);
  if (
    bound.type === "delegation" &&
    typeof bound.use !== "function" &&
    bound.use.type === "spawn"
  ) {
    // No approver is asked about a subagent that cannot be started as things stand (R137).
    const { request } = bound.use;
    const spawn = agent.run.subagents.checkSpawn(agent, request, call.delegation(), isReviewed);
    if (spawn !== undefined) return { type: "impossible", outcome: refusedOutcome(spawn) };
  }
  if (call.signal.aborted) return { type: "cancelled" };
  const needsApproval =
    bound.type === "function" && (bound.use.needsApproval ?? settings.needsApproval) !== false;
  return isReviewed || needsApproval
    ? askedAbout(call, bound, repeated)
    : { type: "granted", bound };
}

/** Counts calls of function tools, one right after the other, and delegations of one task to one role, anywhere in the run. */
function repetition(call: OpenCall, bound: OwnCall): Repetition | undefined {
  const { toolName } = call;
  if (bound.type === "delegation")
    return toolName === SPAWN_TOOL_NAME ? repeatedDelegation(call, bound.input) : undefined;
  const { identicalCalls, settings } = call.planned;
  const { maxIdenticalCalls: most } = settings;
  if (most === "unlimited" || identicalCalls < most) return undefined;
  const guard = "identical-calls";
  if (identicalCalls === 0)
    return { guard, answer: "ask", reason: `No call of ${toolName} may be made unasked.` };
  const reason = `${toolName} was called with the same arguments ${identicalCalls + 1} times in a row.`;
  return isAsked(call, most)
    ? { guard, answer: "ask", reason }
    : { guard, answer: "deny", reason: `${reason} Use its last result, or other arguments.` };
}

/** True if a repeated call waits for a person: there is one to ask, or each call is to be asked about. */
function isAsked({ agent }: OpenCall, most: number): boolean {
  return most === 0 || agent.run.settings.approvals.approver !== undefined;
}

/** Calls of one reply count once. */
function repeatedDelegation(call: OpenCall, input: unknown): Repetition | undefined {
  const { agent, effectPosition } = call;
  const { maxIdenticalDelegations: most } = agent.role.delegation;
  if (most === "unlimited" || !isRecord(input)) return undefined;
  const { task, continue: childName } = input;
  const isContinued = typeof childName === "string" && childName.trim() !== "";
  const role = isContinued ? agent.subagent(childName)?.role.name : input["role"];
  if (typeof role !== "string" || typeof task !== "string") return undefined;
  const before = agent.run.subagents.delegationsBefore({ role, task }, effectPosition.stepId);
  if (before < most) return undefined;
  const guard = "identical-delegations";
  if (before === 0) return { guard, answer: "ask", reason: `No ${role} may be started unasked.` };
  const reason = `${role} was started with the same task ${before} times in this run.`;
  return isAsked(call, most)
    ? { guard, answer: "ask", reason }
    : { guard, answer: "deny", reason: `${reason} Use its results, or another task.` };
}
