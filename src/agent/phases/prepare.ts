// prepare: builds the request, counts its tokens and reserves budget. Most steps only wait for the
// lease. Optional work comes first: hooks see the task, the history of a session is shortened,
// subtasks run, subagents are awaited, sections are created, and a history that is too long is
// compacted. Notices at the end of a request are not stored in the history.
//
// `requestCallLease` (model-call.ts) asks the account of the agent (budget/budget-account.ts). A
// refusal becomes a signal (`toBudgetSignal` in stop-requests.ts), with which the loop in
// run-agent.ts ends the agent. With a lease, infer.ts makes the call.

import { groupDigits, mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import {
  countInputTokens,
  estimateMessages,
  estimateMessageTokens,
} from "../../model/count-tokens.ts";
import { sumAttachedBytes } from "../../model/recipient-messages.ts";
import { countEphemeralTail } from "../../model/request-prefix.ts";
import { MOST_REQUEST_BYTES, replaceText, formatContent } from "../../protocol/message-content.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  isRetryAfterOverflow,
  NO_PREFIX,
  getStepPosition,
  type AgentState,
  type Subtask,
} from "../agent-state.ts";
import { addTask, mustNotCallModel, type Prepared, type PreparedCall } from "../life-cycle.ts";
import type { MailboxMessage } from "../mailbox.ts";
import { requestCallLease } from "../model-call.ts";
import { BUILT_IN_SECTIONS, type BuiltInSection } from "../request-sections.ts";
import { addSignal, fail, failWith, toBudgetSignal } from "../stop-requests.ts";
import { addWaitedTime, addMessages, recordTask, recordSubtasks } from "../transition.ts";
import {
  buildPlainRequest,
  type Assembled,
  applyRequestHooks,
  isOverflowing,
} from "./assemble-request.ts";
import { type ReadyState, createSections } from "./create-sections.ts";
import { omitUndefined, deepFreeze } from "../../kernel/json.ts";
import { checkConditions } from "../check-stop-conditions.ts";
import { consultHooks, classifyUserCodeError } from "../run-user-code.ts";
import { addAbortHandler } from "../../kernel/cancel-signal.ts";
import { pauseForSubagents } from "../pause-agent.ts";
import { createUserMessage, type UserMessage, type Message } from "../../protocol/message.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { Model, ModelRequest } from "../../model/model.ts";
import { formatBudgetLine } from "../../policies/budget-line.ts";
import type { AgentRole } from "../agent-role.ts";
import type { Lease, Remaining } from "../../budget/lease.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { computeRemainingAtStep } from "../create-step-context.ts";
import { describeDelegation } from "../../tools/delegation-text.ts";
import type { SpawnOutcome } from "../../protocol/subagent.ts";
import type { Consulted, ParentHistory } from "../effect-outcomes.ts";
import type { EffectPosition } from "../agent-identity.ts";
import { spawnWithHooks } from "../tool-calls/delegate.ts";

/**
 * Builds the request of the next step and reserves its budget. Returns no call if the step must not
 * start.
 */
export async function prepare(agent: AgentRuntime, state: AgentState): Promise<Prepared> {
  // Always awaited, so that agents that start together all begin before the first one requests its
  // lease.
  const ready: ReadyState = await (isReady(agent, state)
    ? { state: state.log.isTaskHandled ? state : addTask(state, agent.facts.task) }
    : runPendingWork(agent, state));
  if (mustNotCallModel(agent, ready.state) || ready.state.log.subtasks.length > 0)
    return { state: ready.state, call: undefined };
  // A step that was open when its process died repeats its request without new messages.
  const isRecorded = ready.state.step !== undefined && !isRetryAfterOverflow(ready.state);
  const mail = (isRecorded ? undefined : agent.mailbox?.unread) ?? NO_MAIL;
  const shown = mail.length === 0 ? ready.state : addMail(ready.state, mail);
  let assembled: Assembled | AgentState;
  try {
    assembled = buildPlainRequest(agent, shown, ready.sections);
  } catch (cause) {
    // A filter that throws fails the agent. The earlier work of the phase is kept.
    return { state: fail(agent, ready.state, cause), call: undefined };
  }
  if (agent.hooks.points.has("beforeModel"))
    assembled = await applyRequestHooks(agent, ready.state, assembled);
  if (!("request" in assembled)) return { state: assembled, call: undefined };
  return await reserveCall(agent, ready.state, assembled, mail);
}

