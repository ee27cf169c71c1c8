// Events on spans: what happened within one, at a moment. Pure, and without anything that users,
// models, tools or approvers wrote, like span-attributes.ts.

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
      return spanEvent(SPAN_EVENT.retry, {
        [ESPALIER.retryAttempt]: body.attempt,
        [ESPALIER.retryDelayMs]: body.delayMs,
        [ESPALIER.retryNextModel]: "nextModel" in body ? body.nextModel?.model : undefined,
        [ERROR_TYPE]: body.error.code,
      });
    case "budget.denied":
      return spanEvent(SPAN_EVENT.budgetDenied, {
        [ESPALIER.deniedAxis]: body.axis,
        [ESPALIER.deniedAccountPath]: body.accountPath,
        [ESPALIER.deniedMaximum]: body.maximum,
        [ESPALIER.deniedSpent]: body.spent,
        [ESPALIER.deniedAsked]: body.asked,
        [ESPALIER.deniedKept]: body.kept,
      });
    case "budget.threshold_reached":
      return spanEvent(SPAN_EVENT.budgetThreshold, {
        [ESPALIER.thresholdAxis]: body.axis,
        [ESPALIER.thresholdAccountPath]: body.accountPath,
        [ESPALIER.thresholdReached]: body.threshold,
        [ESPALIER.thresholdSpent]: body.spent,
        [ESPALIER.thresholdMaximum]: body.maximum,
      });
    case "budget.granted":
      // Not who granted it: that is the caller's text.
      return spanEvent(SPAN_EVENT.budgetGranted, {
        [ESPALIER.grantedAccountPath]: body.accountPath,
        [ESPALIER.grantedAxes]: Object.keys(body.budget),
      });
    case "question.asked":
      return spanEvent(SPAN_EVENT.approvalRequested, requestAttributes(body));
    case "question.answered":
      return spanEvent(SPAN_EVENT.approvalDecided, decisionAttributes(body, moment));
    case "conversation.compacted":
      return spanEvent(SPAN_EVENT.compacted, {
        [ESPALIER.compactionMessagesBefore]: body.messagesBefore,
        [ESPALIER.compactionMessagesAfter]: body.messagesAfter,
        [ESPALIER.compactionTokensBefore]: body.tokensBefore,
        [ESPALIER.compactionTokensAfter]: body.tokensAfter,
      });
    case "message.delivered":
      return spanEvent(SPAN_EVENT.messageReceived, {
        [ESPALIER.messageOrigin]: body.origin,
        [ESPALIER.messageCharacters]: body.characters,
        [ESPALIER.messageFromAgentId]: body.fromAgentId,
      });
    case "signal.raised":
      if (body.signal.reason.code !== OUTCOME.cancelled) return undefined;
      return spanEvent(SPAN_EVENT.cancelled, { [ESPALIER.signalSource]: body.signal.source });
    case "run.resumed":
      return spanEvent(SPAN_EVENT.recovered, { [ESPALIER.runLostCalls]: body.recovery?.lostCalls });
    case "subagent.refused":
      // A subtask that was refused has no call and no span for it.
      if (moment.scope.callId !== null) return undefined;
      return spanEvent(SPAN_EVENT.spawnRefused, refusalAttributes(body));
    default:
      return undefined;
  }
}

function spanEvent(name: string, attributes: Attributes): SpanEvent {
  return { name, attributes };
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
