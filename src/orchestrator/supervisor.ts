// Supervisor: brings agents of one run to life and to their end. Owns no state of its own: tree, ledger and recorder do.
//
// T1. Every spawn settles exactly once: as a refusal, or with the result of a child that has ended.
// T2. A parent's call waits for its child, so no agent ends while a child lives.

import type { Clock } from "../kernel/clock.ts";
import { messageOf } from "../kernel/error.ts";
import type { IdSource } from "../kernel/id-source.ts";
import type { JsonObject } from "../kernel/json.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { AgentContext, AgentIdentity, EventPlace } from "../agent/agent-context.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import type { EndedState } from "../agent/agent-state.ts";
import { localEffects, type DelegatedCall, type Slots } from "../agent/local-effects.ts";
import { runAgent, type PhaseReport } from "../agent/run-agent.ts";
import type { RetryPolicy } from "../model/retry.ts";
import type { Correlation } from "../protocol/event.ts";
import { AgentIdSchema, ExecutionIdSchema, type CallId, type RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../protocol/subagent.ts";
import { spendLimitsOf, type SpendLimits } from "../policies/budget.ts";
import { inheritContext, type InheritedContext } from "../policies/subagent-context-policy.ts";
import { toolSet } from "../tools/tool-set.ts";
import { AgentNode } from "./agent-node.ts";
import type { BudgetLedger } from "./budget-ledger.ts";
import type { EventRecorder } from "./event-recorder.ts";
import type { RoleRegistry } from "./role-registry.ts";
import { agentReport, subagentResult } from "./run-result.ts";
import type { RunTree, SpawnPermit } from "./run-tree.ts";
import { spawnSubagentTool } from "./spawn-subagent-tool.ts";

/** What the agents of one run share. */
export interface RunShared {
  readonly runId: RunId;
  readonly tree: RunTree;
  readonly ledger: BudgetLedger;
  readonly slots: Slots;
  readonly recorder: EventRecorder;
  readonly registry: RoleRegistry;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly graceMs: number;
  readonly retry: RetryPolicy;
  readonly onText: ((piece: TextPiece) => void) | undefined;
}

/** A piece of a model's text, as it arrives. Live only: no event, not kept. */
export interface TextPiece {
  readonly agentId: AgentIdentity["agentId"];
  readonly agentPath: string;
  readonly text: string;
}

/** What an agent starts from. */
export interface Birth {
  readonly role: AgentRole;
  readonly task: string;
  readonly agentPath: string;
  readonly depth: number;
  readonly parent: AgentNode | undefined;
  readonly metadata: JsonObject;
  readonly limits: SpendLimits;
  readonly wallTimeMs: number | undefined;
  readonly deadlineAtMs?: number | undefined;
}

/** Sets an agent up: ids, account, deadline. Either all of it happens, or nothing. */
export function bringToLife(scope: RunShared, birth: Birth): AgentNode {
  const { role, task, metadata, parent, agentPath, depth } = birth;
  const { clock, ids, ledger, runId } = scope;
  const agentId = AgentIdSchema.parse(ids.next("agent"));
  const executionId = ExecutionIdSchema.parse(ids.next("execution"));
  const parentAgentId = parent?.identity.agentId ?? null;
  const identity = Object.freeze({ runId, agentId, parentAgentId, agentPath, depth, executionId });
  const { limits, wallTimeMs, deadlineAtMs } = birth;
  ledger.open({ agentId, path: agentPath, limits, wallTimeMs, deadlineAtMs }, parentAgentId);
  const node = new AgentNode({ identity, role, task, metadata, parent, clock });
  const ownDeadline = ledger.deadlineAtMs(agentId);
  const inherited = parentAgentId === null ? null : ledger.deadlineAtMs(parentAgentId);
  if (ownDeadline !== null && ownDeadline !== inherited) node.endAt(ownDeadline);
  scope.tree.add(node);
  return node;
}

/** Runs an agent that was brought to life, phase by phase. */
export async function* live(
  scope: RunShared,
  node: AgentNode,
  start: { readonly inherited: readonly Message[]; readonly spawnCallId: CallId | undefined },
): AsyncGenerator<PhaseReport, EndedState, undefined> {
  const messages: readonly Message[] = [
    { role: "system", text: node.role.instructions, origin: "instructions" },
    ...start.inherited,
    { role: "user", text: node.task, origin: "task" },
  ];
  try {
    const ended = yield* runAgent(agentContext(scope, node, start.spawnCallId), messages);
    node.end(ended);
    return ended;
  } finally {
    scope.ledger.releaseOpen(node.identity.agentId);
    node.close();
  }
}

function agentContext(
  scope: RunShared,
  node: AgentNode,
  spawnCallId: CallId | undefined,
): AgentContext {
  const { identity, role } = node;
  const { ledger, recorder, clock, slots, graceMs, retry, onText } = scope;
  const { agentId, agentPath } = identity;
  const placed = (at?: EventPlace): Correlation => ({
    ...identity,
    stepId: at?.stepId ?? null,
    callId: at?.callId ?? null,
  });
  const record: AgentContext["record"] = (body, at) => void recorder.record(placed(at), body);
  const subagents = scope.registry.subagentsOf(role);
  return {
    identity,
    role,
    tools: toolSet(role.name, [
      ...role.tools,
      ...(subagents.length === 0 ? [] : [spawnSubagentTool(subagents)]),
    ]),
    effects: localEffects({
      identity,
      model: role.model,
      metadata: node.metadata,
      clock,
      slots,
      graceMs,
      retry,
      signal: node.signal,
      onText:
        onText === undefined ? undefined : (text) => handText(onText, { agentId, agentPath, text }),
      reserve: (ask) => ledger.reserve(agentId, ask, node.signal),
      payAgain: (lease) => ledger.extend(lease, role.model.price),
      spawn: (request, call) => spawn(scope, node, request, call),
      record,
      within: (at, work) => recorder.within(placed(at), work),
    }),
    budget: ledger.gate(agentId),
    task: node.task,
    spawnCallId,
    takeSignals: () => node.takeSignals(),
    usage: () => ledger.usage(agentId),
    record,
  };
}

/** A listener that throws harms nobody (E2). */
function handText(onText: NonNullable<RunShared["onText"]>, piece: TextPiece): void {
  try {
    onText(piece);
  } catch (cause) {
    warnOnce(onText, `onText threw (${messageOf(cause)}); the run goes on.`);
  }
}

async function spawn(
  scope: RunShared,
  parent: AgentNode,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { messages, stepId = null, callId } = call;
  const place: Correlation = { ...parent.identity, stepId, callId };
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
      metadata: context.metadata,
      limits: spendLimitsOf(role.budget),
      wallTimeMs: role.budget.wallTimeMs,
    });
  } catch (cause) {
    permit.giveBack();
    const message = `Not started: setting ${request.role} up failed (${messageOf(cause)}). Do this part yourself.`;
    return refuse(scope, place, request, { code: "setup_failed", message });
  }
  return await delegate(scope, child, { place, context, spawnCallId: callId });
}

