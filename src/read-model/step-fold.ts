// Steps of an agent and their tool calls, folded from events: numbers, names and times, without
// content.

import { omitUndefined } from "../kernel/json.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import type { ToolFailure } from "../protocol/tool-error-record.ts";
import type { ToolOutcomeType } from "../protocol/tool-failure.ts";
import type { Usage } from "../protocol/usage.ts";

/**
 * Running tool call, or open question about a tool call.
 *
 * @example
 * ```ts
 * const open: readonly CallUnderWay[] = fold.root?.openCalls ?? [];
 * const tools = open.filter(({ kind }) => kind === "tool").map(({ toolName }) => toolName);
 * ```
 */
export interface CallUnderWay {
  /** Name of the called tool. */
  readonly toolName: string;
  /**
   * `tool`: the tool runs; `delegation`: the call waits for a subagent; `question`: an answer is
   * due.
   */
  readonly kind: "tool" | "delegation" | "question";
}

/**
 * Tool call of a step, without its arguments and result.
 *
 * @example
 * ```ts
 * const calls = fold.agents.flatMap(({ steps }) => steps.flatMap(({ calls }) => calls));
 * for (const { toolName, outcome, error } of calls)
 *   if (outcome === "failed") console.error(toolName, error?.code, error?.message);
 * ```
 */
export interface CallFold extends CallUnderWay {
  /** Id of the call, as the model or espalier named it. Unique within its step. */
  readonly callId: CallId;
  /** `delegation` if the call runs a subagent. */
  readonly kind: "tool" | "delegation";
  /** Position of the call in the model's reply, from 0. */
  readonly index: number;
  /** Start or rejection of the call in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Outcome of the call, or `open` if the call has not ended. */
  outcome: ToolOutcomeType | "open";
  /**
   * Error of an unsuccessful call. `undefined` if the call succeeded or is open. Its message is
   * empty if the viewer hides content.
   */
  error?: ToolFailure | undefined;
  /**
   * Running time in milliseconds, without the wait for a slot; 0 for a rejected call. `undefined`
   * while the call is open.
   */
  durationMs?: number | undefined;
  /** Number of the event that ended the call. `undefined` while the call is open. */
  endSeq?: number | undefined;
  /** End of the call in milliseconds since the epoch. `undefined` while the call is open. */
  endedAtMs?: number | undefined;
  /**
   * Indices in `RunFold.agents` of the subagents that the call started or continued.
   *
   * @example
   * ```ts
   * const [call] = fold.root?.steps[0]?.calls ?? [];
   * const started = call?.children.map((index) => fold.agents[index]?.agentPath);
   * ```
   */
  readonly children: number[];
  /** Failed attempts of a tool that `withRetries` wraps. */
  readonly attempts: AttemptFold[];
}

/**
 * Failed attempt of a model call or of a retried tool call, after which the step continued.
 *
 * @example
 * ```ts
 * for (const { attempt, code, delayMs } of fold.root?.steps.at(-1)?.attempts ?? [])
 *   console.warn(`Attempt ${attempt} failed (${code}), next one after ${delayMs ?? 0} ms`);
 * ```
 */
export interface AttemptFold {
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** Error code of the attempt. */
  readonly code: string;
  /** Error message of the attempt. Empty if the viewer hides content. */
  readonly message: string;
  /** Delay before the next attempt in milliseconds. Absent for the last attempt of a model call. */
  readonly delayMs?: number;
  /** Id of the fallback model that was called next. Absent if the model did not change. */
  readonly nextModel?: string;
}

/**
 * Step of an agent: one model call and its tool calls.
 *
 * @example
 * ```ts
 * function describeStep({ number, startedAtMs, endedAtMs, usage }: StepFold): string {
 *   if (endedAtMs === undefined) return `step ${number}: open`;
 *   return `step ${number}: ${endedAtMs - startedAtMs} ms, ${usage?.totalTokens ?? 0} tokens`;
 * }
 * ```
 */
export interface StepFold {
  /** Number of the execution, from 1. */
  readonly execution: number;
  /** Number of the step in its execution, from 1. */
  readonly number: number;
  /** Start of the step in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /**
   * End of the step in milliseconds since the epoch. `undefined` while the step is open or if it
   * was interrupted.
   */
  endedAtMs?: number | undefined;
  /** Started, rejected and refused tool calls, in the order of the reply. */
  readonly calls: CallFold[];
  /** Failed attempts of the model call, in order, without an attempt whose error ended the step. */
  readonly attempts: AttemptFold[];
  /** Fallback model that answered. Absent if the requested model answered. */
  repliedBy?: EspalierEvent<"model.replied">["repliedBy"];
  /** Usage of the step, retries included. `undefined` until the step completes. */
  usage?: Usage | undefined;
  /** Error that ended the step. `undefined` if there was none. */
  error?: ErrorRecord | undefined;
}

/** Creates an attempt from the event of its failure. */
export function createAttempt(
  event: EspalierEvent<"model.retried" | "model.failed" | "tool.retried">,
): AttemptFold {
  const { code, message } = event.error;
  if (event.type === "model.failed") return { attempt: event.attemptCount, code, message };
  const { attempt, delayMs } = event;
  const nextModel = event.type === "model.retried" ? event.nextModel?.model : undefined;
  return { attempt, code, message, delayMs, ...omitUndefined({ nextModel }) };
}

/** Records the end of a step. Removes the attempt whose error ended the step from `attempts`. */
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

/** Adds an open call at its position in the reply. */
export function addCall(
  { calls }: StepFold,
  at: Pick<CallFold, "callId" | "toolName" | "kind" | "index" | "startedAtMs">,
): CallFold {
  const call: CallFold = { ...at, outcome: "open", children: [], attempts: [] };
  const place = calls.findLastIndex(({ index }) => index <= call.index) + 1;
  calls.splice(place, 0, call);
  return call;
}

/** Records the outcome of a call. */
export function endCall(
  call: CallFold,
  event: EspalierEvent<"tool.ended" | "tool.rejected">,
): void {
  call.outcome = event.outcome;
  call.error = event.error;
  call.endSeq = event.seq;
  call.endedAtMs = event.atMs;
  call.durationMs = event.type === "tool.ended" ? event.durationMs : 0;
}
