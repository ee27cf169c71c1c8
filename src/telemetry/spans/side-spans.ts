// Spans of their own for what is told by one event: a question, its answer, a wait. They begin and end at once, so that a trace shows
// them while the agent still waits; the event itself belongs to the span of whoever asked or waited. Pure.

import type { Attributes } from "@opentelemetry/api";

import type { EventBody } from "../../protocol/event.ts";
import type { Closing, Moment, Note } from "../../protocol/span-scope.ts";
import { ESPALIER, GEN_AI, OPERATION, OUTCOME, spanName } from "../gen-ai-attributes.ts";
import { usageAttributes } from "./span-attributes.ts";
import { decisionAttributes, requestAttributes } from "./span-events.ts";

/** A span that is over when it is told. */
export interface SideSpan {
  /** Tells it from the other spans of its event. */
  readonly kind: string;
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** Default: it is about this process alone. */
  readonly isCallOut?: true;
}

/** A wait that is shorter is an attribute of whoever waited, and no span. */
const SHORTEST_WAIT_MS = 100;
const APPROVAL = "approval";
const QUEUE_WAIT = "queue_wait";
const STATE = { requested: "requested", decided: "decided" } as const;

/** The span for something that happened within the scope that began at `startedAtMs`. */
export function sideSpanOf(body: Note, moment: Moment, startedAtMs: number): SideSpan | undefined {
  switch (body.type) {
    case "question.asked":
      return asked(body, moment);
    case "question.answered":
      return answered(body, moment, startedAtMs);
    case "budget.reserved":
      return waited("budget", moment.atMs, body.waitedMs);
    case "budget.settled":
      return body.lostCall === undefined ? undefined : lost(body, body.lostCall, moment);
    default:
      return undefined;
  }
}

/** The span for the time that a call waited for its turn before it began at `startedAtMs`. */
export function waitBefore(body: Closing, startedAtMs: number): SideSpan | undefined {
  if (body.type === "tool.ended") return waited("tool", startedAtMs, body.queuedMs);
  if (body.type !== "model.replied" && body.type !== "model.failed") return undefined;
  return waited("model", startedAtMs, body.queuedMs);
}

function asked(body: EventBody<"question.asked">, { atMs }: Moment): SideSpan {
  return {
    kind: APPROVAL,
    name: spanName(APPROVAL, body.question.toolName),
    startMs: atMs,
    endMs: atMs,
    attributes: { ...requestAttributes(body), [ESPALIER.approvalState]: STATE.requested },
  };
}

/** From the question on, as far as it was asked within the same scope: a pause is no part of any trace. */
function answered(
  body: EventBody<"question.answered">,
  moment: Moment,
  startedAtMs: number,
): SideSpan {
  const { atMs } = moment;
  return {
    kind: APPROVAL,
    name: spanName(APPROVAL, body.toolName),
    startMs: Math.max(startedAtMs, atMs - body.waitedMs),
    endMs: atMs,
    attributes: { ...decisionAttributes(body, moment), [ESPALIER.approvalState]: STATE.decided },
  };
}

/** Nobody knows what became of it: its estimate stands here, since no span of its own could say it (X18). */
function lost(
  { usage }: EventBody<"budget.settled">,
  { provider, model }: NonNullable<EventBody<"budget.settled">["lostCall"]>,
  { atMs }: Moment,
): SideSpan {
  return {
    kind: "lost_call",
    name: spanName(OPERATION.model, model),
    startMs: atMs,
    endMs: atMs,
    isCallOut: true,
    attributes: {
      [GEN_AI.operation]: OPERATION.model,
      [GEN_AI.provider]: provider,
      [GEN_AI.requestModel]: model,
      [ESPALIER.outcome]: OUTCOME.crashed,
      ...usageAttributes(usage),
    },
  };
}

function waited(
  queue: "budget" | "model" | "tool",
  untilMs: number,
  waitedMs: number,
): SideSpan | undefined {
  if (waitedMs <= SHORTEST_WAIT_MS) return undefined;
  return {
    kind: QUEUE_WAIT,
    name: QUEUE_WAIT,
    startMs: untilMs - waitedMs,
    endMs: untilMs,
    attributes: { [ESPALIER.queueName]: queue, [ESPALIER.queueWaitMs]: waitedMs },
  };
}
