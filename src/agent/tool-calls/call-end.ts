// The end of a tool call: its outcome as the model will read it, as an event tells it, and as the step keeps it.

import type { EventBody } from "../../protocol/event.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import { shortenReports } from "../../tools/shorten-reports.ts";
import { descriptorOf } from "../../tools/tool.ts";
import { shortenText, type ShortenedText } from "../../tools/shorten-text.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import type { CallOutcome, FailedOutcome, TextRange } from "./call-outcome.ts";

/** An outcome as the model will read it. */
export type Formatted<Outcome extends CallOutcome = CallOutcome> = Outcome & Shown;

interface Shown {
  readonly isShortened: boolean;
  /** The whole text, if it was cut. */
  readonly fullText?: string;
  /** How much of it is shown. */
  readonly shownCharacters?: number;
}

/** So much of what is said of a failure besides the tool's own words is shown, however short results are to be. */
const ROOM_FOR_ADVICE = 2_000;

/** Cuts what is too long for the model; the whole is kept with the call (R111). */
export function formatted<Outcome extends CallOutcome>(
  planned: PlannedCall,
  outcome: Outcome,
): Formatted<Outcome> {
  const { text, isShortened, shownCharacters } = shortened(planned, outcome);
  return isShortened
    ? { ...outcome, text, isShortened, fullText: outcome.text, shownCharacters }
    : { ...outcome, isShortened };
}

/** Of a failure the tool's own words are cut, of what a delegation gave the texts in its JSON, and anything else at its end. */
function shortened({ bound, settings }: PlannedCall, outcome: CallOutcome): ShortenedText {
  const { maxResultCharacters: most } = settings;
  const { type, text, words } = outcome;
  if (words !== undefined) return shortenWords(text, words, most);
  const isLong = text.length > most;
  const isDelegated = isLong && bound.tool?.kind === "delegation";
  const reports = isDelegated ? shortenReports(text, most) : undefined;
  const room = type === "succeeded" ? most : Math.max(most, ROOM_FOR_ADVICE);
  return reports ?? shortenText(text, room);
}

function shortenWords(text: string, { start, end }: TextRange, most: number): ShortenedText {
  const part = shortenText(text.slice(start, end), most);
  const totalCharacters = text.length;
  return {
    text: `${text.slice(0, start)}${part.text}${text.slice(end)}`,
    isShortened: part.isShortened,
    totalCharacters,
    shownCharacters: totalCharacters - part.totalCharacters + part.shownCharacters,
  };
}

/** The event that says how a call ended. */
export function ended(
  toolName: string,
  outcome: Formatted,
  times: { readonly durationMs: number; readonly queuedMs: number },
): EventBody<"tool.ended"> {
  const { type, text, fullText, shownCharacters, attachments, usage } = outcome;
  const { errorCode, severity } = outcome;
  return {
    type: "tool.ended",
    toolName,
    outcome: type,
    success: type === "succeeded",
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(severity === undefined ? {} : { severity }),
    resultCharacters: (fullText ?? text).length,
    ...(shownCharacters === undefined ? {} : { shownCharacters }),
    ...(attachments === undefined ? {} : { attachments: attachments.length }),
    ...times,
    ...(usage === undefined ? {} : { usage }),
  };
}

/** The event that says that a call does not run. */
export function rejected(
  { call, bound }: PlannedCall,
  outcome: Formatted<FailedOutcome>,
): EventBody<"tool.rejected"> {
  const { type, text, fullText, shownCharacters, errorCode, severity } = outcome;
  const { blockedBy, reason, spawn } = outcome;
  return {
    type: "tool.rejected",
    toolName: call.toolName,
    ...descriptorOf(bound.tool),
    outcome: type,
    errorCode,
    severity,
    ...(blockedBy === undefined ? {} : { blockedBy }),
    ...(reason === undefined ? {} : { reason }),
    ...(spawn === undefined ? {} : { spawn }),
    resultCharacters: (fullText ?? text).length,
    ...(shownCharacters === undefined ? {} : { shownCharacters }),
  };
}

/** A call with its result. */
export function executed(
  { call, settings }: PlannedCall,
  times: Pick<ToolExecution, "startedAtMs" | "endedAtMs">,
  outcome: Formatted,
): CallEnd {
  const { type, text, fullText, errorCode, causeCode, severity, blockedBy } = outcome;
  const { arguments: given } = outcome;
  const { structured, attachments, metadata, failure, isShortened } = outcome;
  const { subtasks = [], startedIds = [], reportedIds = [] } = outcome;
  const execution: ToolExecution = {
    call,
    ...(given === undefined ? {} : { arguments: given }),
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
    ...times,
  };
  const isToSummarize = isShortened && settings.longResults === "summarize";
  const broken = failure === undefined ? {} : { failure };
  return { type: "executed", execution, isToSummarize, ...broken };
}
