// Forks a run: creates a run that begins where a step of another run's root had ended. Pure, except
// for the given ids and time.
//
// A fork has its own ids and zero usage. It does not change its origin, and never separates a call
// from its result.

import { mismatch } from "../../kernel/argument-checks.ts";
import type { Clock } from "../../kernel/clock.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import type { AgentSnapshot } from "../../agent/agent-snapshot.ts";
import { assignTagOwner } from "../../agent/message-tags.ts";
import type { LedgerAccount } from "../../protocol/account.ts";
import { copyContent } from "../../protocol/message-content.ts";
import type { EventBody } from "../../protocol/event.ts";
import {
  AgentIdSchema,
  ExecutionIdSchema,
  RunIdSchema,
  createStepId,
  type AgentId,
  type StepId,
} from "../../protocol/ids.ts";
import {
  createUserMessage,
  type Message,
  type MessageTag,
  type UserMessage,
} from "../../protocol/message.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import { getChildName } from "../../agent/agent-identity.ts";
import { toLedgerLimits, tightenLimits, type Budget } from "../../policies/budget.ts";
import { openAccount } from "../../budget/ledger.ts";
import { collectGrants } from "../../budget/ledger-grant.ts";
import type { PausedAgent, PausedRunRecord } from "../durability/paused-run.ts";
import type { ForkOptions } from "./run-options.ts";

/** Fork that has not begun. */
export interface ForkedRun {
  readonly run: PausedRunRecord;
  /** Next message to the root. */
  readonly message: UserMessage | undefined;
  readonly forkedFrom: NonNullable<EventBody<"run.started">["forkedFrom"]>;
}

/** Part of the origin that a fork contains. */
interface Cut {
  readonly root: PausedAgent;
  /** The agents of the fork, the root first. */
  readonly agents: readonly PausedAgent[];
  readonly stepNumber: number;
  readonly nowMs: number;
}

/**
 * Returns the fork. Throws `invalid_argument` for a step that the root has not completed, or whose
 * history was compacted. Step 0 is before the first: the root begins with its original input.
 */
export function createFork(
  original: PausedRunRecord,
  { atStep, message, budget = {} }: ForkOptions,
  { ids, clock }: { readonly ids: IdSource; readonly clock: Clock },
): ForkedRun {
  const { session: _itsOwn, ...origin } = original;
  const [root] = original.agents;
  if (root === undefined) throw new Error("A run has a root.");
  const { steps } = root.state.log;
  const stepNumber = atStep ?? steps.length;
  const isThere = stepNumber === 0 || steps.some(({ number }) => number === stepNumber);
  if (!isThere) {
    const completed = steps.length === 0 ? "none" : `1 to ${steps.length}`;
    const expected = `0, or a step that ${root.agentPath} has completed (${completed})`;
    const advice = "Leave it out for its last, or 0 to begin with its first input.";
    throw mismatch("fork options.atStep", expected, stepNumber, advice);
  }
  const late = findLateSteps(root, stepNumber);
  const nowMs = clock.nowMs();
  const cut = { root, agents: selectAgents(original.agents, late), stepNumber, nowMs };
  const agents = assignIds(cut, collectOrdinals(original.agents, late), ids);
  if (message === undefined && hasAnswered(agents[0])) {
    const expected = `set, since ${root.agentPath} has answered by step ${stepNumber}`;
    throw mismatch("fork options.message", expected, message, "Pass the next task.");
  }
  const runId = RunIdSchema().parse(ids.next("run"));
  return {
    run: deepFreeze({
      ...origin,
      runId,
      pauseCount: 1,
      pausedAtMs: nowMs,
      eventCount: 0,
      leaseCount: 0,
      refusalsByCode: {},
      questions: [],
      answered: [],
      agents,
      prices: [],
      accounts: createAccounts(original.accounts, cut, agents, budget),
    }),
    message:
      message === undefined
        ? undefined
        : createUserMessage(copyContent("fork options.message", message), "steering"),
    forkedFrom: {
      runId: original.runId,
      stepNumber,
      traceId: original.traceId,
      ...omitUndefined({ spanId: original.spanId, isSampled: original.isSampled }),
    },
  };
}

/** Steps of the root. `null`, for an agent that no step started, is not among them. */
type Steps = ReadonlySet<StepId | null>;

/** Returns true if nothing requests another reply of the root. */
function hasAnswered(root: PausedAgent | undefined): boolean {
  if (root === undefined) return false;
  const { conversation, log } = root.state;
  const isLast = log.isTaskHandled && conversation.messages.at(-1)?.role === "assistant";
  return isLast && log.subtasks.length === 0 && log.background.length === 0;
}

/**
 * Returns the steps that the fork does not contain, including an open step. Empty if the fork
 * contains the whole history.
 */
function findLateSteps({ executionId, state }: PausedAgent, stepNumber: number): Steps {
  if (findFirstLate(state, stepNumber) === -1) return new Set();
  const { steps } = state.log;
  const open = createStepId(executionId, steps.length + 1);
  return new Set([...steps.slice(stepNumber).map(({ stepId }) => stepId), open]);
}

