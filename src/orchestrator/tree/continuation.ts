// May this subagent continue, and how: one more execution of one that has ended. Its place in the tree is taken already; only the budget is
// asked (X10).

import { instructionsFor } from "../../agent/agent-role.ts";
import type { DelegatedCall } from "../../agent/run-ports.ts";
import type { SpawnRefusal } from "../../protocol/subagent.ts";
import type { ContinueRequest } from "../../tools/tool-context.ts";
import { nothingLeft, TOLD_TO_END } from "./admission.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { continueAgent } from "./create-agent.ts";
import type { RunRuntime } from "./run-runtime.ts";
import type { SpawnGroup } from "../../agent/spawn-group.ts";
import { unknownChild } from "./subagent-service.ts";

/** The subagent that continues, or why it does not: then nothing has changed. Throws what its account, its clock or its ids throw. */
export function continued(
  run: RunRuntime,
  parent: AgentRuntime,
  request: ContinueRequest,
  { call, group }: { readonly call: DelegatedCall; readonly group: SpawnGroup | undefined },
): AgentRuntime | SpawnRefusal {
  if (parent.stopSignal.aborted) return TOLD_TO_END;
  const { childName, task } = request;
  const child = parent.subagent(childName);
  if (child === undefined) return unknownChild(parent, childName);
  if (group?.decision !== undefined)
    return { code: "group_decided", message: `Not continued: ${group.decision}` };
  const refusal = impossible(child, request) ?? inFlight(parent, child, request, call);
  if (refusal !== undefined) return refusal;
  const spent = parent.account.exhaustedForChild();
  if (spent !== undefined) return nothingLeft(spent);
  return continueAgent(run, child, {
    task,
    instructions: instructionsFor(child.role, run.context),
    message: { role: "user", text: task, origin: "task" },
    spawnCallId: call.callId,
    spawnStepId: call.stepId,
  });
}

/** What was asked for besides the task and cannot be done with a subagent that has its role and its context already. */
function impossible(
  { childName, identity, role }: AgentRuntime,
  { role: asked = role.name, resultsOf = [], draft }: ContinueRequest,
): SpawnRefusal | undefined {
  const who = `${childName} (${identity.agentPath})`;
  if (draft !== undefined) {
    const message = `Not continued: ${who} keeps its role ${JSON.stringify(role.name)}. Call again without newRole, or start another subagent with it, without continue.`;
    return { code: "invalid_role", message };
  }
  if (asked !== role.name) {
    const message = `Not continued: ${who} has the role ${JSON.stringify(role.name)}, not ${JSON.stringify(asked)}. Call again with its own role, or start another subagent, without continue.`;
    return { code: "invalid_role", message };
  }
  if (resultsOf.length > 0) {
    const message = `Not continued: results of others are handed on only to a subagent that is started. Call again without resultsOf and write into the task what ${who} has to know.`;
    return { code: "invalid_context", message };
  }
  return undefined;
}

/** What has to happen first: it must have ended, and its parent must have read its result, so that each result is read once. */
function inFlight(
  parent: AgentRuntime,
  { childName, identity, hasEnded }: AgentRuntime,
  { background: isBackground = false }: ContinueRequest,
  { stepId }: DelegatedCall,
): SpawnRefusal | undefined {
  const who = `${childName} (${identity.agentPath})`;
  if (!hasEnded) {
    const message = `Not continued: ${who} has not ended. Wait for its result, or write to it while it runs.`;
    return { code: "subagent_running", message };
  }
  const { agentId } = identity;
  if (parent.mailbox?.hasReportOf(agentId) === true || parent.background.isLiving(agentId)) {
    const message = `Not continued: ${who} has ended, and you have not read its result yet. It is in your next message: continue it then.`;
    return { code: "subagent_running", message };
  }
  if (isBackground && stepId !== undefined && parent.wasReported(identity.agentId, stepId)) {
    const message = `Not continued: another call of the same reply gives you the result of ${who}. Read it first, and continue it then.`;
    return { code: "subagent_running", message };
  }
  return undefined;
}
