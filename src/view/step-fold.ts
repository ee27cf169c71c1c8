// Steps of an agent and their calls, as their events have left them: numbers, names and times, no content.

import { defined } from "../kernel/json.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { ToolErrorSeverity } from "../protocol/tool-error-record.ts";
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
  /** Its place in the reply, from 0. */
  readonly index: number;
  /** When it began, or was rejected, in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** What came of it; `open`: nothing yet. */
  outcome: ToolOutcomeType | "open";
  /** Why it did not succeed. `undefined` if it did, or has not ended. */
  errorCode?: string | undefined;
  /** The name of a typed error that the tool threw, for example `TypeError`. */
  errorName?: string | undefined;
  /** Why it did not succeed, at most 500 characters. Empty if content is not shown. */
  message?: string | undefined;
  /** How long it was at work, without its wait for a slot; 0 if it was rejected. `undefined` while it is open. */
  durationMs?: number | undefined;
  /** The number of the event with which it ended. `undefined` while it is open. */
  endSeq?: number | undefined;
  /** When it ended, in milliseconds since the epoch. `undefined` while it is open. */
  endedAtMs?: number | undefined;
  /** What follows from its failure for the agent. `undefined` if it succeeded or has not ended. */
  severity?: ToolErrorSeverity | undefined;
  /** The indices of the agents that it started or continued, in that order. */
  readonly children: number[];
  /** Failed attempts of a wrapper that called the tool again. */
  readonly attempts: AttemptFold[];
}

/** An attempt that failed, and did not end its step or its tool call. */
export interface AttemptFold {
  /** From 1. */
  readonly attempt: number;
  /** Why it failed. */
  readonly code: string;
  /** Why it failed, in words. Empty if content is not shown. */
  readonly message: string;
  /** Milliseconds until the next attempt. Left out: it was the last one of its model call. */
  readonly delayMs?: number;
  /** The model of a fallback that was asked next. Left out: the same one. */
  readonly nextModel?: string;
}

/** A step, of any execution. */
export interface StepFold {
  /** From 1. */
  readonly execution: number;
  /** From 1, in its execution. */
  readonly number: number;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Milliseconds since the epoch. `undefined` if it is open, or was cut off. */
  endedAtMs?: number | undefined;
  /** In the order of the reply: those that have begun, were rejected or were refused. */
  readonly calls: CallFold[];
  /** Failed attempts of its model calls, in order, without the one whose error cut it off. */
  readonly attempts: AttemptFold[];
  /** What the step consumed, retries of its model call included. `undefined` if it is not completed. */
  usage?: Usage | undefined;
  /** Why it was cut off. `undefined` if it was not. */
  error?: ErrorRecord | undefined;
}

/** Creates the record of an attempt that failed. */
export function newAttempt(
  event: EspalierEvent<"model.retried" | "model.failed" | "tool.retried">,
): AttemptFold {
  const { code, message } = event.error;
  if (event.type === "model.failed") return { attempt: event.attempts, code, message };
  const { attempt, delayMs } = event;
  const nextModel = event.type === "model.retried" ? event.nextModel?.model : undefined;
  return { attempt, code, message, delayMs, ...defined({ nextModel }) };
}

/** Records the end of a step. The attempt that cut it off is told by its error alone. */
export function endStep(
  step: StepFold,
  { atMs, usage, error }: EspalierEvent<"step.completed">,
): void {
  step.endedAtMs = atMs;
  step.usage = usage;
  step.error = error;
  if (error === undefined) return;
  const last = step.attempts.findLastIndex(
    ({ code, message, delayMs }) =>
      delayMs === undefined && code === error.code && message === error.message,
  );
  if (last !== -1) step.attempts.splice(last, 1);
}

/** Adds a call of which nothing is known but that it is there, at its place in the reply. */
export function addCall(
  { calls }: StepFold,
  at: Pick<CallFold, "callId" | "toolName" | "kind" | "index" | "startedAtMs">,
): CallFold {
  const call: CallFold = { ...at, outcome: "open", children: [], attempts: [] };
  const place = calls.findLastIndex(({ index }) => index <= call.index) + 1;
  calls.splice(place, 0, call);
  return call;
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
  call.severity = event.severity;
  call.endSeq = event.seq;
  call.endedAtMs = event.atMs;
  call.durationMs = isEnd ? event.durationMs : 0;
}
