// Supervisor: brings agents of one run to life, to rest and to their end. Owns no state of its own: tree, ledger and recorder do.
//
// T1. Every spawn settles exactly once: as a refusal, or with the result of a child that has ended; a paused one settles when it goes on.
// T2. A parent's call waits for its child, so no agent ends while a child lives; a paused child is ended before its parent.

import { messageOf } from "../kernel/error.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import { NO_PREFIX, pendingState, type RestingState } from "../agent/agent-state.ts";
import type { DelegatedCall } from "../agent/local/local-options.ts";
import { runAgent, type PhaseReport } from "../agent/run-agent.ts";
import type { Correlation } from "../protocol/event.ts";
import { AgentIdSchema, ExecutionIdSchema, type AgentId, type CallId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../protocol/subagent.ts";
import { spendLimitsOf, type SpendLimits } from "../policies/budget.ts";
import { inheritContext, type InheritedContext } from "../policies/subagent-context-policy.ts";
import { agentContext, type Delegations } from "./agent-assembly.ts";
import { AgentNode } from "./agent-node.ts";
import { agentReport, subagentResult } from "./run-result.ts";
import type { RunShared } from "./run-shared.ts";
import type { SpawnPermit } from "./run-tree.ts";

/** What an agent starts from. */
export interface Birth {
  readonly role: AgentRole;
  readonly task: string;
  readonly agentPath: string;
  readonly depth: number;
  readonly parent: AgentNode | undefined;
  readonly spawnCallId: CallId | undefined;
  readonly inherited: readonly Message[];
  readonly metadata: JsonObject;
  readonly limits: SpendLimits;
  readonly wallTimeMs: number | undefined;
  readonly deadlineAtMs?: number | undefined;
}

/** Sets an agent up: ids, account, deadline. Either all of it happens, or nothing. */
export function bringToLife(scope: RunShared, birth: Birth): AgentNode {
  const { role, task, metadata, parent, agentPath, depth, spawnCallId } = birth;
  const { clock, ids, ledger, runId, tree } = scope;
  const agentId = AgentIdSchema.parse(ids.next("agent"));
  const executionId = ExecutionIdSchema.parse(ids.next("execution"));
  const parentAgentId = parent?.identity.agentId ?? null;
  const identity = Object.freeze({ runId, agentId, parentAgentId, agentPath, depth, executionId });
  const { limits, wallTimeMs, deadlineAtMs } = birth;
  ledger.open({ agentId, path: agentPath, limits, wallTimeMs, deadlineAtMs }, parentAgentId);
  const node = new AgentNode({
    identity,
    role,
    task,
    metadata,
    parent,
    spawnCallId,
    state: pendingState({
      messages: [
        { role: "system", text: role.instructions, origin: "instructions" },
        ...birth.inherited,
      ],
      prefix: NO_PREFIX,
    }),
    clock,
    ledger,
    pauseSignal: tree.pauseSignal,
  });
  tree.add(node);
  return node;
}

/** Runs an agent, phase by phase, from its beginning or from where it was paused. */
export async function* live(
  scope: RunShared,
  node: AgentNode,
): AsyncGenerator<PhaseReport, RestingState, undefined> {
  try {
    const rested = yield* runAgent(
      agentContext(scope, node, delegations(scope, node)),
      node.rise(),
    );
    node.rest(rested);
    return rested;
  } finally {
    scope.ledger.releaseOpen(node.identity.agentId);
    if (node.rested === undefined) node.close();
  }
}

function delegations(scope: RunShared, node: AgentNode): Delegations {
  return {
    spawn: (request, call) => spawn(scope, node, request, call),
    resumeChild: (childId, at) => resumeChild(scope, childId, placeIn(node, at)),
    dismissChild: (childId) => {
      scope.tree.find(childId)?.cancel(`${node.identity.agentPath}, its parent, stopped.`);
      return resumeChild(scope, childId, placeIn(node, {}));
    },
  };
}

function placeIn(
  { identity }: AgentNode,
  { stepId = null, callId = null }: Partial<Correlation>,
): Correlation {
  return { ...identity, stepId, callId };
}

async function resumeChild(
  scope: RunShared,
  childId: AgentId,
  place: Correlation,
): Promise<SpawnOutcome> {
  const child = scope.tree.find(childId);
  if (child === undefined) {
    const message =
      "Not resumed: the subagent is gone. Start another one, or do its part yourself.";
    return { type: "refused", refusal: { code: "setup_failed", message } };
  }
  return await lead(scope, child, place);
}

async function spawn(
  scope: RunShared,
  parent: AgentNode,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { messages, stepId = null, callId } = call;
  const place = placeIn(parent, { stepId, ...(callId === undefined ? {} : { callId }) });
  const admitted = admit(scope, parent, request);
  if ("code" in admitted) return refuse(scope, place, request, admitted);
  const { role, permit } = admitted;
  let child: AgentNode;
  let context: InheritedContext;
  try {
    context = inheritContext(parent.role.context, { messages, metadata: parent.metadata });
    child = bringToLife(scope, {
      role,
      task: request.task,
      agentPath: permit.childPath,
      depth: permit.childDepth,
      parent,
      spawnCallId: callId,
      inherited: context.messages,
      metadata: context.metadata,
      limits: spendLimitsOf(role.budget),
      wallTimeMs: role.budget.wallTimeMs,
    });
  } catch (cause) {
    permit.giveBack();
    const message = `Not started: setting ${request.role} up failed (${messageOf(cause)}). Do this part yourself.`;
    return refuse(scope, place, request, { code: "setup_failed", message });
  }
  scope.recorder.record(place, {
    type: "subagent.spawned",
    ...whoIs(child),
    childDepth: permit.childDepth,
    task: child.task,
    inheritedMessages: context.inheritedMessages,
    injectedMessages: context.injectedMessages,
    metadataKeys: Object.keys(context.metadata),
    subagentsByDepth: scope.tree.subagentsByDepth,
  });
  return await lead(scope, child, place);
}

/** Lets a child live until it rests; gives its result if that is its end. */
async function lead(scope: RunShared, child: AgentNode, place: Correlation): Promise<SpawnOutcome> {
  const phases = live(scope, child);
  while ((await phases.next()).done !== true);
  const report = agentReport(child, scope.ledger);
  if (report.status === "paused") return { type: "paused", childId: child.identity.agentId };
  const result = subagentResult({ ...report, status: report.status });
  const { status, reason, usage } = result;
  scope.recorder.record(place, { type: "subagent.ended", ...whoIs(child), status, reason, usage });
  return { type: "settled", result };
}

function whoIs({ identity, role }: AgentNode): {
  readonly childId: AgentId;
  readonly childPath: string;
  readonly role: string;
} {
  return { childId: identity.agentId, childPath: identity.agentPath, role: role.name };
}

function admit(
  { tree, ledger, registry }: RunShared,
  parent: AgentNode,
  request: SpawnRequest,
): { readonly role: AgentRole; readonly permit: SpawnPermit } | SpawnRefusal {
  const roles = registry.subagentsOf(parent.role);
  const role = roles.find((candidate) => candidate.name === request.role);
  if (role === undefined) return unknownRole(request.role, roles);
  const permit = tree.admit(parent, role.name);
  if ("code" in permit) return permit;
  const spent = ledger.exhaustedForChild(parent.identity.agentId);
  if (spent === undefined) return { role, permit };
  permit.giveBack();
  const { axis, accountPath, maximum, spent: current } = spent;
  const message = `Not started: ${current} of ${maximum} of the ${axis} budget of ${accountPath} are spent. Answer with what you have.`;
  return { code: "budget_exhausted", message, maximum, current };
}

function unknownRole(name: string, roles: readonly AgentRole[]): SpawnRefusal {
  const names = roles.map((role) => role.name).join(", ");
  const choice =
    names === ""
      ? "You can start none: do this part yourself."
      : `You can start: ${names}. Call again with one of these.`;
  const message = `Not started: there is no subagent ${JSON.stringify(name)}. ${choice}`;
  return { code: "unknown_role", message };
}

function refuse(
  scope: RunShared,
  place: Correlation,
  request: SpawnRequest,
  refusal: SpawnRefusal,
): SpawnOutcome {
  scope.tree.countRefusal(refusal.code);
  scope.recorder.record(place, { type: "subagent.refused", role: request.role, refusal });
  return { type: "refused", refusal };
}
