// Decides whether and how a subagent that has ended continues for one more execution. It already
// has its place in the tree, so only the budget is checked.

import { resolveInstructions } from "../../agent/agent-role.ts";
import type { DelegatedCall } from "../../agent/run-ports.ts";
import type { AgentId, StepId } from "../../protocol/ids.ts";
import { createUserMessage } from "../../protocol/message.ts";
import type { SpawnRefusal } from "../../protocol/subagent.ts";
import type { ContinueRequest } from "../../tools/tool-context.ts";
import { PARENT_ENDING } from "../../agent/tool-calls/call-outcome.ts";
import { refuseWithoutBudget, refuseSetup, type SpawnCall } from "./spawn-checks.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { continueAgent } from "./create-agent.ts";
import type { RunRuntime } from "./run-runtime.ts";
import { toChildFields } from "./set-up-child.ts";
import { refuseUnknownChild } from "./subagent-service.ts";

/**
 * Returns the continued subagent, announced, or the reason why it does not continue; then nothing
 * has changed. Exceptions count as reasons.
 */
export function continueChild(
  run: RunRuntime,
  parent: AgentRuntime,
  request: ContinueRequest,
  { call, group }: SpawnCall,
): AgentRuntime | SpawnRefusal {
  const { subagent, task, background: isBackground = false } = request;
  const ended = parent.findChild(subagent);
  if (parent.noStartSignal.aborted) return PARENT_ENDING;
  if (ended === undefined) return refuseUnknownChild(parent, subagent);
  if (group?.decision !== undefined) return refuseContinuation("group_decided", group.decision);
  const refusal =
    refuseChangedRequest(ended, request) ?? refuseUnlessRead(parent, ended, request, call);
  if (refusal !== undefined) return refusal;
  let child: AgentRuntime;
  try {
    const spent = parent.account.exhaustedForChild();
    if (spent !== undefined) return refuseWithoutBudget(spent);
    child = continueAgent(run, ended, {
      task,
      instructions: resolveInstructions(ended.role, run.context),
      message: createUserMessage(task, "task"),
      spawnCallId: call.callId,
      spawnStepId: call.stepId,
    });
  } catch (cause) {
    return refuseSetup(subagent, cause);
  }
  run.journal?.recordContinuation(child, isBackground, call.nth);
  run.recorder.record(parent.getScope(call), {
    type: "subagent.continued",
    ...toChildFields(child),
    task: child.taskText,
    isBackground,
    execution: child.execution,
  });
  return child;
}

/**
 * Returns the refusal of a request with more than a task, because the subagent already has its role
 * and its context.
 */
function refuseChangedRequest(
  { childName, identity, role }: AgentRuntime,
  {
    role: requestedRole = role.name,
    includeResultsFrom = [],
    roleDefinition: draft,
  }: ContinueRequest,
): SpawnRefusal | undefined {
  const who = `${childName} (${identity.agentPath})`;
  const ownRole = JSON.stringify(role.name);
  if (draft !== undefined)
    return refuseContinuation(
      "invalid_role",
      `${who} keeps its role ${ownRole}. Call again without newRole, or start another subagent with it, without continue.`,
    );
  if (requestedRole !== role.name)
    return refuseContinuation(
      "invalid_role",
      `${who} has the role ${ownRole}, not ${JSON.stringify(requestedRole)}. Call again with its own role, or start another subagent, without continue.`,
    );
  if (includeResultsFrom.length === 0) return undefined;
  return refuseContinuation(
    "context_policy_failed",
    `results of other subagents are passed only to a new subagent. Call again without includeResultsFrom and write into the task what ${who} has to know.`,
  );
}

/**
 * Returns a refusal unless the subagent has ended and its parent has read the result, so that each
 * result is read once.
 */
function refuseUnlessRead(
  parent: AgentRuntime,
  { childName, identity, hasEnded, isInBackground }: AgentRuntime,
  { background: isBackground = false }: ContinueRequest,
  { stepId }: DelegatedCall,
): SpawnRefusal | undefined {
  const who = `${childName} (${identity.agentPath})`;
  const { agentId } = identity;
  const refuseRunning = (why: string): SpawnRefusal =>
    refuseContinuation("subagent_running", `${who} ${why}`);
  if (!hasEnded)
    return refuseRunning("has not ended. Wait for its result, or write to it while it runs.");
  if (parent.mailbox?.hasReportOf(agentId) === true || isInBackground)
    return refuseRunning(
      "has ended, and you have not read its result yet. It is in your next message: continue it then.",
    );
  if (isBackground && stepId !== undefined && isResultReported(parent, agentId, stepId))
    return refuseContinuation(
      "subagent_running",
      `another call of the same reply gives you the result of ${who}. Read it first, and continue it then.`,
    );
  return undefined;
}

/**
 * Returns true if a call of the step has reported the subagent's result to the parent, also before
 * a pause.
 */
function isResultReported(parent: AgentRuntime, childId: AgentId, stepId: StepId): boolean {
  if (parent.wasReported(childId, stepId)) return true;
  const { step } = parent.currentState;
  return (
    step?.stepId === stepId &&
    step.executions.some(({ reportedAgentIds = [] }) => reportedAgentIds.includes(childId))
  );
}

function refuseContinuation(code: SpawnRefusal["code"], why: string): SpawnRefusal {
  return { code, message: `Not continued: ${why}` };
}