const NO_MAIL: readonly MailboxMessage[] = Object.freeze([]);

/** True if the request needs no preparation except adding the task to the history. */
function isReady({ role, hooks, identity, retention }: AgentRuntime, { log }: AgentState): boolean {
  const isAsked =
    role.stopWhen.length > 0 || (identity.depth === 0 && hooks.points.has("userInput"));
  return (
    (log.isTaskHandled || (!isAsked && retention === undefined)) &&
    log.subtasks.length === 0 &&
    !log.isAwaiting &&
    role.compaction === undefined &&
    role.sections.length === BUILT_IN_SECTIONS.length
  );
}

/**
 * Reserves the budget of a request. A request that exceeds a limit is not sent, and the signal
 * contains the limit, its account and the current usage.
 */
async function reserveCall(
  agent: AgentRuntime,
  state: AgentState,
  assembled: Assembled,
  mail: readonly MailboxMessage[],
): Promise<Prepared> {
  const { role } = agent;
  const position = getStepPosition(agent, state);
  const notices =
    role.wrapUp !== undefined || role.showBudget ? planNotices(agent, state) : undefined;
  const noticed = notices === undefined ? 0 : estimateNoticeTokens(notices);
  const { request: draft, isFaithful, historyLength, ephemeral, tail, hiddenTools } = assembled;
  const attachedBytes = sumAttachedBytes(draft.messages);
  if (attachedBytes > MOST_REQUEST_BYTES)
    return { state: fail(agent, state, createAttachmentError(attachedBytes)), call: undefined };
  const prefix = isFaithful ? state.conversation.prefix : NO_PREFIX;
  const counted = countInputTokens(agent.model, draft, prefix, isFaithful ? ephemeral : undefined);
  const inputTokens = counted.tokens + noticed;
  const { strategy, maxInputTokens = Infinity } = role.compaction ?? {};
  if (strategy === "error" && inputTokens > maxInputTokens) {
    const error = createOverflowRecord(inputTokens, maxInputTokens);
    return { state: failWith(agent, state, error), call: undefined };
  }
  const outcome = await requestCallLease(agent, position, inputTokens, role.maxOutputTokens);
  const { waitedMs } = outcome;
  const waited = waitedMs === 0 ? state : addWaitedTime(state, waitedMs);
  if (outcome.type === "cancelled") return { state: waited, call: undefined };
  if (outcome.type === "refused")
    return { state: addSignal(agent, waited, toBudgetSignal(outcome.refusal)), call: undefined };
  const { lease } = outcome;
  const capped = Object.freeze({ ...draft, maxOutputTokens: lease.maxOutputTokens });
  const { request, tokens, isClosing } =
    notices === undefined
      ? { request: capped, tokens: 0, isClosing: false }
      : addNotices(agent, waited, capped, { lease, planned: notices });
  const added = request.messages.length - draft.messages.length;
  const call: PreparedCall = {
    effectPosition: position,
    request,
    lease,
    isFaithful: isFaithful && !isClosing,
    historyLength,
    ephemeralTokens: (ephemeral === undefined ? 0 : estimateMessages(ephemeral)) + tokens,
    isEstimated: counted.isEstimated || noticed > 0,
    ephemeralCount: added + (tail === undefined ? 0 : countEphemeralTail(draft.messages, tail)),
    hiddenTools,
    lastStep: isClosing ? lease.lastStep : undefined,
    mail,
  };
  return { state: waited, call };
}

function createAttachmentError(attached: number): EspalierError {
  const advice =
    "Set compaction, which keeps the newest attachments, or send the model fewer: toolResult({ showAttachments: false }).";
  const expected = `at most ${groupDigits(MOST_REQUEST_BYTES)} bytes`;
  return mismatch("the attachments of a request", expected, attached, advice);
}

