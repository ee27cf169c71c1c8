// The outcome of a tool call as a value: a result or a failure. The outcomes of cancelled calls are in
// cancelled-calls.ts.

import type { EventBody } from "../../protocol/event.ts";
import type { TimeSpan } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { SpawnOutcome, SpawnRefusal } from "../../protocol/subagent.ts";
import {
  type ToolFailureCode,
  TOOL_FAILURES,
  type ToolErrorSeverity,
  type ToolOutcomeType,
} from "../../protocol/tool-failure.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import type { CallEnd } from "../effect-outcomes.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { omitUndefined, isRecord } from "../../kernel/json.ts";
import { completeSentence } from "../../kernel/sentence.ts";
import { describeDelegation } from "../../tools/delegation-text.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import { getErrorName, formatToolResult } from "../../tools/result-text.ts";
import { shortenText } from "../../tools/shorten-text.ts";
import { findErrorAttachments, findErrorSeverity } from "../../tools/tool-error.ts";
import { isToolTimeout } from "../../tools/tool-timeout.ts";
import { serializeError } from "../serialize-error.ts";

/** A refused spawn, in the form of the event of its call. */
export type RefusedSpawn = NonNullable<EventBody<"tool.rejected">["spawn"]>;

/** A part of a text, in UTF-16 code units. `end` is exclusive. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The parts of an outcome that `ToolExecution` stores, and the parts that only events and hooks
 * need.
 */
interface OutcomeParts extends Omit<
  ToolExecution,
  "call" | "arguments" | "isRepaired" | "type" | "startedAtMs" | "endedAtMs"
> {
  /**
   * The position of the tool's own words in the text of a failure. Only these are shortened, like a
   * result.
   */
  readonly words?: TextRange | undefined;
  /** The number of characters left of a shortened text. `fullText` is the whole text. */
  readonly shownCharacters?: number;
  /** The name of a typed error that the tool threw. */
  readonly errorName?: string | undefined;
  /** Usage of a delegated subtree. */
  readonly usage?: Usage;
  /** Set if the execution fails too: a hook broke, or the tool threw an abortive error. */
  readonly failure?: ErrorRecord;
  /** How the time of the body was spent. Absent if the tool took the whole time. */
  readonly spans?: readonly TimeSpan[];
  /** The reason for a denial, in the words of the person or code that denied it. */
  readonly reason?: string | undefined;
  /** The subagent that the call does not start. */
  readonly spawn?: RefusedSpawn;
}

interface SucceededOutcome extends OutcomeParts {
  readonly type: "succeeded";
  readonly errorCode?: undefined;
}

export interface FailedOutcome extends OutcomeParts {
  readonly type: Exclude<ToolOutcomeType, "succeeded">;
  readonly errorCode: ToolFailureCode;
  readonly severity: ToolErrorSeverity;
}

/** The outcome of a tool call: a result, or a failure. */
export type CallOutcome = SucceededOutcome | FailedOutcome;

/**
 * A delegation whose subagent is paused, with the subtasks and subagents that the call added
 * before.
 */
export type PausedChild = Extract<SpawnOutcome, { readonly type: "paused" }> &
  Pick<CallOutcome, "subtasks" | "startedAgentIds">;

/** The permission of a call. */
export type Permission =
  | {
      readonly type: "granted";
      readonly bound: OwnCall;
      /** Set if an approver or the caller approved this exact call. */
      readonly isApproved?: true;
    }
  /** `failure` is set if a hook broke. */
  | (RejectedCall & { readonly failure?: ErrorRecord })
  /** The call cannot run at present, so no question was asked. */
  | { readonly type: "unrunnable"; readonly outcome: FailedOutcome }
  | { readonly type: "cancelled" }
  | Extract<CallEnd, { readonly type: "deferred" }>;

/** The optional parts of a failure. */
type OutcomeDetails = Partial<Omit<FailedOutcome, "type" | "errorCode">>;

/** Returns a failure. The table of failures determines its severity and type from the code. */
export function failCall(
  code: ToolFailureCode,
  text: string,
  more: OutcomeDetails = {},
): FailedOutcome {
  const { outcome: type, severity } = TOOL_FAILURES[code];
  return { type, text, errorCode: code, severity, ...more };
}

/** The tool's own words, with the text around them. */
interface FailureText {
  readonly before: string;
  readonly words: string;
  readonly after?: string;
}

/** Returns a failure that contains the tool's own words. */
export function createFailedOutcome(
  code: ToolFailureCode,
  { before, words, after = "" }: FailureText,
  more: OutcomeDetails = {},
): FailedOutcome {
  const start = before.length;
  const ownRange = { start, end: start + words.length };
  return failCall(code, `${before}${words}${after}`, { words: ownRange, ...more });
}

/** The parent was asked to end or to stop meanwhile, so it starts nothing further. */
export const PARENT_ENDING: SpawnRefusal = Object.freeze({
  code: "parent_stopped",
  message: "Not started: the agent was stopped before the subagent could start.",
});

/**
 * The outcome of a call that was in progress when its process died and that must not be repeated.
 */
export const INTERRUPTED = Object.freeze(
  failCall(
    "interrupted",
    "Not repeated: the process ended during this call, so it is unknown whether the call took effect. Check that before you call it again.",
  ),
);

