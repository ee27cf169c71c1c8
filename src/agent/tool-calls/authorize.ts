// May a call run? Most calls may at once: no guard is there for them, they need no approval, and they do not repeat themselves. All others
// are decided upon in guards.ts, and asked about in questions.ts.

import type { OwnCall } from "../../tools/bind-call.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import { refusedOutcome } from "./failed-outcome.ts";
import { needsApproval, needsDecision } from "./needs-decision.ts";
import type { OpenCall } from "./open-call.ts";
import { answered, askedAbout, type Permission } from "./questions.ts";

/** Gives or asks for the permission; never rejects. At once where nothing has to be asked. */
export function authorize(call: OpenCall, bound: OwnCall): Permission | Promise<Permission> {
  const { agent, planned, delegated } = call;
  const { deferral } = planned;
  if (deferral?.type === "question") return answered(call, bound, deferral);
  const isAsked = needsDecision(call, bound);
  if (bound.tool.name === SPAWN_TOOL_NAME) {
    // No approver is asked about a subagent that cannot be started as things stand (R137).
    const spawn = agent.run.subagents.refuse(agent, bound.input, delegated, isAsked);
    if (spawn !== undefined) return { type: "impossible", outcome: refusedOutcome(spawn) };
  }
  if (call.signal.aborted) return { type: "cancelled" };
  return isAsked || needsApproval(call, bound)
    ? askedAbout(call, bound)
    : { type: "granted", bound };
}
