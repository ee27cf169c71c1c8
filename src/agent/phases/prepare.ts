// prepare: builds the request, counts its tokens and reserves budget. Most steps only wait for the
// lease; other work before a model call is in make-ready.ts.

import { countInputTokens, estimateMessages } from "../../model/count-tokens.ts";
import { ephemeralAtEnd } from "../../model/request-prefix.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { EffectPosition } from "../agent-identity.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { NO_PREFIX, stepPosition, type AgentState } from "../agent-state.ts";
import type { Lease } from "../../budget/lease.ts";
import { errorRecord } from "../error-record.ts";
import { addTask, mustNotCallModel, type Prepared, type PreparedCall } from "../life-cycle.ts";
import { noteReserved, reserve } from "../model-call.ts";
import { BUILT_IN_SECTIONS } from "../request-sections.ts";
import { addSignal, failWith, budgetSignal } from "../stop-requests.ts";
import { addWaitedTime } from "../transition.ts";
import { plainRequest, type Assembled, hookedRequest } from "./assemble-request.ts";
import { deliverMessages, withMessages, makeReady } from "./make-ready.ts";
import type { ReadyState, SectionMessages } from "./make-sections.ts";
import { noticesNow, noticeTokens, withNotices, type Notices } from "./notices.ts";

/** Builds the request of the next step and reserves its budget. No call: the step must not start. */
export async function prepare(agent: AgentRuntime, state: AgentState): Promise<Prepared> {
  // Awaited in any case: agents that are started together all begin before the first of them asks for its lease.
  const ready: ReadyState = await (isReady(agent, state)
    ? { state: state.log.isBriefed ? state : addTask(state, agent.facts.task) }
    : makeReady(agent, state));
  if (mustNotCallModel(agent, ready.state) || ready.state.log.subtasks.length > 0)
    return { state: ready.state, call: undefined };
  const messages = agent.mailbox?.takeMessages() ?? [];
  const hasMessages = messages.length > 0;
  const shown = hasMessages ? withMessages(ready.state, messages) : ready.state;
  const plain = plainOrFailed(agent, shown, ready.sections);
  const isHooked = "request" in plain && agent.hooks.points.has("beforeModel");
  const assembled = isHooked ? await hookedRequest(agent, shown, plain) : plain;
  if (!("request" in assembled)) return { state: assembled, call: undefined };
  const prepared = await reserveCall(agent, ready.state, assembled);
  return prepared.call === undefined || !hasMessages
    ? prepared
    : deliverMessages(agent, prepared, messages);
}

/** True if nothing has to be done before the request but to put the task into the history. */
function isReady({ role, hooks, identity, retention }: AgentRuntime, { log }: AgentState): boolean {
  const isAsked =
    role.stopWhen.length > 0 || (identity.depth === 0 && hooks.points.has("userInput"));
  return (
    (log.isBriefed || (!isAsked && retention === undefined)) &&
    log.subtasks.length === 0 &&
    !log.isAwaiting &&
    role.compaction === undefined &&
    role.sections.length === BUILT_IN_SECTIONS.length
  );
}

/** A filter that breaks fails the agent, and what the phase has done so far stays. */
function plainOrFailed(
  agent: AgentRuntime,
  state: AgentState,
  sections: SectionMessages | undefined,
): Assembled | AgentState {
  try {
    return plainRequest(agent, state, sections);
  } catch (cause) {
    return failWith(agent, state, errorRecord(cause));
  }
}

/** A request that would start over a limit is never sent (R20); the refusal says which limit, whose, and where it stands. */
async function reserveCall(
  agent: AgentRuntime,
  state: AgentState,
  assembled: Assembled,
): Promise<Prepared> {
  const { role } = agent;
  const position = stepPosition(agent, state);
  const notices =
    role.wrapUp !== undefined || role.showBudget ? noticesNow(agent, state) : undefined;
  const noticed = notices === undefined ? 0 : noticeTokens(notices);
  const { request, isFaithful, ephemeral } = assembled;
  const prefix = isFaithful ? state.conversation.prefix : NO_PREFIX;
  const counted = countInputTokens(
    agent.model,
    request,
    prefix,
    isFaithful ? ephemeral : undefined,
  );
  const inputTokens = counted.tokens + noticed;
  const { strategy, maxInputTokens = Infinity } = role.compaction ?? {};
  if (strategy === "error" && inputTokens > maxInputTokens) {
    const error = tooLong(inputTokens, maxInputTokens);
    return { state: failWith(agent, state, error), call: undefined };
  }
  const outcome = await reserve(agent, position, inputTokens, role.maxOutputTokens);
  noteReserved(agent, position, outcome);
  const { waitedMs } = outcome;
  const waited = waitedMs === 0 ? state : addWaitedTime(state, waitedMs);
  if (outcome.type === "cancelled") return { state: waited, call: undefined };
  if (outcome.type === "refused")
    return { state: addSignal(agent, waited, budgetSignal(outcome.refusal)), call: undefined };
  const { lease } = outcome;
  const isEstimated = counted.isEstimated || noticed > 0;
  return {
    state: waited,
    call: preparedCall(agent, waited, assembled, { position, lease, notices, isEstimated }),
  };
}

function tooLong(inputTokens: number, maxInputTokens: number): ErrorRecord {
  return {
    code: "model_context_overflow",
    message: `Expected a request of at most ${maxInputTokens} input tokens (compaction.maxInputTokens), got ${inputTokens}. Raise it, or choose the strategy truncate or summarize.`,
    data: { inputTokens, maxInputTokens },
  };
}

/** The lease of a request, and what was found out about the request on the way. */
interface Reservation {
  readonly position: EffectPosition;
  readonly lease: Lease;
  /** What would stand at the end of the request, if anything does. */
  readonly notices: Notices | undefined;
  readonly isEstimated: boolean;
}

/** The call that the lease allows, with what the model reads now. */
function preparedCall(
  agent: AgentRuntime,
  state: AgentState,
  { request: draft, isFaithful, historyLength, ephemeral, tail, hiddenTools }: Assembled,
  { position, lease, notices, isEstimated }: Reservation,
): PreparedCall {
  const capped = Object.freeze({ ...draft, maxOutputTokens: lease.maxOutputTokens });
  const { request, tokens, isClosing } =
    notices === undefined
      ? { request: capped, tokens: 0, isClosing: false }
      : withNotices(agent, state, capped, { lease, planned: notices });
  const added = request.messages.length - draft.messages.length;
  return {
    effectPosition: position,
    request,
    lease,
    isFaithful: isFaithful && !isClosing,
    historyLength,
    ephemeralTokens: (ephemeral === undefined ? 0 : estimateMessages(ephemeral)) + tokens,
    isEstimated,
    ephemeralCount: added + (tail === undefined ? 0 : ephemeralAtEnd(draft.messages, tail)),
    hiddenTools,
    lastStep: isClosing ? lease.lastStep : undefined,
  };
}