function createOverflowRecord(inputTokens: number, maxInputTokens: number): ErrorRecord {
  return {
    code: "model_context_overflow",
    message: `Expected a request of at most ${maxInputTokens} input tokens (compaction.maxInputTokens), got ${inputTokens}. Raise it, or choose the strategy truncate or summarize.`,
    data: { inputTokens, maxInputTokens },
  };
}

/** Does the work that is due, until the state forbids a request. */
async function runPendingWork(agent: AgentRuntime, state: AgentState): Promise<ReadyState> {
  let next = state.log.isTaskHandled ? state : await takeTask(agent, state);
  if (mustNotCallModel(agent, next)) return { state: next };
  const { retention } = agent;
  if (retention !== undefined && !state.log.isTaskHandled) {
    const { retain } = await import("./compact.ts");
    next = await retain(agent, next, retention);
  }
  if (next.log.subtasks.length > 0) next = await runQueuedSubtasks(agent, next);
  if (mustNotCallModel(agent, next) || next.log.subtasks.length > 0) return { state: next };
  if (next.log.isAwaiting && agent.mailbox?.hasMessages !== true)
    next = await waitForSubagents(agent, next);
  if (mustNotCallModel(agent, next)) return { state: next };
  const hasSections = agent.role.sections.length > BUILT_IN_SECTIONS.length;
  const ready = hasSections ? await createSections(agent, next) : { state: next };
  if (mustNotCallModel(agent, ready.state) || !isOverflowing(agent, ready.state, ready.sections))
    return ready;
  const { compact } = await import("./compact.ts");
  return { ...ready, state: await compact(agent, ready.state, ready.sections) };
}

// The beginning of an execution. Hooks see the task before any budget is spent, and stop conditions
// are checked for the first time.

/** Adds the task to the history, as changed by hooks of the root. A refused task is not added. */
async function takeTask(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { identity, role, taskText } = agent;
  const { task, metadata } = agent.facts;
  const content = typeof task === "string" ? {} : { content: task };
  const hooked =
    identity.depth > 0
      ? undefined
      : await consultHooks(agent, {
          point: "userInput",
          stepNumber: 0,
          position: {},
          input: { role: role.name, task: taskText, metadata, ...content },
        });
  if (hooked?.type === "failed") return failWith(agent, dropTask(state), hooked.error);
  if (hooked?.type === "cancelled") return dropTask(state);
  const { patch, changedBy = [] } = hooked?.value ?? {};
  const refusal = patch?.refuse;
  if (refusal !== undefined) {
    const reason = { code: "input_refused", message: refusal, data: {} };
    const name = changedBy.at(-1)?.hook;
    return addSignal(agent, dropTask(state), {
      source: "hook",
      reason,
      ...omitUndefined({ name }),
    });
  }
  const finalTask = patch?.task === undefined ? task : replaceText(task, patch.task);
  return await checkConditions(agent, addTask(state, finalTask));
}

/** Marks the task as handled without adding it to the history. */
function dropTask(state: AgentState): AgentState {
  return recordTask(state, []);
}

// Waiting for background subagents. An agent that has answered reads their reports before it ends.

/**
 * Waits until the subagents have settled, a message arrives, or the agent must end. Pauses if a
 * subagent is paused and there is nothing to read.
 */
async function waitForSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { supervisor } = agent.run;
  const { background } = state.log;
  await waitForNews(agent, background);
  const hasMessages = (): boolean => agent.mailbox?.hasMessages === true;
  // Checked directly instead of by `hasStopRequest`, which is false while the agent catches up
  // after a crash: a pending request has ended the wait.
  if (hasMessages() || agent.stopRequests.length > 0 || agent.isEnding) return state;
  const isPaused = agent.children.some(
    ({ identity, settled }) =>
      settled?.status === "paused" && background.includes(identity.agentId),
  );
  if (isPaused) return pauseForSubagents(agent, state);
  // A call took their results and did not return them to the agent.
  supervisor.reactivate(agent, background);
  if (hasMessages()) return state;
  const message =
    "Subagents in the background have ended without a result. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}

