// From the agents of a run at rest to a paused run, and back: the two halves of a pause.

import { snapshotOf } from "../../agent/agent-snapshot.ts";
import { lastTextOf, pendingCallsOf, questionsOf } from "../../agent/agent-state.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { SPAWN_TOOL_NAME, type AgentRole } from "../../agent/agent-role.ts";
import { invariant } from "../../kernel/assert.ts";
import type { AgentId, CallId, QuestionId, StepId } from "../../protocol/ids.ts";
import { subagentOutcome } from "../tree/agent-report.ts";
import { AgentRuntime } from "../../agent/agent-runtime.ts";
import { pricesUsed } from "../budget/prices-used.ts";
import { agentRecord } from "../durability/agent-record.ts";
import { modelForAgent } from "../tree/create-agent.ts";
import { restoreToolLimits } from "../tree/child-context.ts";
import { makeDynamicRole } from "../tree/admission.ts";
import {
  PAUSED_RUN_VERSION,
  type PausedAgent,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import { countsOf } from "../tree/run-tree.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";
import { rememberWaitingCalls } from "./waiting-calls.ts";

/** How often a run was paused before, and the questions that were answered by then. */
export interface PausesBefore {
  readonly pauses: number;
  readonly answered: readonly QuestionId[];
}

/** Everything that another process needs to continue. All agents must be at rest, and their clocks closed. */
export function pausedRunOf(
  runtime: RunRuntime,
  { pauses, answered }: PausesBefore,
): PausedRunRecord {
  const { runId, tree, ledger, recorder, clock, definitions } = runtime;
  const { counts, limits, nodes } = tree;
  const { traceId, spanId, isSampled } = recorder.runIds;
  const questions = nodes.flatMap(({ settled }) =>
    settled === undefined ? [] : questionsOf(settled),
  );
  const open = new Set(questions.map(({ questionId }) => questionId));
  const run: PausedRunRecord = deepFreeze({
    version: PAUSED_RUN_VERSION,
    runId,
    pauses: pauses + 1,
    traceId,
    spanId,
    ...(isSampled === undefined ? {} : { isSampled }),
    answered: answered.filter((questionId) => !open.has(questionId)),
    pausedAtMs: clock.nowMs(),
    eventCount: recorder.eventCount,
    leaseCount: ledger.leaseCount,
    limits: { ...limits },
    ...countsOf(counts),
    questions,
    agents: nodes.map(pausedAgent),
    definitions: definitions.toJSON(),
    prices: pricesUsed(tree.models, runtime.settings.priceOf, tree.pricesBefore).map((used) =>
      structuredClone(used),
    ),
    accounts: ledger.snapshot(),
    ...(runtime.session === undefined ? {} : { session: runtime.session.ref }),
  });
  // A signed paused run needs no other verification.
  if (questions.length > 0 && runtime.settings.signer === undefined) rememberWaitingCalls(run);
  return run;
}

function pausedAgent(node: AgentRuntime): PausedAgent {
  const { identity, settled } = node;
  if (settled === undefined) throw new Error(`${identity.agentPath} is not at rest.`);
  const { breadth: children, ordinals } = node;
  return { ...agentRecord(node), children, ordinals, state: snapshotOf(settled) };
}

/** Puts the agents of a settled run back into a fresh tree and ledger, and gives the root. The time of the pause is charged to no agent. */
export function restore(
  runtime: RunRuntime,
  run: RestoredRun,
  roles: ReadonlyMap<AgentId, AgentRole>,
): AgentRuntime {
  const { ledger, clock, tree } = runtime;
  ledger.restore(run.accounts, run.leaseCount, run.leases);
  const pausedMs = clock.nowMs() - run.pausedAtMs;
  for (const { agentId, state } of run.agents)
    if (state.status === "paused" || state.status === "pending")
      ledger.accountView(agentId).excludeTime(pausedMs);
  for (const agent of run.agents) {
    runtime.journal?.restoring(agent);
    const role = roles.get(agent.agentId);
    invariant(role !== undefined, `${agent.agentPath} has a role`);
    const node = restoredAgent(runtime, agent, role);
    tree.add(node);
    if (node.parent !== undefined) tree.noteEarlier(node, earlierTasks(agent));
  }
  regroup(tree.nodes, run);
  const [root] = tree.nodes;
  if (root === undefined) throw new Error("A paused run has a root.");
  return root;
}

/** The earlier tasks of an agent that was continued (X21). */
function earlierTasks({ state, execution }: RestoredAgent): readonly string[] {
  if (execution === 1) return [];
  const tasks = state.conversation.messages.flatMap((message) =>
    message.role === "user" && message.origin === "task" ? [message.text] : [],
  );
  return tasks.slice(-execution, -1);
}

/** Those that one reply has started know of each other after a pause, too (X11). All have to be there before the first settles. */
function regroup(nodes: readonly AgentRuntime[], { agents }: RestoredRun): void {
  const inFlightOf = new Map(agents.map(({ agentId, inFlight }) => [agentId, inFlight]));
  const begun = new Set(
    nodes.map(({ spawnStepId, spawnCallId }) => `${spawnStepId} ${spawnCallId}`),
  );
  const members = nodes.flatMap((node) => {
    const { parent, spawnStepId, spawnCallId } = node;
    if (parent === undefined || spawnStepId === undefined || spawnCallId === undefined) return [];
    const isOver = (callId: CallId): boolean =>
      begun.has(`${spawnStepId} ${callId}`) ||
      inFlightOf.get(parent.identity.agentId)?.over.has(callId) === true;
    const group = parent.groupOf(spawnStepId, startsLeft(parent, spawnStepId, isOver));
    group.rejoin(node);
    return [{ node, group }];
  });
  for (const { node, group } of members) {
    const { settled } = node;
    if (settled === undefined || settled.status === "paused") continue;
    const { status, log } = settled;
    const outcome = subagentOutcome({ status, text: lastTextOf(settled), output: log.output });
    group.settle(node, outcome === "completed");
  }
}

/** Calls of a step that may still start a subagent. `isOver`: one that has started its own, or has ended. */
function startsLeft(
  { settled }: AgentRuntime,
  stepId: StepId,
  isOver: (callId: CallId) => boolean,
): number {
  if (settled?.status !== "paused" || settled.step?.stepId !== stepId) return 0;
  return pendingCallsOf(settled).filter(
    ({ callId, toolName }) => toolName === SPAWN_TOOL_NAME && !isOver(callId),
  ).length;
}

function restoredAgent(runtime: RunRuntime, agent: RestoredAgent, role: AgentRole): AgentRuntime {
  const { ledger, tree } = runtime;
  const { agentId, executionId, parentAgentId, agentPath, draft } = agent;
  const parent = parentAgentId === null ? undefined : tree.find(parentAgentId);
  parent?.countBelow(1);
  return new AgentRuntime(
    runtime,
    {
      role,
      task: agent.task,
      metadata: deepFreeze(agent.metadata),
      parent,
      agentPath,
      spawnCallId: agent.spawnCallId ?? undefined,
      spawnStepId: agent.spawnStepId ?? undefined,
      toolLimits: restoreToolLimits(runtime, parent, { ...agent, role }),
      draft,
    },
    {
      agentId,
      executionId,
      model: modelForAgent(runtime, role),
      state: agent.state,
      account: ledger.accountView(agentId),
      before: { ...agent, subagentsBelow: 0 },
    },
  );
}

/** The roles by which the agents of a run live, those that were written at spawn included. Throws `invalid_paused_run` if one is not there. */
export function rolesOf(
  { agents }: { readonly agents: readonly Omit<PausedAgent, "state">[] },
  registry: RoleRegistry,
): ReadonlyMap<AgentId, AgentRole> {
  const roles = new Map<AgentId, AgentRole>();
  for (const { agentId, parentAgentId, role: name, draft, agentPath } of agents) {
    const parent = parentAgentId === null ? undefined : roles.get(parentAgentId);
    const role =
      draft === undefined || parent === undefined
        ? registry.find(name)
        : makeDynamicRole(parent, { role: name, draft }, registry);
    if (role === undefined || "code" in role) {
      const got = role === undefined ? "none" : `one that cannot be used: ${role.message}`;
      throw new EspalierError({
        code: "invalid_paused_run",
        message: `Expected a role named "${name}" for ${agentPath}, got ${got}. Resume with the roles that the run was started with.`,
        data: { role: name, agentPath },
      });
    }
    roles.set(agentId, role);
  }
  return roles;
}
