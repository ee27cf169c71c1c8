// prepare: builds the request, counts its tokens and reserves budget. Most steps only wait for the
// lease; other work before a model call is in before-request.ts.

import { groupDigits, mismatch } from "../../kernel/argument-checks.ts";
import type { EspalierError } from "../../kernel/error.ts";
import { countInputTokens, estimateMessages } from "../../model/count-tokens.ts";
import { countEphemeralTail } from "../../model/request-prefix.ts";
import { MOST_REQUEST_BYTES } from "../../protocol/message-content.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  isRetryAfterOverflow,
  NO_PREFIX,
  getStepPosition,
  type AgentState,
} from "../agent-state.ts";
import { addTask, mustNotCallModel, type Prepared, type PreparedCall } from "../life-cycle.ts";
import type { MailboxMessage } from "../mailbox.ts";
import { requestCallLease } from "../model-call.ts";
import { BUILT_IN_SECTIONS } from "../request-sections.ts";
import { addSignal, fail, failWith, toBudgetSignal } from "../stop-requests.ts";
import { addWaitedTime } from "../transition.ts";
import { buildPlainRequest, type Assembled, applyRequestHooks } from "./assemble-request.ts";
import { runPendingWork, addMail } from "./before-request.ts";
import type { ReadyState } from "./create-sections.ts";
import { planNotices, estimateNoticeTokens, addNotices } from "./notices.ts";

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
  if (assembled.attachedBytes > MOST_REQUEST_BYTES)
    return { state: fail(agent, state, attachmentError(assembled.attachedBytes)), call: undefined };
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

function attachmentError(attached: number): EspalierError {
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
