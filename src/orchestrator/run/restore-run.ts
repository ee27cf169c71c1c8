// Continues a run that was paused, that a limit has stopped, or whose process crashed.

import { SteadyClock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import type { ResumeOptions } from "./run-options.ts";
import type { EventBody } from "../../protocol/event.ts";
import {
  type AgentId,
  type CallId,
  type QuestionId,
  type StepId,
  createQuestionId,
} from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { createSubagentOutcome } from "../tree/agent-report.ts";
import { restoreToolLimits } from "../tree/child-context.ts";
import { type NextExecution, continueAgent, resolveModel } from "../tree/create-agent.ts";
import { type AnswerChecks, assertAllAnswered, checkAnswers } from "./check-answers.ts";
import {
  assertReady,
  checkOutputs,
  resolveGrants,
  findAgentRoles,
  resolveRootRole,
  createStoppedNotice,
} from "./check-roles.ts";
import { type ReceivedMail, continuesRun } from "./run-mail.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { type Settings, getRoleRegistry } from "../tree/orchestrator-settings.ts";
import type { PreparedRun } from "./live-run.ts";
import { resumeDetachedAgents, Supervisor } from "../tree/supervisor.ts";
import { resumeRunSession } from "../sessions/sessions.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";
import { resolveInstructions, type AgentRole } from "../../agent/agent-role.ts";
import { AgentRuntime } from "../../agent/agent-runtime.ts";
import { getBackgroundChildren, getLastText, getPendingCalls } from "../../agent/agent-state.ts";
import { readRolesOfCall } from "../../agent/tool-calls/requested-roles.ts";
import { invariant } from "../../kernel/invariant.ts";
import { toCallUsage } from "../../budget/call-usage.ts";
import { addUsage } from "../../protocol/usage.ts";
import { createScopeWithoutExecution, RunRuntime } from "../tree/run-runtime.ts";

/** Parts with which a run continues. */
export type Continuation = ReturnType<typeof checkContinuation>;

/** State in which a run was left, and the input that has arrived since. */
export interface Arrival {
  /** True if its process crashed or released the run, so that it had not settled. */
  readonly wasCutOff: boolean;
  readonly answers: readonly Answer[];
  readonly mail?: readonly ReceivedMail[];
  /**
   * True if each question needs an answer or an approver. By default true for a settled run without
   * mail. Mail is handled in any case.
   */
  readonly areAllNeeded?: boolean;
}

/** Checks and returns the parts with which a run continues. Throws before anything has happened. */
export function checkContinuation(
  settings: Settings,
  run: RestoredRun,
  options: ResumeOptions,
  { wasCutOff, answers, mail = [], areAllNeeded = !wasCutOff && !mail.some(continuesRun) }: Arrival,
) {
  const { onStreamPart, context, role, grants: requestedGrants = [] } = options;
  const cutOffId = wasCutOff ? run.agents[0]?.executionId : undefined;
  const session = resumeRunSession({ ...run, cutOffId }, options.session, settings);
  const registry = getRoleRegistry(settings, resolveRootRole(run, role, settings.roles));
  const roles = findAgentRoles(run, registry);
  checkOutputs(run, roles);
  const nowMs = new SteadyClock(settings.clock, run.pausedAtMs).nowMs();
  const checks: AnswerChecks = {
    nowMs,
    toolsOf: ({ agentId }) => registry.getParts(roles.get(agentId) ?? registry.root).tools,
  };
  const checkedAnswers = new Map(checkAnswers(run, answers, checks));
  const settled = takeMailedAnswers(run, mail, checkedAnswers, { ...checks, wasCutOff });
  const hasApprover = settings.approvals.approver !== undefined;
  if (areAllNeeded) assertAllAnswered(run, checkedAnswers, { nowMs, hasApprover });
  assertReady(run, registry);
  const grants = resolveGrants(run, requestedGrants, { hasToEnd: wasCutOff });
  const status = run.agents[0]?.state.status;
  // If the root has ended, it begins another execution with these instructions. Otherwise it
  // continues the execution that it had begun.
  const isOver = !wasCutOff && status !== "paused" && status !== "pending";
  const next: Pick<NextExecution, "instructions" | "message"> | undefined = isOver
    ? {
        instructions: resolveInstructions(registry.root, context),
        message: createStoppedNotice(run),
      }
    : undefined;
  return {
    registry,
    roles,
    onStreamPart,
    context,
    next,
    session,
    answers: checkedAnswers,
    grants,
    mail,
    settledMail: settled,
  };
}

/**
 * Adds the valid answers in the mail. Returns the handled mail, with its problem if it had no
 * effect.
 */
function takeMailedAnswers(
  run: RestoredRun,
  mail: readonly ReceivedMail[],
  accepted: Map<QuestionId, Answer>,
  { wasCutOff, ...checks }: AnswerChecks & Pick<Arrival, "wasCutOff">,
) {
  const known = new Set(accepted.keys());
  const settled = new Map<number, string | undefined>();
  for (const { number, mail: entry } of mail) {
    if (entry.type !== "answer") continue;
    const { answer } = entry;
    settled.set(number, undefined);
    if (known.has(answer.questionId)) continue;
    known.add(answer.questionId);
    try {
      checkAnswers(run, [answer], checks);
      accepted.set(answer.questionId, answer);
    } catch (cause) {
      if (!EspalierError.is(cause) || cause.code !== "invalid_answer") throw cause;
      // Its approver was active at the crash, and will be asked again.
      const isAskedAgain = wasCutOff || isToBeAsked(run, answer.questionId);
      if (isAskedAgain && cause.data["problem"] === "unknown") settled.delete(number);
      else settled.set(number, cause.message);
    }
  }
  return settled;
}

/**
 * Returns true if a question is about a call that has not begun: the run was asked to pause before
 * the call's approver could be asked again.
 */
function isToBeAsked({ agents }: RestoredRun, questionId: QuestionId): boolean {
  return agents.some(({ state }) => {
    if (state.status !== "paused" || state.step?.reply === undefined) return false;
    const { stepId, deferrals } = state.step;
    const { toolCalls } = state.step.reply.message;
    const waiting = new Set(deferrals.map(({ callId }) => callId));
    return getPendingCalls(state).some(
      (call) =>
        !waiting.has(call.callId) &&
        questionId === createQuestionId(stepId, toolCalls.indexOf(call)),
    );
  });
}

/** Store of the run, and its journal if its process crashed. */
export interface RestoreContext {
  readonly journal: RunJournal | undefined;
  readonly folded?: FoldedRun | undefined;
  /** The error, if the run only continues to fail. */
  readonly failure?: ErrorRecord | undefined;
  /** Origin of the run, if it is a fork. */
  readonly forkedFrom?: EventBody<"run.started">["forkedFrom"];
}

/**
 * Restores the agents of a run. If that fails, nothing is written, and the store keeps the run
 * unchanged.
 */
export function restoreRun(
  settings: Settings,
  run: RestoredRun,
  ready: Continuation,
  context: RestoreContext,
): PreparedRun {
  try {
    return restoreParts(settings, run, ready, context);
  } catch (cause) {
    context.journal?.writer.abandon();
    throw cause;
  }
}

function restoreParts(
  settings: Settings,
  run: RestoredRun,
  ready: Continuation,
  { journal, folded, failure, forkedFrom = folded?.origin.forkedFrom }: RestoreContext,
): PreparedRun {
  const { answers, session, grants } = ready;
  const runtime = new RunRuntime(
    settings,
    { ...ready, runId: run.runId, restored: run, journal },
    Supervisor,
  );
  const pausedMs = runtime.clock.nowMs() - run.pausedAtMs;
  const restored = restore(runtime, run, ready.roles);
  if (answers.size > 0) journal?.append({ type: "answers", answers: [...answers.values()] });
  const recordGrants = grants.map(({ agentId, field, ...grant }) => {
    const node = runtime.tree.find(agentId) ?? restored;
    return runtime.grantBudget(node, grant, field);
  });
  let root = restored;
  if (ready.next !== undefined) {
    root = continueAgent(runtime, restored, { task: restored.facts.task, ...ready.next });
    journal?.recordContinuation(root, false);
  }
  session?.begin(run.runId);
  const {
    pauseCount,
    traceId: previousTraceId,
    spanId: previousSpanId,
    isSampled: wasSampled,
  } = run;
  const recovery =
    folded?.status === "open"
      ? { lostCallCount: folded.lost.length, isSpanOpen: folded.spans.isRunOpen }
      : undefined;
  const { traceparent } = folded?.origin ?? {};
  const resumed = {
    type: "run.resumed",
    pauseCount,
    pausedMs,
    previousTraceId,
    answerCount: answers.size,
    ...omitUndefined({ previousSpanId, wasSampled, recovery, traceparent }),
  } as const;
  const started = { type: "run.started", ...omitUndefined({ traceparent, forkedFrom }) } as const;
  return {
    run: runtime,
    root,
    // A run without events is a fork, or its process crashed before it had begun.
    ...(run.eventCount === 0
      ? { pauseCount: 0, answered: [], origin: started }
      : { pauseCount, answered: [...run.answered, ...answers.keys()], origin: resumed }),
    isRefusable: true, // Another process may have continued it from the same store.
    mail: ready.mail,
    settledMail: ready.settledMail,
    beforeFirstEvent: () => {
      if (folded?.status !== "open") return;
      runtime.recorder.endLost(folded.spans.findLostSpans(), folded.spans.lastUs);
    },
    afterFirstEvent: () => {
      for (const record of recordGrants) record();
      if (folded !== undefined) {
        chargeLost(runtime, folded);
        repeatRequests(runtime, folded);
      }
      if (failure !== undefined) failRoot(root, failure);
      resumeDetachedAgents(runtime);
    },
  };
}

/**
 * Charges model calls with an unknown outcome by estimate, because their requests may have been
 * sent. Releases the leases of calls whose requests were never sent.
 */
function chargeLost(run: RunRuntime, { lost, unsent }: FoldedRun): void {
  const { tree, recorder, ledger } = run;
  for (const { agentId, lease } of unsent) {
    const node = tree.find(agentId);
    if (node === undefined) continue;
    ledger.getAccount(agentId).release(lease);
    recorder.record(createScopeWithoutExecution(node), {
      type: "budget.released",
      leaseId: lease.leaseId,
    });
  }
  for (const { agentId, lease, charged, underWay } of lost) {
    const node = tree.find(agentId);
    if (node === undefined) continue;
    const { model } = node;
    const abandoned = toCallUsage(node, { lease, steps: 0 }, { type: "abandoned" });
    const further = { ...abandoned, modelCalls: 0, unpricedCalls: 0 };
    let usage = charged ?? abandoned;
    // Charged attempts have ended. Any other attempt may have been sent.
    for (let nth = charged === undefined ? 2 : 1; nth <= underWay; nth += 1)
      usage = addUsage(usage, further);
    const { account } = node;
    account.settle(lease, usage);
    recorder.record(createScopeWithoutExecution(node), {
      type: "budget.settled",
      leaseId: lease.leaseId,
      usage,
      remaining: account.remaining(),
      runRemaining: account.runRemaining(),
      lostCall: { provider: model.provider, model: model.id },
    });
  }
}

/** Fails the root, and ends all agents below it. */
function failRoot(root: AgentRuntime, { code, message, data }: ErrorRecord): void {
  root.cancel("The run has failed.");
  const reason = { code: "error", message, data: { ...data, error: code } };
  root.requestStop({ source: "loop", reason });
}

/** Repeats requests that agents had not handled when their process crashed. */
function repeatRequests(
  run: RunRuntime,
  { run: restored, cancelled, overdue, stops, unknownIds }: FoldedRun,
): void {
  const { tree } = run;
  const findLiving = (agentId: AgentId): AgentRuntime | undefined => {
    const node = tree.find(agentId);
    return node?.hasEnded === true ? undefined : node;
  };
  for (const { agentId, message } of cancelled) findLiving(agentId)?.cancel(message);
  for (const { agentId, deadlineAtMs } of overdue) findLiving(agentId)?.endAtDeadline(deadlineAtMs);
  for (const stop of stops) tree.stop(stop);
  for (const { agentId, inFlight } of restored.agents) {
    const node = findLiving(agentId);
    if (node === undefined) continue;
    const { signals = [], messages = [] } = inFlight ?? {};
    for (const signal of signals) node.requestStop(signal);
    for (const text of messages) void node.openMailbox().write(text);
  }
  for (const childId of unknownIds) {
    const parent = tree.find(childId)?.parent;
    if (parent === undefined || parent.hasEnded) continue;
    // A subagent in the state of its parent continues together with the parent.
    if (!getBackgroundChildren(parent.currentState).includes(childId))
      run.supervisor.reactivate(parent, [childId]);
  }
}

/**
 * Restores the agents of a settled run into a new tree and ledger, and returns the root. The time
 * of the pause is not charged.
 */
function restore(
  runtime: RunRuntime,
  run: RestoredRun,
  roles: ReadonlyMap<AgentId, AgentRole>,
): AgentRuntime {
  const { ledger, clock, tree } = runtime;
  ledger.restore(run.accounts, run.leaseCount, run.leases);
  const pausedMs = clock.nowMs() - run.pausedAtMs;
  for (const { agentId, state } of run.agents)
    if (state.status === "paused" || state.status === "pending")
      ledger.getAccount(agentId).excludeTime(pausedMs);
  for (const agent of run.agents) {
    runtime.journal?.noteRestored(agent);
    const role = roles.get(agent.agentId);
    invariant(role !== undefined, `${agent.agentPath} has a role`);
    const node = restoreAgent(runtime, agent, role);
    tree.add(node);
    if (node.parent !== undefined) tree.noteEarlier(node, readEarlierTasks(agent));
  }
  restoreGroups(tree.nodes, run);
  const [root] = tree.nodes;
  if (root === undefined) throw new Error("A paused run has a root.");
  return root;
}

/** Returns the earlier tasks of an agent that was continued. */
function readEarlierTasks({ state, execution }: RestoredAgent): readonly string[] {
  if (execution === 1) return [];
  const tasks = state.conversation.messages.flatMap((message) =>
    message.role === "user" && message.origin === "task" ? [message.text] : [],
  );
  return tasks.slice(-execution, -1);
}

/**
 * Groups the subagents that one reply has started, also after a pause. All must be restored before
 * the first settles.
 */
function restoreGroups(nodes: readonly AgentRuntime[], { agents }: RestoredRun): void {
  const inFlightOf = new Map(agents.map(({ agentId, inFlight }) => [agentId, inFlight]));
  const begun = new Set(nodes.map(({ facts }) => `${facts.spawnStepId} ${facts.spawnCallId}`));
  const members = nodes.flatMap((node) => {
    const { parent, facts } = node;
    const { spawnStepId, spawnCallId } = facts;
    if (parent === undefined || spawnStepId === undefined || spawnCallId === undefined) return [];
    const isOver = (callId: CallId): boolean =>
      begun.has(`${spawnStepId} ${callId}`) ||
      inFlightOf.get(parent.identity.agentId)?.endedCallIds.has(callId) === true;
    const group = parent.ensureGroup(spawnStepId, countStartsLeft(parent, spawnStepId, isOver));
    group.rejoin(node);
    return [{ node, group }];
  });
  for (const { node, group } of members) {
    const { settled } = node;
    if (settled === undefined || settled.status === "paused") continue;
    const { status, log } = settled;
    const outcome = createSubagentOutcome({
      status,
      text: getLastText(settled),
      output: log.output,
    });
    group.noteEnd(node, outcome === "completed");
  }
}

/**
 * Returns the calls of a step that may still start a subagent. `isOver` returns true for a call
 * that has started its subagent, or has ended.
 */
function countStartsLeft(
  parent: AgentRuntime,
  stepId: StepId,
  isOver: (callId: CallId) => boolean,
): number {
  const { settled } = parent;
  if (settled?.status !== "paused" || settled.step?.stepId !== stepId) return 0;
  return getPendingCalls(settled).filter(
    (call) => readRolesOfCall(parent, call).length > 0 && !isOver(call.callId),
  ).length;
}

function restoreAgent(runtime: RunRuntime, agent: RestoredAgent, role: AgentRole): AgentRuntime {
  const { ledger, tree } = runtime;
  const { agentId, executionId, parentAgentId, agentPath, draft } = agent;
  const parent = parentAgentId === null ? undefined : tree.find(parentAgentId);
  if (parent !== undefined) tree.count(parent, 1);
  return new AgentRuntime(
    runtime,
    parent,
    {
      role,
      task: agent.task,
      metadata: deepFreeze(agent.metadata),
      agentPath,
      spawnCallId: agent.spawnCallId ?? undefined,
      spawnStepId: agent.spawnStepId ?? undefined,
      toolLimits: restoreToolLimits(runtime, parent, { ...agent, role }),
      roleDefinition: draft,
    },
    {
      agentId,
      executionId,
      model: resolveModel(runtime, role),
      state: agent.state,
      account: ledger.getAccount(agentId),
      before: { ...agent, firstStartedAtMs: agent.startedAtMs, childCount: 0, subagentsBelow: 0 },
    },
  );
}
