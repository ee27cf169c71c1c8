// Steps of an agent and their calls, as their events have left them: numbers, names and times, no content.

import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { ToolOutcomeType } from "../protocol/tool-outcome.ts";
import type { Usage } from "../protocol/usage.ts";

/** A call, or a question about one, that is under way. */
export interface CallUnderWay {
  /** The tool that was called. */
  readonly toolName: string;
  /** `delegation`: it waits for a subagent; `question`: for an answer. */
  readonly kind: "tool" | "delegation" | "question";
}

/** A tool call of a step. */
export interface CallFold extends CallUnderWay {
  /** As the model named it, or as it was given one. Unique within its step. */
  readonly callId: CallId;
  /** `delegation`: it waits for a subagent. */
  readonly kind: "tool" | "delegation";
  /** When it began, or was rejected, in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** What came of it; `open`: nothing yet. */
  outcome: ToolOutcomeType | "open";
  /** Why it did not succeed. Undefined: it did, or has not ended. */
  errorCode: string | undefined;
  /** The name of a typed error that the tool threw. */
  errorName: string | undefined;
  /** Why it did not succeed, at most 500 characters. Empty if content is not shown. */
  message: string | undefined;
  /** How long it was at work, without its wait for a slot; 0 if it was rejected. Undefined: it has not ended. */
  durationMs: number | undefined;
  /** The index of the agent that it started or resumed; the first, if there are several. */
  child: number | undefined;
  /** Where its span is; -1: it is not under way. */
  span: number;
}

/** A step, of any execution. */
export interface StepFold {
  /** From 1. */
  readonly execution: number;
  /** From 1, in its execution. */
  readonly number: number;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Milliseconds since the epoch. Undefined: it is open, or was cut off. */
  endedAtMs: number | undefined;
  /** In the order in which they were first seen. */
  readonly calls: CallFold[];
  /** What the step consumed, retries of its model call included. Undefined: it is not completed. */
  usage: Usage | undefined;
  /** Why it was cut off. Undefined: it was not. */
  error: ErrorRecord | undefined;
}

/** A step that has just begun. */
export function newStep(at: Pick<StepFold, "execution" | "number" | "startedAtMs">): StepFold {
  return { ...at, endedAtMs: undefined, calls: [], usage: undefined, error: undefined };
}

/** A call of which nothing is known but that it is there. */
export function newCall(
  at: Pick<CallFold, "callId" | "toolName" | "kind" | "startedAtMs">,
): CallFold {
  const failure = { errorCode: undefined, errorName: undefined, message: undefined };
  return { ...at, ...failure, durationMs: undefined, child: undefined, outcome: "open", span: -1 };
}

/** Records how a call ended. */
export function endCall(
  call: CallFold,
  event: EspalierEvent<"tool.ended" | "tool.rejected">,
): void {
  const isEnd = event.type === "tool.ended";
  call.outcome = event.outcome;
  call.errorCode = event.errorCode;
  call.errorName = isEnd ? event.errorName : undefined;
  call.message = event.message;
  call.durationMs = isEnd ? event.durationMs : 0;
}