/** Waits until these subagents settle, another message arrives, or the agent must end. */
async function waitForNews(agent: AgentRuntime, childIds: readonly AgentId[]): Promise<void> {
  const { noStartSignal } = agent;
  const settled = agent.whenBackgroundSettled(childIds);
  if (noStartSignal.aborted) return;
  const news = Promise.withResolvers<void>();
  const hear = (): void => news.resolve();
  const unsubscribe = agent.openMailbox().onMail((message) => {
    if (message.reportOf === undefined) hear();
  });
  const forget = addAbortHandler(noStartSignal, hear);
  await Promise.race([settled, news.promise]);
  unsubscribe();
  forget();
}

// Messages to the agent, from outside or from background subagents, enter its history with the
// first model call that contains them.

/** Returns the state that will result from a model call with these messages. */
export function addMail(state: AgentState, mail: readonly MailboxMessage[]): AgentState {
  const messages = mail.map(createMailMessage);
  const reportedAgentIds = mail.flatMap(({ reportOf }) => reportOf ?? []);
  return addMessages(state, messages, reportedAgentIds);
}

function createMailMessage({ content, reportOf }: MailboxMessage): UserMessage {
  return createUserMessage(content, reportOf === undefined ? "steering" : "report");
}

/** Texts by section. */
type Notices = { readonly [Name in BuiltInSection]?: string | undefined };

/** Returns the notices for a request at this moment. */
function planNotices(agent: AgentRuntime, state: AgentState): Notices {
  const { role, account } = agent;
  const remaining = (): Remaining => computeRemainingAtStep(state, account.remaining());
  const isLast = role.wrapUp !== undefined && (remaining().steps ?? Infinity) <= 1;
  return {
    wrapUp: isLast ? getWrapUpText(agent) : undefined,
    budget: createBudgetNotice(role, remaining),
  };
}

function getWrapUpText({ role, nativeOutputSchema }: AgentRuntime): string | undefined {
  const { wrapUp, hasOutput } = role;
  if (wrapUp !== true) return wrapUp;
  if (!hasOutput) return WRAP_UP.answer;
  return nativeOutputSchema === undefined ? WRAP_UP.finish : WRAP_UP.result;
}

const WRAP_UP = {
  answer:
    "This is your last step: you cannot use tools any more. Answer now with what you have, and state what is left undone.",
  finish: `This is your last step: call ${FINISH_TOOL_NAME} now with what you have. You cannot use other tools any more.`,
  result:
    "This is your last step: you cannot use tools any more. Give your result now, with what you have.",
};

/**
 * Returns the request with its notices, after its lease was granted. `planned` are the notices
 * computed before the lease.
 */
function addNotices(
  { role, account, model }: AgentRuntime,
  state: AgentState,
  request: ModelRequest,
  { lease, planned }: { readonly lease: Lease; readonly planned: Notices },
) {
  const remaining = (): Remaining => computeRemainingAtStep(state, account.remainingWith(lease));
  const isClosing = planned.wrapUp !== undefined && lease.lastStep !== undefined;
  const notices: Notices = {
    wrapUp: isClosing ? planned.wrapUp : undefined,
    budget: createBudgetNotice(role, remaining),
  };
  const messages = BUILT_IN_SECTIONS.flatMap(({ name }): readonly Message[] => {
    const text = notices[name];
    return text === undefined ? [] : [{ role: "user", text, origin: "notice" }];
  });
  const open = isClosing ? createClosingRequest(model, request) : request;
  return {
    request:
      messages.length === 0
        ? open
        : deepFreeze({ ...open, messages: [...open.messages, ...messages] }),
    tokens: estimateNoticeTokens(notices),
    isClosing,
  };
}

/**
 * Returns the request of the last step that the budget allows, in which the model can only finish.
 * If the model obeys a tool choice, all tools stay listed, so that the provider's cache remains
 * valid.
 */
