// What an agent may do with the subagents that it has started: list, continue, wait for, write to and cancel them (X10).

import { checkAmount, checkKeys, checkText } from "../../kernel/check.ts";
import { linkedController } from "../../kernel/cancel.ts";
import { canonicalJson } from "../../kernel/json.ts";
import { sleep } from "../../kernel/clock.ts";
import { SUBAGENT_LIST_OPENING } from "../../agent/phases/compact.ts";
import type { AgentId, CallId } from "../../protocol/ids.ts";
import type { SpawnOutcome, SpawnRefusal } from "../../protocol/subagent.ts";
import { delegationText } from "../../tools/delegation-text.ts";
import type {
  ContinueRequest,
  DelegationOutcome,
  SubagentInfo,
  SubagentService,
  WaitRequest,
} from "../../tools/tool-context.ts";
import type { AgentNode } from "./agent-node.ts";
import { resultOfEnded } from "../run/run-result.ts";
import type { RunShared } from "./run-shared.ts";

/** What the supervisor does for it. */
export interface ServiceParts {
  /** The call that is served. */
  readonly callId: CallId | undefined;
  /** `role`: that of the subagent; of one that is not there, the name by which it was asked for. */
  refuse(role: string, refusal: SpawnRefusal): SpawnOutcome;
  continue(request: ContinueRequest): Promise<SpawnOutcome>;
  dismiss(childId: AgentId): Promise<void>;
  /** A result is in what the call gives. */
  noteTold(childId: AgentId): void;
}

export function subagentService(
  scope: RunShared,
  parent: AgentNode,
  parts: ServiceParts,
): SubagentService {
  const found = (childName: string): AgentNode | DelegationOutcome =>
    foundChild(parent, parts, childName);
  return Object.freeze({
    list: () => parent.subagents.map((child) => infoOf(scope, parent, child)),
    continue: (request: ContinueRequest) => parts.continue(request),
    wait: (request: WaitRequest = {}) => waitFor(scope, parent, parts, request),
    message: (childName: string, text: string) => {
      checkText("message", text);
      const child = found(childName);
      if ("type" in child) return child;
      if (!wasDone(parent, parts, child, text)) {
        if (child.rested !== undefined) return parts.refuse(child.role.name, ended(child));
        const { agentId } = child.identity;
        scope.journal?.append({ type: "letter", agentId, text, ...by(parent, parts) });
        void child.inbox.write(text, parent.identity.agentId);
      }
      return answer(`${childName} will read it before its next step, if it takes one.`);
    },
    cancel: async (childName: string, reason?: string) => {
      const child = found(childName);
      if ("type" in child) return child;
      const { agentId } = child.identity;
      const isAgain = wasDone(parent, parts, child);
      if (child.hasEnded && !isAgain) return parts.refuse(child.role.name, ended(child));
      if (reason !== undefined) checkText("reason", reason);
      const message = reason ?? `${parent.identity.agentPath}, its parent, cancelled it.`;
      if (!isAgain)
        scope.journal?.append({ type: "cancel", agentId, message, ...by(parent, parts) });
      child.cancel(message);
      await parts.dismiss(agentId);
      return told(scope, parent, parts, [child]);
    },
  });
}

/** True if the call had done it before its process died: it is not done twice (D2). `text`: what it wrote; left out, it cancelled it. */
function wasDone(
  parent: AgentNode,
  { callId }: ServiceParts,
  child: AgentNode,
  text?: string,
): boolean {
  if (callId === undefined) return false;
  const { agentId: childId } = child.identity;
  const act = text === undefined ? { callId, childId } : { callId, childId, text };
  return parent.unfinished?.takeAct(act) === true;
}

/** On whose behalf it is done, for the journal. */
function by({ identity: { agentId } }: AgentNode, { callId }: ServiceParts) {
  return callId === undefined ? {} : { by: { agentId, callId } };
}

function foundChild(
  parent: AgentNode,
  parts: ServiceParts,
  childName: string,
): AgentNode | DelegationOutcome {
  return parent.subagent(childName) ?? parts.refuse(childName, unknownChild(parent, childName));
}

