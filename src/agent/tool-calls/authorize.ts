// Authorizes calls before they run. Decisions are in call-decision.ts, questions in
// call-questions.ts.

import type { OwnCall } from "../../tools/bind-call.ts";
import { selectGuards } from "../../tools/tool-guard.ts";
import { findRepetition } from "./call-decision.ts";
import { createRefusedOutcome, type Permission } from "./call-outcome.ts";
import { createNextDelegation, type CallInProgress } from "./open-call.ts";
import { resumeQuestion, decideOrAskApprover } from "./call-questions.ts";

/** Returns or requests the permission for a call. Synchronous if nothing has to be asked. */
export function authorize(call: CallInProgress, bound: OwnCall): Permission | Promise<Permission> {
  const { agent, deferral, settings } = call;
  if (deferral?.type === "question") return resumeQuestion(call, bound, deferral);
  const repeated = findRepetition(call, bound);
  const isReviewed =
    call.denial !== undefined ||
    repeated !== undefined ||
    (agent.guards.length > 0 && selectGuards(agent.guards, bound.tool.name).length > 0);
  if (
    bound.type === "delegation" &&
    typeof bound.use !== "function" &&
    bound.use.type === "spawn"
  ) {
    // A subagent that cannot be started at present is refused before an approver is asked.
    const { request } = bound.use;
    const delegated = createNextDelegation(call);
    const refused = agent.run.supervisor.reserveSpawn(agent, request, delegated, isReviewed);
    if (refused !== undefined)
      return { type: "unrunnable", outcome: createRefusedOutcome(refused) };
  }
  if (call.signal.aborted) return { type: "cancelled" };
  const needsApproval =
    bound.type === "function" && (bound.use.needsApproval ?? settings.needsApproval) !== false;
  return isReviewed || needsApproval
    ? decideOrAskApprover(call, bound, repeated)
    : { type: "granted", bound };
}