/** Returns the outcome of a call that does not run. */
export function createRejectedOutcome({
  code,
  text,
  by,
  reason,
  failure,
}: RejectedCall & { readonly failure?: ErrorRecord }): FailedOutcome {
  return failCall(code, text, omitUndefined({ blockedBy: by, reason, failure }));
}

/** The outcome of a delegation that starts no subagent. */
export function createRefusedOutcome(spawn: RefusedSpawn): FailedOutcome {
  const { error: refusal } = spawn;
  return failCall(refusal.code, describeDelegation({ type: "refused", refusal }), { spawn });
}

const HOOK_ERRORS: ReadonlySet<string> = new Set([
  "hook_failed",
  "invalid_hook_result",
  "hook_timeout",
]);

/**
 * Returns the outcome of a call that threw. An error thrown by a wrapper of the tool counts as
 * thrown by the tool. Any other hook that broke also fails the execution.
 */
export function createThrownOutcome(toolName: string, thrown: unknown): CallOutcome {
  try {
    return classifyThrown(toolName, thrown);
  } catch {
    // A getter of the thrown value threw.
    const words = redactSecrets(getErrorMessage(thrown));
    return createFailedOutcome("tool_error", { before: `${toolName} failed: `, words });
  }
}

function classifyThrown(toolName: string, thrown: unknown): CallOutcome {
  const isWrap = EspalierError.is(thrown) && thrown.data["point"] === "wrapToolCall";
  const cause = isWrap && thrown.code === "hook_failed" ? thrown.cause : thrown;
  if (isToolTimeout(cause)) return failCall("tool_timeout", getErrorMessage(cause));
  const severity = findErrorSeverity(cause);
  const text = buildFailureText(toolName, cause, severity);
  const errorName = readErrorKind(cause);
  if (severity !== undefined) {
    const details = omitUndefined({ errorName, attachments: findErrorAttachments(cause) });
    if (severity === "retryable") return createFailedOutcome("tool_retry", text, details);
    const failure = severity === "abortive" ? { failure: serializeToolError(cause) } : {};
    return createFailedOutcome("tool_error", text, { severity, ...failure, ...details });
  }
  return isBrokenHook(cause)
    ? createFailedOutcome("tool_error", text, {
        severity: "abortive",
        failure: serializeError(cause),
      })
    : createFailedOutcome("tool_error", text, { errorName });
}

/** True for a hook that broke. False for a tool error that uses a code of hook errors. */
function isBrokenHook(cause: unknown): boolean {
  if (!EspalierError.is(cause) || !HOOK_ERRORS.has(cause.code)) return false;
  const { point } = cause.data;
  return point === "wrapToolCall" || point === "subagentStart";
}

/**
 * Returns the text of an error for the model: the tool, the kind of error, its message without
 * secrets, and advice.
 */
function buildFailureText(
  toolName: string,
  thrown: unknown,
  severity: ToolErrorSeverity | undefined,
): FailureText {
  const message = redactSecrets(readThrownMessage(thrown));
  if (severity === undefined) {
    const kind = readErrorKind(thrown);
    const before = `${toolName} failed${kind === undefined ? "" : ` (${kind})`}: `;
    return { before, words: message };
  }
  const rawHint: unknown = EspalierError.is(thrown) && "hint" in thrown ? thrown.hint : undefined;
  const hint = typeof rawHint === "string" ? redactSecrets(rawHint) : undefined;
  const words = hint === undefined ? message : `${completeSentence(message)} ${hint}`;
  const before = `${toolName} ${HAPPENED[severity]}: `;
  return severity === "fatal"
    ? { before, words: completeSentence(words), after: " Do not make this call again." }
    : { before, words };
}

/** The verb for each severity, with the tool as its subject. */
const HAPPENED: Readonly<Record<ToolErrorSeverity, string>> = {
  retryable: "asks for a corrected call",
  fatal: "failed permanently",
  recoverable: "failed",
  abortive: "failed",
};

/** Returns the message of any thrown value, including objects that are not errors. */
function readThrownMessage(thrown: unknown): string {
  if (thrown instanceof Error || !isRecord(thrown)) return getErrorMessage(thrown);
  const { message } = thrown;
  return typeof message === "string" ? message : formatToolResult(thrown);
}

const KIND = /^[A-Za-z][\w.]{0,60}$/;

/** Returns the name of a typed error. `undefined` for a plain error and for other values. */
function readErrorKind(thrown: unknown): string | undefined {
  if (EspalierError.is(thrown)) return thrown.code;
  if (!isError(thrown)) return undefined;
  const name = getErrorName(thrown);
  return name !== "Error" && KIND.test(name) ? name : undefined;
}

/** True for an error, including errors of other realms. */
function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error || Object.prototype.toString.call(thrown) === "[object Error]";
}

/** Maximum length of a message in events and results. The step has the whole text. */
const LONGEST_MESSAGE = 4_000;

/** Returns an error of a tool as plain data, without secrets. */
export function serializeToolError(thrown: unknown): ErrorRecord {
  const known = serializeError(thrown);
  const code = EspalierError.is(thrown) ? known.code : "tool_error";
  return { ...known, code, message: shortenText(known.message, LONGEST_MESSAGE).text };
}
