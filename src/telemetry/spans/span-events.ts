// Events on spans: what happened within one, at a moment. Pure, and without anything that users,
// models, tools or approvers wrote, like span-attributes.ts.

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

/**
 * The span event for something that happened within a span; undefined for what the event log alone
 * keeps.
 */
export function toSpanEvent(
  body: SpanNote,
  moment: SpanMoment,
): ReturnType<typeof createSpanEvent> | undefined {
  switch (body.type) {
    case "model.retried":
    case "tool.retried":
      return createSpanEvent(SPAN_EVENT.retry, {
        [ESPALIER.retryAttempt]: body.attempt,
        [ESPALIER.retryDelayMs]: body.delayMs,
        [ESPALIER.retryNextModel]: "nextModel" in body ? body.nextModel?.model : undefined,
        [ERROR_TYPE]: body.error.code,
      });
    case "budget.denied":
      return createSpanEvent(SPAN_EVENT.budgetDenied, {
        [ESPALIER.deniedAxis]: body.axis,
        [ESPALIER.deniedAccountPath]: body.accountPath,
        [ESPALIER.deniedMaximum]: body.maximum,
        [ESPALIER.deniedSpent]: body.spent,
        [ESPALIER.deniedRequested]: body.requested,
        [ESPALIER.deniedReserve]: body.reserve,
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
      // Not who granted it: that is the caller's text.
      return createSpanEvent(SPAN_EVENT.budgetGranted, {
        [ESPALIER.grantedAccountPath]: body.accountPath,
        [ESPALIER.grantedAxes]: Object.keys(body.budget),
      });
    case "question.asked":
      return createSpanEvent(SPAN_EVENT.approvalRequested, buildRequestAttributes(body));
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
      // A subtask that was refused has no call and no span for it.
      if (moment.scope.callId !== null) return undefined;
      return createSpanEvent(SPAN_EVENT.spawnRefused, buildRefusalAttributes(body));
    default:
      return undefined;
  }
}

function createSpanEvent(name: string, attributes: Attributes) {
  return { name, attributes };
}

/** Only calls that fit a tool are asked about, so its name is nothing that a model invented. */
function buildRequestAttributes({ question }: EventBody<"question.asked">): Attributes {
  return {
    [ESPALIER.approvalId]: question.questionId,
    [ESPALIER.approvalKind]: question.kind,
    [GEN_AI.toolName]: question.toolName,
    [GEN_AI.toolCallId]: question.callId,
  };
}

/** A decision without its words: for an event, and for a span of its own. */
function buildDecisionAttributes(
  body: EventBody<"question.answered">,
  { scope }: SpanMoment,
): Attributes {
  return {
    [ESPALIER.approvalId]: body.questionId,
    [ESPALIER.approvalKind]: getAnsweredKind(body.answer),
    [ESPALIER.approvalDecision]: body.answer,
    [ESPALIER.approvalDecidedByKind]: body.by,
    [ESPALIER.approvalWaitMs]: body.waitedMs,
    [GEN_AI.toolName]: body.toolName,
    [GEN_AI.toolCallId]: scope.callId ?? undefined,
  };
}

// Spans of their own for what one event records: a question, its answer, a wait. They begin and end at once, so that a trace shows
// them while the agent still waits; the event itself belongs to the span of the agent that asked or waited. Pure.

/** A wait that is shorter is an attribute of the span that waited, and no span. */
const SHORTEST_WAIT_MS = 10;
/** A wait is counted in whole milliseconds, so it may have begun up to one later than its length. */
const WAIT_IS_RIGHT_TO_US = 1_000;
const APPROVAL = "approval";
const QUEUE_WAIT = "queue_wait";
const STATE = { requested: "requested", decided: "decided" } as const;

/** The span for something that happened within the span that began at `sinceUs`. */
export function toSideSpan(
  body: SpanNote,
  moment: SpanMoment,
  sinceUs: number,
): SideSpan | undefined {
  const { atUs } = moment;
  // A viewer takes a span without length for an error: the shortest lasts a microsecond.
  const momentary = { startUs: atUs, endUs: atUs + 1 };
  switch (body.type) {
    case "question.asked":
      return {
        kind: APPROVAL,
        name: buildSpanName(APPROVAL, body.question.toolName),
        ...momentary,
        attributes: { ...buildRequestAttributes(body), [ESPALIER.approvalState]: STATE.requested },
      };
    case "question.answered":
      return describeApproval(body, moment, sinceUs);
    case "budget.reserved":
      return toWaitSpan("budget", "budget", body.waitedMs, { sinceUs, untilUs: atUs });
    case "budget.settled": {
      // A call whose end is unknown: its estimate stands here, since it has no span of its own (X18).
      const { lostCall, usage } = body;
      if (lostCall === undefined) return undefined;
      const attributes = {
        [GEN_AI.operation]: OPERATION.model,
        [GEN_AI.provider]: lostCall.provider,
        [GEN_AI.requestModel]: lostCall.model,
        [ESPALIER.outcome]: OUTCOME.crashed,
      };
      const name = buildSpanName(OPERATION.model, lostCall.model);
      const outcome = OUTCOME.crashed;
      return { kind: "lost_call", name, ...momentary, lostUsage: usage, outcome, attributes };
    }
    default:
      return undefined;
  }
}

export function isLongWait(waitedMs: number): boolean {
  return waitedMs > SHORTEST_WAIT_MS;
}

/** When a wait ended, and when the span began below which it is shown. */
interface WaitBounds {
  readonly sinceUs: number;
  readonly untilUs: number;
}

/** The span for the time that a call waited for its turn before it began. `opening`: how it began. */
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

/** From the question on, as far as it was asked within the same span: a pause is no part of its trace. */
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
 * The whole of a wait that began before the span in which it was answered, which is after a pause: for a trace of its own, where it
 * is found by its length and makes no other bar a pixel wide.
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

/** `queue`: what was waited for. `target`: for whose sake. */
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

/** A wait that ended, as far as it lies within the span around it. */
function clampWait(
  waitedMs: number,
  { sinceUs, untilUs }: WaitBounds,
): Pick<SideSpan, "startUs" | "endUs"> {
  const startUs = Math.max(sinceUs, Math.min(untilUs - 1, untilUs - Math.round(waitedMs * 1_000)));
  return { startUs, endUs: untilUs };
}
