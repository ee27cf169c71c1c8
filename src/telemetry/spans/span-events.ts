// Converts events to span events. Pure. Excludes text from users, models, tools and approvers, like
// span-attributes.ts.

import type { Attributes } from "@opentelemetry/api";

import type { EventBody } from "../../protocol/event.ts";
import { getAnsweredKind } from "../../protocol/question.ts";
import type { SpanMoment, SpanNote, SpanOpening } from "../../protocol/span-tree.ts";
import {
  ERROR_TYPE,
  ESPALIER,
  GEN_AI,
  OUTCOME,
  SPAN_EVENT,
  LINK,
  OPERATION,
  buildSpanName,
} from "../gen-ai-attributes.ts";
import { buildRefusalAttributes, getKnownToolName } from "./span-attributes.ts";
import { type OpenSpan, type SideSpan, toLink } from "./span-maker.ts";

/** Returns the span event. `undefined` for an event that only the event log contains. */
export function toSpanEvent(body: SpanNote, moment: SpanMoment): SpanEvent | undefined {
  switch (body.type) {
    case "model.retried":
    case "tool.retried":
      return createSpanEvent(SPAN_EVENT.retry, {
        [ESPALIER.retryAttempt]: body.attempt,
        [ESPALIER.retryDelayMs]: body.delayMs,
        [ESPALIER.retryNextModel]: "nextModel" in body ? body.nextModel?.model : undefined,
        [ERROR_TYPE]: body.error.code,
      });
    case "budget.refused":
      return createSpanEvent(SPAN_EVENT.budgetRefused, {
        [ESPALIER.refusedAxis]: body.axis,
        [ESPALIER.refusedAccountPath]: body.accountPath,
        [ESPALIER.refusedMaximum]: body.maximum,
        [ESPALIER.refusedSpent]: body.spent,
        [ESPALIER.refusedRequested]: body.requested,
        [ESPALIER.refusedReserve]: body.reserve,
      });
    case "budget.threshold_reached":
      return createSpanEvent(SPAN_EVENT.budgetThreshold, {
        [ESPALIER.thresholdAxis]: body.axis,
        [ESPALIER.thresholdAccountPath]: body.accountPath,
        [ESPALIER.thresholdReached]: body.threshold,
        [ESPALIER.thresholdSpent]: body.spent,
        [ESPALIER.thresholdMaximum]: body.maximum,
      });
    case "budget.granted":
      // Without the name of the granting person, which is text of the caller.
      return createSpanEvent(SPAN_EVENT.budgetGranted, {
        [ESPALIER.grantedAccountPath]: body.accountPath,
        [ESPALIER.grantedAxes]: Object.keys(body.budget),
      });
    case "question.asked":
      return createSpanEvent(SPAN_EVENT.approvalRequested, buildRequestAttributes(body, moment));
    case "question.answered":
      return createSpanEvent(SPAN_EVENT.approvalDecided, buildDecisionAttributes(body, moment));
    case "conversation.compacted":
      return createSpanEvent(SPAN_EVENT.compacted, {
        [ESPALIER.compactionMessagesBefore]: body.messagesBefore,
        [ESPALIER.compactionMessagesAfter]: body.messagesAfter,
        [ESPALIER.compactionTokensBefore]: body.tokensBefore,
        [ESPALIER.compactionTokensAfter]: body.tokensAfter,
      });
    case "message.delivered":
      return createSpanEvent(SPAN_EVENT.messageReceived, {
        [ESPALIER.messageOrigin]: body.origin,
        [ESPALIER.messageCharacters]: body.characters,
        [ESPALIER.messageFromAgentId]: body.fromAgentId,
      });
    case "signal.raised":
      if (body.signal.reason.code !== OUTCOME.cancelled) return undefined;
      return createSpanEvent(SPAN_EVENT.cancelled, { [ESPALIER.signalSource]: body.signal.source });
    case "run.resumed":
      return createSpanEvent(SPAN_EVENT.recovered, {
        [ESPALIER.runLostCalls]: body.recovery?.lostCallCount,
      });
    case "subagent.refused":
      // A refused subtask has neither a call nor a span.
      if (moment.scope.callId !== null) return undefined;
      return createSpanEvent(SPAN_EVENT.spawnRefused, buildRefusalAttributes(body));
    default:
      return undefined;
  }
}