function createClosingRequest({ supportsToolChoice }: Model, request: ModelRequest): ModelRequest {
  const { toolChoice: _choice, ...rest } = request;
  const finish = request.tools.filter(({ name }) => name === FINISH_TOOL_NAME);
  if (supportsToolChoice !== true || request.tools.length === 0)
    return Object.freeze({ ...rest, tools: finish });
  const toolChoice = finish.length === 0 ? "none" : { toolName: FINISH_TOOL_NAME };
  return Object.freeze({ ...rest, toolChoice });
}

/**
 * Returns the line about the remaining budget, for roles that show it. `undefined` if nothing is
 * limited.
 */
function createBudgetNotice(
  { showBudget }: AgentRole,
  remaining: () => Remaining,
): string | undefined {
  return showBudget ? formatBudgetLine(remaining()) : undefined;
}

/**
 * Additional tokens for a line that grows while its request waits for a lease, such as from $0.01
 * to $0.0099.
 */
const LINE_SLACK_TOKENS = 2;

/** Returns the maximum number of tokens that the notices add to a request. */
function estimateNoticeTokens({ wrapUp, budget }: Notices): number {
  const line = budget === undefined ? 0 : estimateMessageTokens(budget) + LINE_SLACK_TOKENS;
  return line + (wrapUp === undefined ? 0 : estimateMessageTokens(wrapUp));
}

/**
 * Runs the queue. Once all results are known, they are added as messages in the order of the queue.
 * Paused subtasks stay in the queue.
 */
async function runQueuedSubtasks(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { subtasks } = state.log;
  const position = getStepPosition(agent, state);
  const open = subtasks.filter(({ text }) => text === undefined);
  const history = { messages: state.conversation.messages, steps: state.log.steps };
  const outcomes = await Promise.all(
    open.map((subtask) => {
      const nth = subtasks.indexOf(subtask);
      return agent.runAt({ stepId: position.stepId }, () =>
        runSubtask(agent, position, subtask, { history, nth }),
      );
    }),
  );
  const settled = subtasks.map((subtask) => {
    const outcome = outcomes[open.indexOf(subtask)];
    return outcome?.type === "returned" ? setSubtaskOutcome(subtask, outcome.value) : subtask;
  });
  if (settled.some(({ text }) => text === undefined)) {
    const queued = recordSubtasks(state, settled);
    const broken = outcomes.find((outcome) => outcome.type === "failed");
    return broken === undefined ? queued : failWith(agent, queued, broken.error);
  }
  const messages = settled.map(reportSubtask);
  for (const { text } of messages)
    agent.record(
      { type: "message.delivered", origin: "subtask", characters: text.length },
      position,
    );
  return addMessages(recordSubtasks(state, []), messages);
}

/**
 * Runs a delegation that has no model call. It does not count as an effect of the agent, so that
 * the agent's clock pauses while the subagent waits for an answer. Never rejects.
 */
async function runSubtask(
  agent: AgentRuntime,
  position: EffectPosition,
  { request, childId }: Subtask,
  { history, nth }: { readonly history: ParentHistory; readonly nth: number },
): Promise<Consulted<SpawnOutcome>> {
  const { stepId } = position;
  try {
    const value =
      childId === undefined
        ? await spawnWithHooks({ agent, stepNumber: position.stepNumber }, request, {
            stepId,
            history,
            delegatedRoles: [],
            nth,
          })
        : await agent.run.supervisor.resume(agent, childId, { stepId });
    return { type: "returned", value };
  } catch (cause) {
    return classifyUserCodeError(agent, cause);
  }
}

function setSubtaskOutcome({ request }: Subtask, outcome: SpawnOutcome): Subtask {
  return outcome.type === "paused"
    ? { request, childId: outcome.childId }
    : { request, text: describeDelegation(outcome) };
}

function reportSubtask({ request, text = "" }: Subtask): UserMessage {
  const heading = `A subtask that was queued for ${request.role} has ended. Its task: ${formatContent(request.task)}`;
  return { role: "user", origin: "subtask", text: `${heading}\nIts result: ${text}` };
}
