// What one agent works with, put together from what its run shares.

import { messageOf } from "../kernel/error.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { AgentContext, EventPlace } from "../agent/agent-context.ts";
import { hookBounds } from "../agent/local/hook-bounds.ts";
import { localEffects } from "../agent/local/local-effects.ts";
import type { LocalEffectsOptions } from "../agent/local/local-options.ts";
import type { Correlation } from "../protocol/event.ts";
import { namedGuards, type NamedGuard } from "../tools/tool-guard.ts";
import { toolSet, type ToolSet } from "../tools/tool-set.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import { questionsOf } from "../agent/agent-state.ts";
import type { AgentNode } from "./agent-node.ts";
import type { RunShared, TextPiece } from "./run-shared.ts";
import type { RoleRegistry } from "./role-registry.ts";
import { spawnSubagentTool } from "./spawn-subagent-tool.ts";

/** What an agent may do to subagents. None of it rejects. */
export type Delegations = Pick<LocalEffectsOptions, "spawn" | "resumeChild" | "dismissChild">;

export function agentContext(
  scope: RunShared,
  node: AgentNode,
  delegations: Delegations,
): AgentContext {
  const { identity, role, metadata, signal } = node;
  const { ledger, recorder, clock, slots, graceMs, retry, hookTimeoutMs, onText } = scope;
  const { agentId, agentPath } = identity;
  const hooks = scope.hooksOf(role);
  const placed = (at?: EventPlace): Correlation => ({
    ...identity,
    stepId: at?.stepId ?? null,
    callId: at?.callId ?? null,
  });
  const record: AgentContext["record"] = (body, at) => void recorder.record(placed(at), body);
  const forHooks = {
    identity,
    roleName: role.name,
    metadata,
    signal,
    raise: node.raise.bind(node),
    clock,
    hookTimeoutMs,
    graceMs,
  };
  return {
    identity,
    role,
    tools: scope.toolsOf(role),
    hooks,
    effects: localEffects({
      ...forHooks,
      ...delegations,
      model: role.model,
      hooks,
      guards: guardsOf(scope, node),
      run: scope.tree,
      desk: scope.desk,
      slots,
      startSignal: node.startSignal,
      pauseSignal: scope.tree.pauseSignal,
      retry,
      onText:
        onText === undefined ? undefined : (text) => handText(onText, { agentId, agentPath, text }),
      reserve: (ask) => ledger.reserve(agentId, ask, node.startSignal),
      payAgain: (lease) => ledger.extend(lease, role.model.price),
      working: () => node.working(),
      asking: () => node.asking(),
      record,
      within: (at, work) => recorder.within(placed(at), work),
    }),
    budget: ledger.gate(agentId),
    task: node.task,
    metadata,
    spawnCallId: node.spawnCallId,
    inbox: node.inbox,
    get isEnding() {
      return signal.aborted;
    },
    hasDueBelow: () => hasDueBelow(scope, node),
    hookBounds: (stepNumber) => hookBounds(forHooks, { stepNumber }),
    conditionBounds: { signal, clock, graceMs, timeoutMs: hookTimeoutMs },
    answerTo: (questionId) => scope.answers.get(questionId),
    pausedMs: () => node.pausedMs,
    usage: () => ledger.usage(agentId),
    record,
  };
}

/** The tools of a role, with the one by which it delegates if it may. */
export function toolsOf(role: AgentRole, registry: RoleRegistry): ToolSet {
  const subagents = registry.subagentsOf(role);
  const tools = [...role.tools, ...(subagents.length === 0 ? [] : [spawnSubagentTool(subagents)])];
  return toolSet(role.name, tools, role.toolDefaults);
}

/** The orchestrator's guards, those of every agent above, from the root down, and those of its own role (T4). */
function guardsOf(scope: RunShared, { role, parent }: AgentNode): readonly NamedGuard[] {
  const above = parent === undefined ? scope.guards : guardsOf(scope, parent);
  return role.guards.length === 0 ? above : [...above, ...namedGuards(role.name, role.guards)];
}

function hasDueBelow({ tree, answers }: RunShared, above: AgentNode): boolean {
  return tree.nodes.some(({ parent, rested, startSignal }) => {
    if (rested?.status !== "paused" || !isWithin(above, parent)) return false;
    return (
      startSignal.aborted || questionsOf(rested).some(({ questionId }) => answers.has(questionId))
    );
  });
}

function isWithin(above: AgentNode, node: AgentNode | undefined): boolean {
  return node !== undefined && (node === above || isWithin(above, node.parent));
}

/** A listener that throws harms nobody (E2). */
function handText(onText: NonNullable<RunShared["onText"]>, piece: TextPiece): void {
  try {
    onText(piece);
  } catch (cause) {
    warnOnce(onText, `onText threw (${messageOf(cause)}); the run goes on.`);
  }
}