interface SpanEvent {
  readonly name: string;
  readonly attributes: Attributes;
}

function createSpanEvent(name: string, attributes: Attributes): SpanEvent {
  return { name, attributes };
}

/**
 * Returns the attributes of a question. Its tool name is known, because only valid calls lead to
 * questions.
 */
function buildRequestAttributes(
  { questionId, kind, toolName }: EventBody<"question.asked">,
  { scope }: SpanMoment,
): Attributes {
  return {
    [ESPALIER.approvalId]: questionId,
    [ESPALIER.approvalKind]: kind,
    [GEN_AI.toolName]: toolName,
    [GEN_AI.toolCallId]: scope.callId ?? undefined,
  };
}

/** Returns the attributes of an answer without its text, and without the name of its author. */
function buildDecisionAttributes(
  body: EventBody<"question.answered">,
  { scope }: SpanMoment,
): Attributes {
  return {
    [ESPALIER.approvalId]: body.questionId,
    [ESPALIER.approvalKind]: getAnsweredKind(body.answer),
    [ESPALIER.approvalDecision]: body.answer,
    [ESPALIER.approvalDecidedByKind]: body.source,
    [ESPALIER.approvalWaitMs]: body.waitedMs,
    [GEN_AI.toolName]: body.toolName,
    [GEN_AI.toolCallId]: scope.callId ?? undefined,
  };
}

// Separate spans for single events: a question, its answer, a wait. They start and end at once, so
// that a trace shows them while the agent still waits. The event itself belongs to the span of the
// agent. Pure.

/** Minimum length of a wait with its own span. A shorter wait is only an attribute. */
const SHORTEST_WAIT_MS = 10;
/**
 * Precision of a wait: it is counted in whole milliseconds, so it may have started up to 1 ms
 * later.
 */
const WAIT_IS_RIGHT_TO_US = 1_000;
const APPROVAL = "approval";
const QUEUE_WAIT = "queue_wait";
const STATE = { requested: "requested", decided: "decided" } as const;

/** Returns the separate span for an event. `sinceUs` is the start of the surrounding span. */
export function toSideSpan(
  body: SpanNote,
  moment: SpanMoment,
  sinceUs: number,
): SideSpan | undefined {
  const { atUs } = moment;
  // Viewers report a span without length as an error, so it lasts 1 microsecond.
  const momentary = { startUs: atUs, endUs: atUs + 1 };
  switch (body.type) {
    case "question.asked":
      return {
        kind: APPROVAL,
        name: buildSpanName(APPROVAL, body.toolName),
        ...momentary,
        attributes: {
          ...buildRequestAttributes(body, moment),
          [ESPALIER.approvalState]: STATE.requested,
        },
      };
    case "question.answered":
      return describeApproval(body, moment, sinceUs);
    case "budget.reserved":
      return toWaitSpan("budget", "budget", body.waitedMs, { sinceUs, untilUs: atUs });
    case "budget.settled":
      return body.lostCall && { ...describeLostCall(body, body.lostCall), ...momentary };
    default:
      return undefined;
  }
}

/** Describes a model call without a known end. It has no other span that shows its estimate. */
function describeLostCall(
  { usage: lostUsage }: EventBody<"budget.settled">,
  { provider, model }: NonNullable<EventBody<"budget.settled">["lostCall"]>,
): Omit<SideSpan, "startUs" | "endUs"> {
  const outcome = OUTCOME.crashed;
  const attributes = {
    [GEN_AI.operation]: OPERATION.model,
    [GEN_AI.provider]: provider,
    [GEN_AI.requestModel]: model,
    [ESPALIER.outcome]: outcome,
  };
  const name = buildSpanName(OPERATION.model, model);
  return { kind: "lost_call", name, lostUsage, outcome, attributes };
}

