// Operations of an agent on its subagents: list, continue, wait for, write to and cancel them.

import {
  checkAmount,
  checkKeys,
  checkText,
  NO_LIMIT_ADVICE,
} from "../../kernel/argument-checks.ts";
import { createLinkedController, sleep } from "../../kernel/cancel-signal.ts";
import { stringifyCanonical, omitUndefined } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { SpawnRefusal } from "../../protocol/subagent.ts";
import { describeDelegation } from "../../tools/delegation-text.ts";
import type { DelegationOutcome, SubagentInfo, SubagentService } from "../../tools/tool-context.ts";
import type { DelegatedCall } from "../../agent/run-ports.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { createSubagentResult } from "./agent-report.ts";
import { refuse } from "./spawn-checks.ts";
import type { RunRuntime } from "./run-runtime.ts";

export function createSubagentService(
  run: RunRuntime,
  parent: AgentRuntime,
  call: DelegatedCall,
): Omit<SubagentService, "continue"> {
  const findChild = (childName: string): AgentRuntime | DelegationOutcome =>
    findOrRefuse(run, parent, call, childName);
  const refuseEnded = (child: AgentRuntime): DelegationOutcome =>
    refuse(run, parent, { role: child.role.name, refusal: refuseEndedChild(child) }, call);
  const by = call.callId && { by: { agentId: parent.identity.agentId, callId: call.callId } };
  return Object.freeze({
    list: () => parent.children.map((child) => describeChild(child)),
    wait: (request = {}) => waitForChildren(run, parent, call, request),
    sendMessage: (childName: string, text: string) => {
      checkText("message", text);
      const child = findChild(childName);
      if ("type" in child) return child;
      if (!isOperationDone(parent, call, child, text)) {
        if (child.settled !== undefined) return refuseEnded(child);
        const { agentId } = child.identity;
        run.journal?.append({ type: "letter", agentId, text, ...by });
        void child.openMailbox().write(text, parent.identity.agentId);
      }
      return createAnswer(`${childName} will read it before its next step, if it takes one.`);
    },
    cancel: async (childName: string, reason?: string) => {
      const child = findChild(childName);
      if ("type" in child) return child;
      const { agentId } = child.identity;
      const isAgain = isOperationDone(parent, call, child);
      if (child.hasEnded && !isAgain) return refuseEnded(child);
      if (reason !== undefined) checkText("reason", reason);
      const message = reason ?? `${parent.identity.agentPath}, its parent, cancelled it.`;
      if (!isAgain) run.journal?.append({ type: "cancel", agentId, message, ...by });
      child.cancel(message);
      await run.supervisor.dismiss(parent, agentId);
      return reportChildren(parent, call, [child]);
    },
  });
}

/**
 * Returns true if the call had done the operation before its process crashed, so that it is not
 * repeated (D2). `text` is the message that it wrote, absent for a cancellation.
 */
function isOperationDone(
  parent: AgentRuntime,
  { callId }: DelegatedCall,
  child: AgentRuntime,
  text?: string,
): boolean {
  const { agentId: childId } = child.identity;
  if (callId === undefined) return false;
  const { inFlight } = parent.persistence ?? {};
  return inFlight?.takeOperation({ callId, childId, ...omitUndefined({ text }) }) === true;
}

function findOrRefuse(
  run: RunRuntime,
  parent: AgentRuntime,
  call: DelegatedCall,
  childName: string,
): AgentRuntime | DelegationOutcome {
  return (
    parent.findChild(childName) ??
    refuse(run, parent, { role: childName, refusal: refuseUnknownChild(parent, childName) }, call)
  );
}

/** Returns the refusal for a name that no subagent of the agent has. */
export function refuseUnknownChild(parent: AgentRuntime, childName: string): SpawnRefusal {
  const names = parent.children.map((child) => child.childName).join(", ");
  const known = names === "" ? "You have started none." : `Yours are: ${names}.`;
  const { agentPath } = parent.identity;
  const message = `Not done: ${agentPath} has no subagent ${JSON.stringify(childName)}. ${known}`;
  return { code: "unknown_subagent", message };
}

function refuseEndedChild({ childName, identity, settled }: AgentRuntime): SpawnRefusal {
  const situation =
    settled?.status === "paused"
      ? "is paused until a question is answered. Continue without it."
      : `has ended (${settled?.status ?? ""}). To give it another task, call SpawnSubagent with "continue": "${childName}".`;
  const message = `Not done: ${childName} (${identity.agentPath}) ${situation}`;
  return { code: "subagent_ended", message };
}

function describeChild(child: AgentRuntime): SubagentInfo {
  const { childName, role, taskText: task, settled } = child;
  return Object.freeze({
    subagent: childName,
    role: role.name,
    task,
    status: settled?.status ?? "running",
    isBackground: child.isInBackground,
    totalTokens: child.account.usage().total.totalTokens,
  });
}

async function waitForChildren(
  run: RunRuntime,
  parent: AgentRuntime,
  call: DelegatedCall,
  request: NonNullable<Parameters<SubagentService["wait"]>[0]>,
): Promise<DelegationOutcome> {
  checkKeys("wait", request, ["subagents", "timeoutMs"]);
  const { subagents, timeoutMs } = request;
  if (timeoutMs !== undefined) checkAmount("wait.timeoutMs", timeoutMs, NO_LIMIT_ADVICE);
  const names = subagents === undefined ? undefined : [...new Set(subagents)];
  const named =
    names?.map((childName) => findOrRefuse(run, parent, call, childName)) ??
    parent.children.filter(isOpen);
  const children: AgentRuntime[] = [];
  for (const child of named) {
    if ("type" in child) return child;
    children.push(child);
  }
  if (children.length === 0) return createAnswer("None of your subagents is running.");
  const settled = Promise.all(children.map((child) => child.whenSettled()));
  const linked = createLinkedController(parent.noStartSignal);
  const over = Promise.withResolvers<void>();
  linked.controller.signal.addEventListener("abort", () => over.resolve(), { once: true });
  if (linked.controller.signal.aborted) over.resolve();
  const timer =
    timeoutMs === undefined ? over.promise : sleep(run.clock, timeoutMs, linked.controller.signal);
  await Promise.race([settled, timer]);
  linked.controller.abort();
  linked.unlink();
  return reportChildren(
    parent,
    call,
    children.map((child) => run.tree.find(child.identity.agentId) ?? child),
  );

  function isOpen({ identity, isInBackground }: AgentRuntime): boolean {
    return isInBackground || parent.mailbox?.hasReportOf(identity.agentId) === true;
  }
}

/**
 * Returns the states of subagents, with the results of ended ones. These results are not reported
 * again.
 */
function reportChildren(
  parent: AgentRuntime,
  call: DelegatedCall,
  children: readonly AgentRuntime[],
): DelegationOutcome {
  const reportedAgentIds: AgentId[] = [];
  const texts = children.map((child) => {
    if (!child.hasEnded) {
      const { subagent, status } = describeChild(child);
      return stringifyCanonical({ subagent, status });
    }
    reportedAgentIds.push(child.identity.agentId);
    parent.mailbox?.withdraw(child.identity.agentId);
    parent.noteReported(child.identity.agentId, call.stepId);
    return describeDelegation({ type: "ended", result: createSubagentResult(child) });
  });
  return { type: "answered", text: texts.join("\n"), reportedAgentIds };
}

function createAnswer(text: string): DelegationOutcome {
  return { type: "answered", text };
}