interface Delegation {
  readonly place: Correlation;
  readonly context: InheritedContext;
  readonly spawnCallId: CallId;
}

/** Lets a child live to its end and gives its result. */
async function delegate(
  scope: RunShared,
  child: AgentNode,
  delegation: Delegation,
): Promise<SpawnOutcome> {
  const { recorder, tree, ledger } = scope;
  const { place, context, spawnCallId } = delegation;
  const { agentId: childId, agentPath: childPath, depth: childDepth } = child.identity;
  const role = child.role.name;
  const who = { childId, childPath, role };
  recorder.record(place, {
    type: "subagent.spawned",
    ...who,
    childDepth,
    task: child.task,
    inheritedMessages: context.inheritedMessages,
    injectedMessages: context.injectedMessages,
    metadataKeys: Object.keys(context.metadata),
    subagentsByDepth: tree.subagentsByDepth,
  });
  await drain(live(scope, child, { inherited: context.messages, spawnCallId }));
  const result = subagentResult(agentReport(child, ledger));
  const { status, reason, usage } = result;
  recorder.record(place, { type: "subagent.ended", ...who, status, reason, usage });
  return { type: "settled", result };
}

async function drain(phases: AsyncGenerator<PhaseReport, EndedState, undefined>): Promise<void> {
  while ((await phases.next()).done !== true);
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
  const message = `Not started: there is no subagent ${JSON.stringify(name)}. You can start: ${names}. Call again with one of these.`;
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
