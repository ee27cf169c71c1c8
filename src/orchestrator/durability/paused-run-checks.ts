// Finds contradictions in a paused run: figures that do not add up, and states that do not follow
// from their history. Consistent alterations of every copy of a fact are not found. Against these,
// the limits of the roles in code apply (run/limit-paused-run.ts), and a signature detects every
// alteration.

import { getBackgroundChildren } from "../../agent/agent-state.ts";
import { sameJson } from "../../kernel/json.ts";
import { countFailures, NO_FAILURES } from "../../policies/failure-counts.ts";
import { LEDGER_AXES, type LedgerAccount } from "../../protocol/account.ts";
import { createQuestionId, createStepId, type AgentId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { computeCallHash } from "../../protocol/question.ts";
import { PAUSE_CODES } from "../../protocol/stop.ts";
import {
  addUsage,
  NO_USAGE,
  subtractUsage,
  toAmounts,
  toUsage,
  type Usage,
} from "../../protocol/usage.ts";
import { toMicroUsd } from "../../kernel/money.ts";
import { sumGrants } from "../../budget/ledger-grant.ts";
import { toLedgerLimits, toSpendAmounts, toSpendAxis } from "../../policies/budget.ts";
import { listAwaitedChildren, type PausedAgent, type PausedRunRecord } from "./paused-run.ts";

/** A paused run, indexed. */
interface IndexedRun {
  readonly run: PausedRunRecord;
  readonly agents: ReadonlyMap<AgentId, PausedAgent>;
  readonly accounts: ReadonlyMap<AgentId | null, LedgerAccount>;
  /** The usage of all accounts below each account. */
  readonly below: ReadonlyMap<AgentId, Usage>;
}

/** Returns the first contradiction in the run. `undefined` for a consistent run. */
export function findContradiction(run: PausedRunRecord): string | undefined {
  const indexed = indexRun(run);
  for (const agent of run.agents) {
    const problem =
      findPlaceProblem(indexed, agent) ?? findHistoryProblem(agent) ?? findStepProblem(agent);
    if (problem !== undefined) return `${agent.agentPath}: ${problem}`;
  }
  for (const account of run.accounts) {
    const problem = findAccountProblem(indexed, account) ?? findUsageProblem(indexed, account);
    if (problem !== undefined) return `the account of ${account.agentPath}: ${problem}`;
  }
  return findLostLimit(indexed) ?? findRaisedLimit(indexed);
}

function indexRun(run: PausedRunRecord): IndexedRun {
  const below = new Map<AgentId, Usage>();
  for (const { parentAgentId: id, total } of run.accounts)
    if (id !== null) below.set(id, addUsage(below.get(id) ?? NO_USAGE, total));
  return {
    run,
    agents: new Map(run.agents.map((agent) => [agent.agentId, agent])),
    accounts: new Map(run.accounts.map((account) => [account.agentId, account])),
    below,
  };
}

// Places in the tree

function findPlaceProblem({ agents }: IndexedRun, agent: PausedAgent): string | undefined {
  const { agentId, agentPath, role, depth, parentAgentId, state } = agent;
  if (parentAgentId === null)
    return agentPath === role && depth === 0
      ? undefined
      : "its path does not match its place in the tree";
  const parent = agents.get(parentAgentId);
  if (parent === undefined) return "it has no parent";
  const ordinal = Number(agentPath.slice(agentPath.lastIndexOf("#") + 1));
  const isInPlace =
    agentPath === `${parent.agentPath}/${role}#${ordinal}` &&
    depth === parent.depth + 1 &&
    ordinal >= 1 &&
    ordinal <= (parent.ordinals[role] ?? 0);
  if (!isInPlace) return "its path does not match its place in the tree";
  const isForgotten =
    state.status === "paused" && listAwaitedChildren(parent).includes(agentId) === agent.isDetached;
  return isForgotten ? "it is paused, but its parent does not wait for it" : undefined;
}

// Histories

function findHistoryProblem({ state, executionId }: PausedAgent): string | undefined {
  const { status, reason, telemetry, log } = state;
  const isPaused = status === "paused";
  if (isPaused !== PAUSE_REASONS.has(reason.code)) return `it is ${status} for another reason`;
  if (isPaused && telemetry.endedAtMs !== undefined) return "it is both paused and ended";
  const background = getBackgroundChildren(state);
  if (new Set(background).size < background.length) return "it lists a background subagent twice";
  for (const [index, { number, stepId, tools }] of log.steps.entries()) {
    if (number !== index + 1) return `step ${index + 1} is missing`;
    if (isPaused && stepId !== createStepId(executionId, number))
      return `step ${number} is of another execution`;
    const answered = tools.executions.map(({ call }) => call);
    if (!sameJson(answered, tools.calls)) return `step ${number} lacks the result of a call`;
  }
  const failures = log.steps.reduce(
    (counts, { tools }) => countFailures(counts, tools.executions),
    NO_FAILURES,
  );
  if (!sameJson(failures, log.failures)) return "its failure count does not match its steps";
  return findQueueProblem(state, executionId);
}

/** `interrupted` means that its process crashed. */
const PAUSE_REASONS: ReadonlySet<string> = new Set([...PAUSE_CODES, "interrupted"]);

/**
 * Checks that a subtask is as a step queued it. A history from before the execution does not show
 * all steps.
 */
function findQueueProblem(
  { conversation, log }: PausedAgent["state"],
  executionId: PausedAgent["executionId"],
): string | undefined {
  if (log.subtasks.length === 0) return undefined;
  if (conversation.tags.some((tag) => tag.executionId !== executionId)) return undefined;
  const queued = log.steps.flatMap(({ tools }) =>
    tools.executions.flatMap(({ subtasks = [] }) => subtasks),
  );
  const isQueued = log.subtasks.every(({ request }) =>
    queued.some((candidate) => sameJson(candidate, request)),
  );
  return isQueued ? undefined : "a subtask differs from the one that its tool queued";
}

// The open step of a paused agent

type PausedStep = NonNullable<Extract<PausedAgent["state"], { readonly status: "paused" }>["step"]>;

function findStepProblem(agent: PausedAgent): string | undefined {
  const { state, executionId } = agent;
  if (state.status !== "paused" || state.step === undefined) return undefined;
  const { step, conversation, log } = state;
  const number = log.steps.length + 1;
  if (step.number !== number || step.stepId !== createStepId(executionId, number))
    return "its open step does not follow its last one";
  const { toolCalls = [] } = step.reply?.message ?? {};
  if (toolCalls.length > 0) {
    const lastReply = conversation.messages.findLast(({ role }) => role === "assistant");
    if (!sameJson(lastReply, step.reply?.message)) return "its last reply differs from its history";
  }
  const ended = step.executions.map(({ call }) => call.callId);
  const begun = new Set([...ended, ...step.deferrals.map(({ callId }) => callId)]);
  if (begun.size < step.executions.length + step.deferrals.length)
    return "a call has ended twice, or is both ended and waiting";
  if (step.usage.toolCalls > begun.size) return "it lacks the result of a call";
  const isStrange = step.executions.some(
    ({ call }) => !toolCalls.some((candidate) => sameJson(candidate, call)),
  );
  if (isStrange) return "it has the result of a call that its model never made";
  return findDeferralProblem(agent, step, toolCalls);
}

/** Checks that a question is about the call that the model made. */
export function findDeferralProblem(
  { agentId, agentPath }: Pick<PausedAgent, "agentId" | "agentPath">,
  { stepId, deferrals }: Pick<PausedStep, "stepId" | "deferrals">,
  toolCalls: readonly ToolCall[],
): string | undefined {
  for (const deferral of deferrals) {
    if (deferral.type !== "question") continue;
    const { question, callId, callHash } = deferral;
    const index = toolCalls.findIndex((call) => call.callId === callId);
    const call = toolCalls[index];
    const isAboutCall =
      call !== undefined &&
      question.questionId === createQuestionId(stepId, index) &&
      question.callId === callId &&
      question.toolName === call.toolName &&
      question.agentId === agentId &&
      question.agentPath === agentPath &&
      callHash === computeCallHash(call);
    if (!isAboutCall)
      return `question ${question.questionId} is not about a call that its model made`;
  }
  return undefined;
}

// Accounts

function findAccountProblem(
  { run: { pausedAtMs }, agents, accounts }: IndexedRun,
  account: LedgerAccount,
): string | undefined {
  const { agentId, parentAgentId, agentPath, openedAtMs, pausedMs, fixedDeadlineAtMs } = account;
  if (agents.get(agentId)?.agentPath !== agentPath) return "it belongs to another agent";
  if (openedAtMs > pausedAtMs || pausedMs > pausedAtMs - openedAtMs)
    return "its times are not before the pause";
  const parent = accounts.get(parentAgentId);
  // Only a run has a fixed deadline, which all its accounts share.
  return parent !== undefined && parent.fixedDeadlineAtMs !== fixedDeadlineAtMs
    ? "its deadline differs from that of its parent"
    : undefined;
}

/**
 * Checks that a total is the sum of the usage of the agent and its subagents (B3), and no less than
 * its history shows.
 */
function findUsageProblem(
  { agents, below }: IndexedRun,
  { agentId, own, total }: LedgerAccount,
): string | undefined {
  if (!sameJson(addUsage(own, below.get(agentId) ?? NO_USAGE), toUsage(total)))
    return "its total is not the sum of its parts";
  const state = agents.get(agentId)?.state;
  if (state === undefined) return undefined;
  // A fork is not charged for the earlier work of its agents.
  if (state.status !== "paused" && sameJson(own, NO_USAGE)) return undefined;
  const { log, telemetry } = state;
  const ofSteps = log.steps.reduce((sum, step) => addUsage(sum, step.telemetry.usage), NO_USAGE);
  const ofOpenStep = state.status === "paused" ? (state.step?.usage ?? NO_USAGE) : NO_USAGE;
  const isCovered =
    isCovering(telemetry.usage, ofSteps) && isCovering(own, addUsage(telemetry.usage, ofOpenStep));
  return isCovered ? undefined : "its history shows that more was used";
}

function isCovering(whole: Usage, part: Usage): boolean {
  const amounts = new Map(Object.entries(toAmounts(whole)));
  return Object.entries(toAmounts(part)).every(
    ([field, amount]) => (amounts.get(field) ?? 0) >= amount,
  );
}

// Limits by history: each step has recorded the remaining amount of each limit

function findLostLimit({ run: { agents }, accounts }: IndexedRun): string | undefined {
  for (const { agentId, agentPath, state } of agents) {
    const { budget = {} } = collectSteps(state).at(-1)?.context ?? {};
    const lost = Object.keys(budget).find((axis) => !isLimited(accounts, agentId, axis));
    if (lost !== undefined)
      return `${agentPath}: its history shows a limit on ${lost}, but its account has none`;
  }
  return undefined;
}

function isLimited(accounts: IndexedRun["accounts"], agentId: AgentId, axis: string): boolean {
  let at = accounts.get(agentId);
  for (; at !== undefined; at = accounts.get(at.parentAgentId)) {
    const { limits, timeLimitMs, fixedDeadlineAtMs } = at;
    const isTimed = timeLimitMs !== null || fixedDeadlineAtMs !== null;
    if (axis === "timeMs" ? isTimed : Object.hasOwn(toSpendAmounts(limits), axis)) return true;
  }
  return false;
}

/**
 * Checks the limits against the steps. Before its first step the root had started nothing, so its
 * limits were the remaining amounts of that step, plus the usage before it. A fork with subtasks is
 * not checked, because they run before its first step.
 */
function findRaisedLimit({ run: { agents }, accounts }: IndexedRun): string | undefined {
  const [root] = agents;
  if (root?.execution !== 1) return undefined;
  const { agentId, agentPath, state } = root;
  const [first, ...later] = collectSteps(state);
  const account = accounts.get(agentId);
  if (first === undefined || account === undefined) return undefined;
  const isParentOf = ({ parentAgentId, openedAtMs }: LedgerAccount): boolean =>
    parentAgentId === agentId && openedAtMs < first.startedAtMs;
  if (hasEarlierSubtask(state) || [...accounts.values()].some(isParentOf)) return undefined;
  const usedLater = later.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE);
  // A repeated first step found smaller remaining amounts than its first attempt, but as many
  // steps.
  const { costUsd, ...counts } = toAmounts(
    subtractUsage(account.own, addUsage(usedLater, { ...NO_USAGE, steps: first.usage.steps })),
  );
  const used = { ...counts, costMicroUsd: toMicroUsd(costUsd) };
  const foundLimits = toLedgerLimits(first.context.budget);
  const granted = sumGrants(account.grants.filter(({ atMs }) => atMs >= first.startedAtMs));
  const raised = LEDGER_AXES.find((axis) => {
    const foundLimit = foundLimits[axis] ?? Infinity;
    return (account.limits[axis] ?? 0) > foundLimit + used[axis] + (granted[axis] ?? 0);
  });
  return raised === undefined
    ? undefined
    : `${agentPath}: its limit on ${toSpendAxis(raised)} is above that of its first step`;
}

/** Returns true if the history has a subtask before the first step of the execution. */
function hasEarlierSubtask(state: PausedAgent["state"]): boolean {
  const { messages } = state.conversation;
  const ownSteps = collectSteps(state).length;
  const firstReply = messages.filter(({ role }) => role === "assistant").at(-ownSteps);
  return messages
    .slice(0, firstReply === undefined ? 0 : messages.indexOf(firstReply))
    .some((message) => message.role === "user" && message.origin === "subtask");
}

type ShownStep = Pick<PausedStep, "context" | "usage" | "startedAtMs">;

/** Returns the steps of the execution with their usage, including the open step. */
function collectSteps(state: PausedAgent["state"]): readonly ShownStep[] {
  const recorded = state.log.steps.map(({ context, telemetry: { usage, startedAtMs } }) => ({
    context,
    usage,
    startedAtMs,
  }));
  const open = state.status === "paused" ? state.step : undefined;
  return open === undefined ? recorded : [...recorded, open];
}
