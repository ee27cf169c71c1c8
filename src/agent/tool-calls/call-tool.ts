// One tool call: authorize, run or delegate, record. What the model wrote was rewritten, checked and admitted before (C44). Nothing of it
// rejects: whatever goes wrong is a result that the model can read.

import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { inScope } from "../../protocol/correlation.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import { authorize } from "./authorize.ts";
import type { CallOutcome } from "./call-outcome.ts";
import { delegate, isTooLate, resumeDelegation } from "./delegate.ts";
import { OpenCall, type CallPosition } from "./open-call.ts";
import { recordBegin, recordEnd, forbiddenOutcome, reject, rejectUnbegun } from "./record.ts";
import { runTool } from "./run-tool.ts";
import { callExternally } from "./questions.ts";

/** Makes a call in this process. */
export function callTool(
  agent: AgentRuntime,
  position: CallPosition,
  planned: PlannedCall,
): Promise<CallEnd> {
  const call = new OpenCall(agent, position, planned);
  return inScope(call.scope, agent.run.recorder, () => runStages(call));
}

/** Without a slot it waits for permission, and a delegation for its subagents; a function works within one (S1). */
async function runStages(call: OpenCall): Promise<CallEnd> {
  const { agent, planned, bound } = call;
  if (planned.deferral?.type === "subagent") return await resumeDelegation(call, planned.deferral);
  if (bound.type === "rejected") return await reject(call, forbiddenOutcome(call, bound));
  if (bound.type === "finish") return await recordEnd(call, recordBegin(call), TAKEN);
  if (bound.type === "external") return await callExternally(call, bound);
  if (bound.type === "delegation") {
    // The throttle bounds the delegations that begin in one turn of the event loop.
    const turn = agent.run.settings.throttle.turn();
    if (turn !== undefined) await turn;
  }
  const asked = authorize(call, bound);
  // Not awaited where nothing is asked: all calls of a reply are authorized before the first one begins.
  const permission = asked instanceof Promise ? await asked : asked;
  switch (permission.type) {
    case "deferred":
      return permission;
    case "cancelled":
      return rejectUnbegun(call);
    case "impossible":
      return await reject(call, permission.outcome);
    case "refused": {
      const { rejected, failure } = permission;
      if (call.toolName === SPAWN_TOOL_NAME)
        agent.run.subagents.cancelDelegation(agent, call.delegation());
      const outcome = forbiddenOutcome(call, rejected);
      return await reject(call, failure === undefined ? outcome : { ...outcome, failure });
    }
    case "granted": {
      call.bound = permission.bound;
      const claiming = agent.persistence?.claimed();
      if (claiming !== undefined) await claiming;
      if (permission.bound.type === "function") return await runTool(call, permission.bound);
      return isTooLate(call) ? rejectUnbegun(call) : await delegate(call, permission.bound);
    }
  }
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was taken." };
