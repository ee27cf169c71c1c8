// The end of a tool call: its outcome as the model will read it, as an event tells it, and as the step keeps it.

import type { EventBody } from "../../protocol/event.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import { shortenText } from "../../tools/shorten-text.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import type { CallOutcome } from "./call-outcome.ts";

/** An outcome as the model will read it. */
export interface Formatted extends CallOutcome {
  readonly isShortened: boolean;
  /** The whole text, if it was cut. */
  readonly fullText?: string;
  /** How much of it is shown. */
  readonly shownCharacters?: number;
}

/** What a model must be able to read of a failure, however short results are to be. */
const ROOM_FOR_ADVICE = 2_000;

/** Cuts what is too long for the model; the whole is kept with the call (R111). */
export function formatted({ settings }: PlannedCall, outcome: CallOutcome): Formatted {
  const { maxResultCharacters: most } = settings;
  const isResult = outcome.type === "succeeded";
  const shortened = shortenText(outcome.text, isResult ? most : Math.max(most, ROOM_FOR_ADVICE));
  const { text, isShortened, shownCharacters } = shortened;
  return isShortened
    ? { ...outcome, text, isShortened, fullText: outcome.text, shownCharacters }
    : { ...outcome, isShortened };
}

/** What a call is, for the event that says that it began. */
export function faceOf(bound: BoundCall): Pick<EventBody<"tool.started">, "kind" | "description"> {
  return { kind: bound.tool?.kind ?? "function", description: bound.tool?.description ?? "" };
}

/** The event that says how a call ended. */
export function ended(
  toolName: string,
  outcome: Formatted,
  times: { readonly durationMs: number; readonly queuedMs: number },
): EventBody<"tool.ended"> {
  const { type, text, fullText, shownCharacters, attachments, usage } = outcome;
  const { errorCode, severity, blockedBy } = outcome;
  return {
    type: "tool.ended",
    toolName,
    outcome: type,
    success: type === "succeeded",
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(severity === undefined ? {} : { severity }),
    ...(blockedBy === undefined ? {} : { blockedBy }),
    resultCharacters: (fullText ?? text).length,
    ...(shownCharacters === undefined ? {} : { shownCharacters }),
    ...(attachments === undefined ? {} : { attachments: attachments.length }),
    ...times,
    ...(usage === undefined ? {} : { usage }),
  };
}

/** A call with its result. */
export function executed(
  { call, settings }: PlannedCall,
  startedAtMs: number,
  endedAtMs: number,
  outcome: Formatted,
): CallEnd {
  const { type, text, fullText, errorCode, causeCode, severity, blockedBy } = outcome;
  const { structured, attachments, metadata, failure, isShortened } = outcome;
  const { subtasks = [], startedIds = [], reportedIds = [] } = outcome;
  const execution: ToolExecution = {
    call,
    type,
    text,
    ...(fullText === undefined ? {} : { fullText }),
    ...(structured === undefined ? {} : { structured }),
    ...(attachments === undefined ? {} : { attachments }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(causeCode === undefined ? {} : { causeCode }),
    ...(severity === undefined ? {} : { severity }),
    ...(blockedBy === undefined ? {} : { blockedBy }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(subtasks.length === 0 ? {} : { subtasks }),
    ...(startedIds.length === 0 ? {} : { startedIds }),
    ...(reportedIds.length === 0 ? {} : { reportedIds }),
    startedAtMs,
    endedAtMs,
  };
  const isToSummarize = isShortened && settings.longResults === "summarize";
  const broken = failure === undefined ? {} : { failure };
  return { type: "executed", execution, isToSummarize, ...broken };
}