/** Returns the root, and its subagents by then that have ended with all agents below them. */
function selectAgents(agents: readonly PausedAgent[], late: Steps): readonly PausedAgent[] {
  const living = new Set<AgentId>();
  for (const { agentId, parentAgentId, state } of agents.toReversed()) {
    const isLiving = state.status === "paused" || living.has(agentId);
    if (isLiving && parentAgentId !== null) living.add(agentId).add(parentAgentId);
  }
  const selectedIds = new Set<AgentId>();
  return agents.filter(({ agentId, parentAgentId, spawnStepId }) => {
    const isLeftOut = living.has(agentId) || late.has(spawnStepId);
    if (parentAgentId !== null && (!selectedIds.has(parentAgentId) || isLeftOut)) return false;
    selectedIds.add(agentId);
    return true;
  });
}

/**
 * Returns the agents with new ids. `names` contains the number of the root's subagents of each role
 * at the time of the fork.
 */
function assignIds(
  cut: Cut,
  names: PausedAgent["ordinals"],
  ids: IdSource,
): readonly PausedAgent[] {
  const { root, agents, nowMs } = cut;
  const newIds = new Map(
    agents.map(({ agentId }) => [agentId, AgentIdSchema().parse(ids.next("agent"))]),
  );
  return agents.map((agent) => {
    const { agentId, parentAgentId } = agent;
    const executionId = ExecutionIdSchema().parse(ids.next("execution"));
    const state =
      agent === root
        ? buildRootState(cut, newIds)
        : { ...agent.state, log: { ...agent.state.log, background: [], subtasks: [] } };
    const { conversation } = state;
    // Its account is new, and its clock was never paused.
    const { pausedBeforeMs: _ofOldAccount, ...timed } = agent.state.telemetry;
    const { startedAtMs, endedAtMs } = timed;
    // Idle times end with the fork's beginning; working times stay.
    const laterMs = nowMs - (endedAtMs ?? nowMs);
    const telemetry = {
      ...timed,
      ...(startedAtMs === undefined ? {} : { startedAtMs: startedAtMs + laterMs }),
      ...(endedAtMs === undefined ? {} : { endedAtMs: nowMs }),
    };
    // Messages from before the fork keep the ids of their authors.
    const tags = assignTagOwner(conversation.tags, agentId);
    return {
      ...agent,
      agentId: newIds.get(agentId) ?? agentId,
      parentAgentId: parentAgentId === null ? null : (newIds.get(parentAgentId) ?? null),
      executionId,
      ordinals: agent === root ? names : agent.ordinals,
      execution: agent === root ? 0 : agent.execution, // The first execution of the fork follows.
      isDetached: false,
      state: {
        ...state,
        executionId,
        telemetry,
        conversation: { ...conversation, tags, dropped: [] },
      },
    };
  });
}

/**
 * Returns the root as it was when the step had ended, without later changes. Messages and subtasks
 * that the step had queued are queued again.
 */
function buildRootState(cut: Cut, newIds: ReadonlyMap<AgentId, AgentId>): AgentSnapshot {
  const { stepNumber, root } = cut;
  const { agentPath, state } = root;
  // The fork does not have a result yet.
  const { output: _output, outputParse: _parse, ...log } = state.log;
  const before = log.steps.slice(0, stepNumber);
  const messages = selectHistory(state, stepNumber);
  if (messages === undefined) {
    const advice = "Choose a later step, or keep more messages (compaction.keepMessages).";
    const expected = `a step of ${agentPath} whose history is complete`;
    throw mismatch("fork options.atStep", expected, stepNumber, advice);
  }
  return {
    status: "stopped",
    executionId: state.executionId,
    reason: { code: "forked", message: "The run was forked here.", data: { stepNumber } },
    conversation: {
      ...state.conversation,
      messages,
      tags: state.conversation.tags.slice(0, messages.length),
      prefix: { messageCount: 0, tokens: 0 },
    },
    log: {
      ...log,
      steps: before,
      signals: [],
      errors: [],
      subtasks: collectQueued(state, before.at(-1), messages),
      background: findUnreported(before, messages, cut.agents, newIds),
      isAwaiting: false,
    },
    telemetry: state.telemetry,
  };
}

/** Returns the messages and subtasks that the step had queued and the root has not read. */
function collectQueued(
  { log }: AgentSnapshot,
  last: StepRecord | undefined,
  messages: readonly Message[],
): AgentSnapshot["log"]["subtasks"] {
  const isLast = last?.number === log.steps.length;
  if (isLast && log.subtasks.length > 0)
    return log.subtasks.map(({ request, text }) => ({ request, ...omitUndefined({ text }) }));
  const spoken = messages.findLastIndex(({ role }) => role === "assistant");
  const isRead = messages
    .slice(spoken + 1)
    .some((message) => message.role === "user" && message.origin === "subtask");
  if (isRead) return [];
  const requests = last?.tools.executions.flatMap((execution) => execution.subtasks ?? []) ?? [];
  return requests.map((request) => ({ request }));
}