/** What the model is told of its subagents after a compaction; undefined: it has none. */
export function subagentListText(scope: RunShared, parent: AgentNode): string | undefined {
  if (parent.subagents.length === 0) return undefined;
  const list = parent.subagents.map((child) => {
    const { childName, status } = infoOf(scope, parent, child);
    return `${childName} (${status})`;
  });
  return `${SUBAGENT_LIST_OPENING} ${list.join(", ")}.`;
}

/** The refusal for a name that no subagent of the agent has. */
export function unknownChild(parent: AgentNode, childName: string): SpawnRefusal {
  const names = parent.subagents.map((child) => child.childName).join(", ");
  const known = names === "" ? "You have started none." : `Yours are: ${names}.`;
  const { agentPath } = parent.identity;
  const message = `Not done: ${agentPath} has no subagent ${JSON.stringify(childName)}. ${known}`;
  return { code: "unknown_subagent", message };
}

function ended({ childName, identity, rested }: AgentNode): SpawnRefusal {
  if (rested?.status === "paused") {
    const message = `Not done: ${childName} (${identity.agentPath}) is paused: somebody has to answer for it first. Go on without it.`;
    return { code: "subagent_ended", message };
  }
  const message = `Not done: ${childName} (${identity.agentPath}) has ended (${rested?.status ?? ""}). To give it more to do, call SpawnSubagent with "continue": "${childName}".`;
  return { code: "subagent_ended", message };
}

function infoOf(scope: RunShared, parent: AgentNode, child: AgentNode): SubagentInfo {
  const { childName, role, task, rested, identity } = child;
  return Object.freeze({
    childName,
    role: role.name,
    task,
    status: rested?.status ?? "running",
    isBackground: parent.background.isLiving(identity.agentId),
    totalTokens: scope.ledger.usage(identity.agentId).total.totalTokens,
  });
}

async function waitFor(
  scope: RunShared,
  parent: AgentNode,
  parts: ServiceParts,
  request: WaitRequest,
): Promise<DelegationOutcome> {
  checkKeys("wait", request, ["childNames", "timeoutMs"]);
  const { childNames, timeoutMs } = request;
  if (timeoutMs !== undefined) checkAmount("wait.timeoutMs", timeoutMs);
  const names = childNames === undefined ? undefined : [...new Set(childNames)];
  const named =
    names?.map((childName) => foundChild(parent, parts, childName)) ??
    parent.subagents.filter(isOpen);
  const children: AgentNode[] = [];
  for (const child of named) {
    if ("type" in child) return child;
    children.push(child);
  }
  if (children.length === 0) return answer("None of your subagents is at work.");
  const atRest = Promise.all(children.map((child) => child.atRest()));
  const linked = linkedController(parent.startSignal);
  const over = Promise.withResolvers<void>();
  linked.controller.signal.addEventListener("abort", () => over.resolve(), { once: true });
  if (linked.controller.signal.aborted) over.resolve();
  const timer =
    timeoutMs === undefined
      ? over.promise
      : sleep(scope.clock, timeoutMs, linked.controller.signal);
  await Promise.race([atRest, timer]);
  linked.controller.abort();
  linked.unlink();
  return told(
    scope,
    parent,
    parts,
    children.map((child) => scope.tree.find(child.identity.agentId) ?? child),
  );

  function isOpen({ identity }: AgentNode): boolean {
    const { agentId } = identity;
    return parent.background.isLiving(agentId) || parent.inbox.hasReportOf(agentId);
  }
}

/** The state of some subagents, with the results of those that have ended: they are not reported once more. */
function told(
  scope: RunShared,
  parent: AgentNode,
  parts: ServiceParts,
  children: readonly AgentNode[],
): DelegationOutcome {
  const reportedIds: AgentId[] = [];
  const texts = children.map((child) => {
    if (!child.hasEnded) {
      const { childName, status } = infoOf(scope, parent, child);
      return canonicalJson({ subagent: childName, status });
    }
    reportedIds.push(child.identity.agentId);
    parent.inbox.withdraw(child.identity.agentId);
    parts.noteTold(child.identity.agentId);
    return delegationText({ type: "settled", result: resultOfEnded(child, scope.ledger) });
  });
  return { type: "answered", text: texts.join("\n"), reportedIds };
}

function answer(text: string): DelegationOutcome {
  return { type: "answered", text };
}
