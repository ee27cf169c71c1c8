// Events on spans: what happened within one, at a moment. Pure, and as silent as span-attributes.ts
// about what was written by users, models, tools and those who answer questions.

import type { Attributes } from "@opentelemetry/api";

import type { EventBody } from "../../protocol/event.ts";
import { kindAnsweredBy } from "../../protocol/question.ts";
import type { SpanMoment, SpanNote } from "../../protocol/span-tree.ts";
import { ERROR_TYPE, ESPALIER, GEN_AI, OUTCOME, SPAN_EVENT } from "../gen-ai-attributes.ts";
import { refusalAttributes } from "./span-attributes.ts";

/** An event on a span, as OpenTelemetry has them. */
export interface SpanEvent {
  readonly name: string;
  readonly attributes: Attributes;
}

/**
 * The span event for something that happened within a span; undefined for what the event log alone
 * keeps.
 */
export function spanEventOf(body: SpanNote, moment: SpanMoment): SpanEvent | undefined {
  switch (body.type) {
    case "model.retried":
    case "tool.retried":
      return { name: SPAN_EVENT.retry, attributes: retryAttributes(body) };
    case "budget.denied":
      return { name: SPAN_EVENT.budgetDenied, attributes: denialAttributes(body) };
    case "budget.threshold_reached":
      return { name: SPAN_EVENT.budgetThreshold, attributes: thresholdAttributes(body) };
    case "budget.granted":
      return { name: SPAN_EVENT.budgetGranted, attributes: grantAttributes(body) };
    case "question.asked":
      return { name: SPAN_EVENT.approvalRequested, attributes: requestAttributes(body) };
    case "question.answered":
      return { name: SPAN_EVENT.approvalDecided, attributes: decisionAttributes(body, moment) };
    case "conversation.compacted":
      return { name: SPAN_EVENT.compacted, attributes: compactionAttributes(body) };
    case "message.delivered":
      return { name: SPAN_EVENT.messageReceived, attributes: messageAttributes(body) };
    case "signal.raised":
      return body.signal.reason.code === OUTCOME.cancelled
        ? { name: SPAN_EVENT.cancelled, attributes: signalAttributes(body) }
        : undefined;
    default:
      return undefined;
  }
}

/** A subtask that was refused has no call and no span for it. */
export function subtaskEventOf(body: SpanNote): SpanEvent | undefined {
  if (body.type !== "subagent.refused") return undefined;
  return { name: SPAN_EVENT.spawnRefused, attributes: refusalAttributes(body) };
}

function retryAttributes(body: EventBody<"model.retried" | "tool.retried">): Attributes {
  return {
    [ESPALIER.retryAttempt]: body.attempt,
    [ESPALIER.retryDelayMs]: body.delayMs,
    [ERROR_TYPE]: body.error.code,
  };
}

function denialAttributes(body: EventBody<"budget.denied">): Attributes {
  return {
    [ESPALIER.deniedAxis]: body.axis,
    [ESPALIER.deniedAccountPath]: body.accountPath,
    [ESPALIER.deniedMaximum]: body.maximum,
    [ESPALIER.deniedSpent]: body.spent,
    [ESPALIER.deniedAsked]: body.asked,
    ...(body.kept === undefined ? {} : { [ESPALIER.deniedKept]: body.kept }),
  };
}

function thresholdAttributes(body: EventBody<"budget.threshold_reached">): Attributes {
  return {
    [ESPALIER.thresholdAxis]: body.axis,
    [ESPALIER.thresholdAccountPath]: body.accountPath,
    [ESPALIER.thresholdReached]: body.threshold,
    [ESPALIER.thresholdSpent]: body.spent,
    [ESPALIER.thresholdMaximum]: body.maximum,
  };
}

/** Not who granted it: that is the caller's text. */
function grantAttributes({ accountPath, budget }: EventBody<"budget.granted">): Attributes {
  return {
    [ESPALIER.grantedAccountPath]: accountPath,
    [ESPALIER.grantedAxes]: Object.keys(budget),
  };
}

/** Only calls that fit a tool are asked about, so its name is nothing that a model invented. */
export function requestAttributes({ question }: EventBody<"question.asked">): Attributes {
  return {
    [ESPALIER.approvalId]: question.questionId,
    [ESPALIER.approvalKind]: question.kind,
    [GEN_AI.toolName]: question.toolName,
    [GEN_AI.toolCallId]: question.callId,
  };
}

/** A decision without its words: for an event, and for a span of its own. */
export function decisionAttributes(
  body: EventBody<"question.answered">,
  { scope }: SpanMoment,
): Attributes {
  return {
    [ESPALIER.approvalId]: body.questionId,
    [ESPALIER.approvalKind]: kindAnsweredBy(body.answer),
    [ESPALIER.approvalDecision]: body.answer,
    [ESPALIER.approvalDecidedByKind]: body.by,
    [ESPALIER.approvalWaitMs]: body.waitedMs,
    [GEN_AI.toolName]: body.toolName,
    [GEN_AI.toolCallId]: scope.callId ?? undefined,
  };
}

function compactionAttributes(body: EventBody<"conversation.compacted">): Attributes {
  return {
    [ESPALIER.compactionMessagesBefore]: body.messagesBefore,
    [ESPALIER.compactionMessagesAfter]: body.messagesAfter,
    [ESPALIER.compactionTokensBefore]: body.tokensBefore,
    [ESPALIER.compactionTokensAfter]: body.tokensAfter,
  };
}

function messageAttributes(body: EventBody<"message.delivered">): Attributes {
  return {
    [ESPALIER.messageOrigin]: body.origin,
    [ESPALIER.messageCharacters]: body.characters,
    [ESPALIER.messageFromAgentId]: body.fromAgentId,
  };
}

function signalAttributes({ signal }: EventBody<"signal.raised">): Attributes {
  return { [ESPALIER.signalSource]: signal.source };
}