export function isLongWait(waitedMs: number): boolean {
  return waitedMs > SHORTEST_WAIT_MS;
}

/** End of a wait, and start of the surrounding span. */
interface WaitBounds {
  readonly sinceUs: number;
  readonly untilUs: number;
}

/**
 * Returns the span for the time that a call waited before it started. `opening` is its first event.
 */
export function findWaitBefore(
  opening: SpanOpening,
  waitedMs: number,
  bounds: WaitBounds,
): SideSpan | undefined {
  if (opening.type === "model.requested")
    return toWaitSpan("model", opening.model, waitedMs, bounds);
  const isTool = opening.type === "tool.started";
  return isTool ? toWaitSpan("tool", getKnownToolName(opening), waitedMs, bounds) : undefined;
}

/**
 * Returns the span from the question to the answer, clipped to the surrounding span: a pause does
 * not belong to the trace.
 */
function describeApproval(
  body: EventBody<"question.answered">,
  moment: SpanMoment,
  sinceUs: number,
): SideSpan {
  return {
    kind: APPROVAL,
    name: buildSpanName(APPROVAL, body.toolName),
    ...clampWait(body.waitedMs, { sinceUs, untilUs: moment.atUs }),
    attributes: {
      ...buildDecisionAttributes(body, moment),
      [ESPALIER.approvalState]: STATE.decided,
    },
    ...(body.answer === OUTCOME.denied ? { outcome: OUTCOME.denied } : {}),
  };
}

/**
 * Returns a span for the whole wait, if it began before the surrounding span, which means that the
 * run was paused. It belongs in a separate trace, where its length is visible and does not shrink
 * all other bars to a pixel.
 */
export function findWaitAcrossPause(
  body: SpanNote,
  moment: SpanMoment,
  { startedAtUs: sinceUs, span }: OpenSpan,
): SideSpan | undefined {
  if (body.type !== "question.answered") return undefined;
  const { waitedMs } = body;
  if (moment.atUs - Math.round(waitedMs * 1_000) + WAIT_IS_RIGHT_TO_US > sinceUs) return undefined;
  const side = describeApproval(body, moment, -Infinity);
  const answer = span.spanContext();
  const attributes = { ...side.attributes, [ESPALIER.answeredInTraceId]: answer.traceId };
  return { ...side, kind: "wait", attributes, links: [toLink(LINK.answeredIn, answer)] };
}

/**
 * Returns the span of a wait. `queue` is the awaited resource, and `target` the model or tool that
 * needs it.
 */
function toWaitSpan(
  queue: "budget" | "model" | "tool",
  target: string,
  waitedMs: number,
  bounds: WaitBounds,
): SideSpan | undefined {
  if (!isLongWait(waitedMs)) return undefined;
  return {
    kind: QUEUE_WAIT,
    name: buildSpanName(QUEUE_WAIT, target),
    ...clampWait(waitedMs, bounds),
    attributes: {
      [ESPALIER.queueName]: queue,
      [ESPALIER.queueWaitMs]: waitedMs,
      [GEN_AI.toolName]: queue === "tool" ? target : undefined,
    },
  };
}

/** Returns the bounds of a wait, clipped to the surrounding span. */
function clampWait(
  waitedMs: number,
  { sinceUs, untilUs }: WaitBounds,
): Pick<SideSpan, "startUs" | "endUs"> {
  const startUs = Math.max(sinceUs, Math.min(untilUs - 1, untilUs - Math.round(waitedMs * 1_000)));
  return { startUs, endUs: untilUs };
}
