// From the agents of a run at rest to a paused run, and back: the two halves of a pause.

import { snapshotOf, stateOf } from "../agent/agent-snapshot.ts";
import { questionsOf } from "../agent/agent-state.ts";
import { EspalierError } from "../kernel/error.ts";
import { deepFreeze } from "../kernel/json.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import type { QuestionId } from "../protocol/ids.ts";
import { AgentNode } from "./agent-node.ts";
import { PAUSED_RUN_VERSION, type PausedAgent, type PausedRun } from "./paused-run.ts";
import { pricesUsed } from "./prices-used.ts";
import type { RunShared } from "./run-shared.ts";

/** What a paused run is told besides its agents. */
export interface PauseFacts {
  readonly pauses: number;
  readonly traceId: string;
  readonly answered: readonly QuestionId[];
}

/** Everything that another process needs to go on. All agents must be at rest, and their clocks closed. */
export function pausedRunOf(scope: RunShared, facts: PauseFacts): PausedRun {
  const { runId, tree, ledger, recorder, clock } = scope;
  const { subagentsByDepth, refusalsByCode, limits, nodes } = tree;
  const questions = nodes.flatMap(({ rested }) =>
    rested === undefined ? [] : questionsOf(rested),
  );
  const open = new Set(questions.map(({ questionId }) => questionId));
  return deepFreeze({
    version: PAUSED_RUN_VERSION,
    runId,
    ...facts,
    answered: facts.answered.filter((questionId) => !open.has(questionId)),
    pausedAtMs: clock.nowMs(),
    eventCount: recorder.eventCount,
    leaseCount: ledger.leaseCount,
    limits: { ...limits },
    refusalsByCode,
    subagentsByDepth,
    questions,
    agents: nodes.map(pausedAgent),
    prices: pricesUsed(nodes, tree.pricesBefore).map((used) => structuredClone(used)),
    accounts: ledger.snapshot().map((account) => structuredClone(account)),
  });
}

function pausedAgent(node: AgentNode): PausedAgent {
  const { identity, role, task, metadata, rested } = node;
  if (rested === undefined) throw new Error(`${identity.agentPath} is not at rest.`);
  const { agentId, executionId, parentAgentId, agentPath, depth } = identity;
  return {
    agentId,
    executionId,
    parentAgentId,
    agentPath,
    depth,
    role: role.name,
    task,
    metadata,
    spawnCallId: node.spawnCallId ?? null,
    startedAtMs: node.startedAtMs,
    children: node.breadth,
    ordinals: node.ordinals,
    state: snapshotOf(rested),
  };
}

/** Puts the agents of a paused run back into a fresh tree and ledger, and gives the root. The time of the pause counts for nobody. */
export function restore(scope: RunShared, run: PausedRun): AgentNode {
  const { ledger, clock, tree } = scope;
  ledger.restore(run.accounts, run.leaseCount);
  const pausedMs = Math.max(0, clock.nowMs() - run.pausedAtMs);
  for (const { agentId, state } of run.agents)
    if (state.status === "paused") ledger.standStill(agentId, pausedMs);
  for (const agent of run.agents) tree.add(revived(scope, agent));
  const [root] = tree.nodes;
  if (root === undefined) throw new Error("A paused run has a root.");
  return root;
}

function revived(scope: RunShared, agent: PausedAgent): AgentNode {
  const { clock, ledger, tree, runId } = scope;
  const { agentId, executionId, parentAgentId, agentPath, depth, task, metadata } = agent;
  const { startedAtMs, children, ordinals, spawnCallId } = agent;
  return new AgentNode({
    identity: Object.freeze({ runId, agentId, parentAgentId, agentPath, depth, executionId }),
    role: roleOf(scope, agent),
    task,
    metadata: deepFreeze(metadata),
    parent: parentAgentId === null ? undefined : tree.find(parentAgentId),
    spawnCallId: spawnCallId ?? undefined,
    state: stateOf(agent.state),
    clock,
    ledger,
    before: { startedAtMs, children, ordinals },
    pauseSignal: tree.pauseSignal,
  });
}

/** Throws `invalid_paused_run` if the run knows no role of the agent's name. */
export function roleOf({ registry }: Pick<RunShared, "registry">, agent: PausedAgent): AgentRole {
  const role = registry.find(agent.role);
  if (role !== undefined) return role;
  throw new EspalierError({
    code: "invalid_paused_run",
    message: `Expected a role named "${agent.role}" for ${agent.agentPath}, got none. Resume with the roles that the run was started with.`,
    data: { role: agent.role, agentPath: agent.agentPath },
  });
}