/**
 * Returns the step of the present execution whose reply the message is, or 0 for other messages.
 */
function findRepliedStep(
  { executionId }: AgentSnapshot,
  { role }: Message,
  tag?: MessageTag,
): number {
  const isOwn = tag?.executionId === executionId && tag.note === undefined;
  return role === "assistant" && isOwn ? tag.stepNumber : 0;
}

/**
 * Returns the index in the history of the first reply after the step, or -1 if the step had the
 * last reply.
 */
function findFirstLate(state: AgentSnapshot, stepNumber: number): number {
  const { messages, tags } = state.conversation;
  return messages.findIndex(
    (message, index) => findRepliedStep(state, message, tags[index]) > stepNumber,
  );
}

/**
 * Returns the history up to the end of the step. `undefined` if a compaction has removed its last
 * reply, or a later one.
 */
function selectHistory(state: AgentSnapshot, stepNumber: number): readonly Message[] | undefined {
  const { messages, tags, dropped } = state.conversation;
  const late = findFirstLate(state, stepNumber);
  const earlier = late === -1 ? messages : messages.slice(0, late);
  const replied = earlier.map((message, index) => findRepliedStep(state, message, tags[index]));
  const last = Math.max(0, ...replied);
  if (dropped.some(({ message, tag }) => findRepliedStep(state, message, tag) > last))
    return undefined;
  if (late === -1 || stepNumber === 0) return earlier;
  // Later messages belong to later steps. Messages before the first step are its input.
  const end = earlier.findLastIndex(
    ({ role }, at) => role !== "user" || tags[at]?.stepNumber === 0,
  );
  return earlier.slice(0, end + 1);
}

/** Returns background subagents, started by then, whose end the root had not read. */
function findUnreported(
  steps: readonly StepRecord[],
  messages: readonly Message[],
  agents: readonly PausedAgent[],
  newIds: ReadonlyMap<AgentId, AgentId>,
): readonly AgentId[] {
  const executions = steps.flatMap(({ tools }) => tools.executions);
  const reported = executions.flatMap(({ reportedAgentIds }) => reportedAgentIds ?? []);
  const reports = messages.filter(
    ({ role, ...rest }) => role === "user" && "origin" in rest && rest.origin === "report",
  );
  const started = executions.flatMap(({ startedAgentIds }) => startedAgentIds ?? []);
  return [...new Set(started)].flatMap((agentId) => {
    const agent = agents.find((candidate) => candidate.agentId === agentId);
    const newId = newIds.get(agentId);
    if (agent === undefined || newId === undefined) return [];
    const childName = getChildName(agent.agentPath);
    const times = started.filter((id) => id === agentId).length;
    const read = reports.filter(({ text }) => text.startsWith(`${childName},`)).length;
    return reported.filter((id) => id === agentId).length + read < times ? [newId] : [];
  });
}

/**
 * Returns the names of subagents in the history. They are not reused, even if the fork does not
 * contain their agents, which were still active or continued later.
 */
function collectOrdinals(agents: readonly PausedAgent[], late: Steps): PausedAgent["ordinals"] {
  const ordinals = new Map<string, number>();
  for (const { role, agentPath, depth, spawnStepId, execution } of agents) {
    const isKnown = execution > 1 || !late.has(spawnStepId);
    if (depth !== 1 || !isKnown) continue;
    const ordinal = Number(agentPath.slice(agentPath.lastIndexOf("#") + 1));
    ordinals.set(role, Math.max(ordinals.get(role) ?? 0, ordinal));
  }
  return Object.fromEntries(ordinals);
}

/**
 * Returns accounts with the limits of the original and zero usage, with `budget` in addition for
 * the root. A fixed deadline is not copied.
 */
function createAccounts(
  accounts: readonly LedgerAccount[],
  { agents: originals, nowMs }: Cut,
  agents: readonly PausedAgent[],
  budget: Budget,
): readonly LedgerAccount[] {
  const opened = new Map<AgentId, LedgerAccount>();
  for (const [index, { agentId, parentAgentId, agentPath }] of agents.entries()) {
    const before = accounts.find((candidate) => candidate.agentId === originals[index]?.agentId);
    const parent = parentAgentId === null ? undefined : opened.get(parentAgentId);
    const { limits: beforeLimits = {}, reserve, timeLimitMs = null } = before ?? {};
    const added = parent === undefined ? budget : {};
    const limits = tightenLimits(beforeLimits, toLedgerLimits(added));
    const leastMs = Math.min(timeLimitMs ?? Infinity, added.timeMs ?? Infinity);
    const timeMs = leastMs === Infinity ? undefined : leastMs;
    const account = { agentId, agentPath, limits, reserve, timeMs, nowMs };
    const grantsBefore = before === undefined ? [] : collectGrants(before);
    opened.set(agentId, {
      ...openAccount(account, parent),
      ...(grantsBefore.length === 0 ? {} : { grantsBeforeFork: grantsBefore }),
    });
  }
  return [...opened.values()];
}
