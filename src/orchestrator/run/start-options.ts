// Options of a run that is started, resumed or forked.

import {
  checkAmount,
  checkBoolean,
  checkCount,
  checkKeys,
  checkList,
  checkMethods,
  checkText,
  mismatch,
} from "../../kernel/check.ts";
import { parseTraceparent } from "../../kernel/trace-ids.ts";
import { type AgentRole, checkAgentRole } from "../../agent/agent-role.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import { type Budget, checkBudget } from "../../policies/budget.ts";
import type { Session } from "../sessions/session.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import { type JsonObject, deepFreeze } from "../../kernel/json.ts";
import { NotJsonError, jsonCopy } from "../../kernel/json-copy.ts";
import { JsonObjectSchema } from "../../protocol/json-value.ts";
import { type MessageContent, checkedContent } from "../../protocol/message-content.ts";
import type { Answer } from "../../protocol/question.ts";
import { checkGrant } from "../../budget/ledger-grant.ts";

/** What holds for one run. */
export interface StartOptions {
  /**
   * The id of the run, 1 to 512 characters, and neither `.` nor `..`. Once more while that run is under way here: its handle, and nothing
   * else starts; of the other options `signal` alone holds. A run of this id that the store has, and of which anything is kept, is left
   * alone: `result` rejects with `run_exists`; one of which nothing is kept yet, since its process died before, begins. To start, resume or
   * take the result of a run, whichever it is: `orchestrator.execute`. Default: one that no other run has.
   */
  readonly runId?: string;
  /** Over the whole tree, on top of the root role's own. */
  readonly budget?: Budget;
  /** Plain data for tools, checked to survive JSON; subagents inherit what the context policy hands on. */
  readonly metadata?: object;
  /**
   * Milliseconds since the epoch at which the run must have ended, next to `budget.timeMs`; no pause moves it. It becomes a duration
   * once, when a process takes the run up: a wall clock that is set afterwards changes nothing. As with `timeMs`, a tool that ignores
   * its signal is waited for `graceMs` longer.
   */
  readonly deadlineAtMs?: number;
  /** Called with each stream part of every agent, as `run.stream()` yields them. Makes model calls stream. Its promise is not awaited. */
  readonly onStreamPart?: (part: StreamPart) => void;
  /**
   * Cancels the run when it is aborted, as `run.cancel()` does; one that is aborted already cancels it before any model is called. To
   * give a run a time, use `budget.timeMs`: that limit is known before calls are made.
   */
  readonly signal?: AbortSignal;
  /** The root begins with its history, and adds to it. One run at a time. */
  readonly session?: Session;
  /**
   * What tools, hooks, guards and `instructions` are handed: services, the user on whose behalf the run works, anything. All agents of the
   * tree have this very value. It is never copied, frozen or kept, and in no event, trace, journal or paused run: give it again to continue.
   */
  readonly context?: unknown;
  /**
   * The span below which the run stands, as the header `traceparent` of W3C Trace Context, version 00: its trace continues that of the caller,
   * and is left out where that is. Goes before an active span of OpenTelemetry. Default: that one, or a trace of its own.
   */
  readonly traceparent?: string;
}

/** The options of a call, which cannot be left out if a role asks for a `Context`: then `Needed` has to be among them. */
export type OptionsWithContext<
  Options,
  Context,
  Needed = { readonly context: Context },
> = unknown extends Context ? readonly [options?: Options] : readonly [options: Options & Needed];

const START_FIELDS = [
  "runId",
  "budget",
  "metadata",
  "deadlineAtMs",
  "onStreamPart",
  "signal",
  "session",
  "context",
  "traceparent",
];

/** Throws `invalid_option`. */
export function checkStartOptions(options: StartOptions): void {
  const field = "start options";
  checkKeys(field, options, START_FIELDS);
  const { runId, budget, deadlineAtMs, traceparent } = options;
  if (runId !== undefined) checkRunId("runId", runId);
  if (budget !== undefined) checkBudget("budget", budget);
  if (deadlineAtMs !== undefined) checkAmount("deadlineAtMs", deadlineAtMs);
  if (traceparent !== undefined) checkTraceparent("traceparent", traceparent);
  checkRunOptions(field, options);
}

/** Characters: what every store takes. */
const LONGEST_RUN_ID = 512;

/** What no address can have as one of its parts. */
const STEPS: readonly unknown[] = [".", ".."];

/** The text as the id of a run. Throws `invalid_option` for what no store, or no address, could have as one. */
export function checkRunId(field: string, runId: unknown): asserts runId is RunId {
  const isText = typeof runId === "string" && runId !== "" && runId.length <= LONGEST_RUN_ID;
  if (isText && runId.isWellFormed() && !runId.includes("\0") && !STEPS.includes(runId)) return;
  const expected = `1 to ${LONGEST_RUN_ID} characters of well-formed Unicode without U+0000, and not . or ..`;
  throw mismatch(field, expected, runId, "Choose another id.");
}

/**
 * The id of a run, from a text, for what asks for one: a store, `RunRecord` and `RunFold` of `espalier/view`. Methods of the orchestrator take the text.
 *
 * @throws EspalierError `invalid_option` for what is no id of a run.
 */
export function toRunId(text: string): RunId {
  checkRunId("runId", text);
  return text;
}

/** Throws `invalid_option` for what is no `traceparent` of version 00. */
export function checkTraceparent(field: string, value: unknown): void {
  if (typeof value === "string" && parseTraceparent(value) !== undefined) return;
  const expected =
    "a traceparent of version 00: 00-{32 hexadecimal digits}-{16}-{2}, in lower case, ids not all zeros";
  throw mismatch(field, expected, value, "Leave it out to start a new trace.");
}

/** What may go with a run however it begins. */
interface AnyRunOptions {
  readonly role?: AgentRole;
  readonly onStreamPart?: unknown;
  readonly signal?: AbortSignal;
}

/** Throws `invalid_option`, or `invalid_definition` for what is no role. */
export function checkRunOptions(field: string, options: AnyRunOptions): void {
  if (options.role !== undefined) checkAgentRole(`${field}.role`, options.role);
  if (options.onStreamPart !== undefined) checkMethods(field, options, ["onStreamPart"]);
  const { signal }: { readonly signal?: unknown } = options;
  if (signal === undefined || (signal instanceof EventTarget && "aborted" in signal)) return;
  const isController = signal instanceof AbortController;
  const advice = isController ? "Pass its signal: controller.signal." : "Leave it out for none.";
  throw mismatch(`${field}.signal`, "an AbortSignal", signal, advice);
}

/** A copy. Throws `invalid_option`, naming the part that would not. */
export function freezeMetadata(metadata: unknown): JsonObject {
  const parsed = JsonObjectSchema().safeParse(metadataCopy(metadata));
  if (parsed.success) return deepFreeze(parsed.data);
  throw mismatch("metadata", "an object of JSON values", metadata, PLAIN_DATA);
}

const PLAIN_DATA =
  "Pass plain data: strings, numbers, booleans, null, and arrays and objects of these.";

function metadataCopy(metadata: unknown): unknown {
  try {
    return jsonCopy(metadata);
  } catch (cause) {
    const { place, got } =
      cause instanceof NotJsonError ? cause : { place: "", got: `an error: ${messageOf(cause)}` };
    const field = `metadata${place}`;
    const expected = "a JSON value";
    const advice = got === "a date" ? "Pass its text: date.toISOString()." : PLAIN_DATA;
    throw new EspalierError({
      code: "invalid_option",
      message: `Expected ${field} to be ${expected}, got ${got}. ${advice}`,
      data: { field, expected, got },
      cause,
    });
  }
}

/**
 * Options of `resume`.
 *
 * @example
 * ```ts
 * const grants = [{ by: "Ada", budget: { costUsd: 2 } }];
 * const resumed = orchestrator.resume(pausedRun, { answers, grants });
 * ```
 */
export interface ResumeOptions<out Role extends AgentRole<unknown, never> = AgentRole> extends Pick<
  StartOptions,
  "onStreamPart" | "signal" | "context"
> {
  /** Answers to the open questions. A paused run needs an answer to each of them. */
  readonly answers?: readonly Answer[];
  /** Role of the root, if it is not among the `roles` of the orchestrator, or to type the result. */
  readonly role?: Role;
  /** More budget, for a run that was paused, or that was stopped by a limit: that one continues only with a grant. */
  readonly grants?: readonly ResumeGrant[];
  /** The session on which the run was started. Default: it is read from the store of the orchestrator when the run has ended. */
  readonly session?: Session;
}

/** Options of `resume(runId)`. */
export interface StoredResumeOptions<
  out Role extends AgentRole<unknown, never> = AgentRole,
> extends ResumeOptions<Role> {
  /**
   * Takes the run over although another process seems to own it. That process is refused at its next
   * record.
   *
   * @default false
   */
  readonly takeOver?: boolean;
}

/** More budget for an agent of a run at rest. */
export interface ResumeGrant {
  /** What is added to the limits that the agent has. */
  readonly budget: Budget;
  /** Who grants it, in your words; on record in the event and on the account. */
  readonly by: string;
  /** Default: the root. */
  readonly agentPath?: string;
}

/** What goes with a fork. */
export interface ForkOptions<out Role extends AgentRole<unknown, never> = AgentRole> extends Pick<
  StartOptions,
  "onStreamPart" | "signal" | "context"
> {
  /** The step of the root after which the fork goes its own way: from 1; 0 for before the first. Default: its last completed one. */
  readonly atStep?: number;
  /** The next message to the root. Default: none; it continues from where it was. */
  readonly message?: MessageContent;
  /** Over the whole fork, on top of the limits that the root had. */
  readonly budget?: Budget;
  /**
   * The root's role. It may differ from the one before in all but its name, also if the orchestrator's `roles` have another one of that
   * name: this one holds in the fork. Default: the one among those `roles`.
   */
  readonly role?: Role;
}

/** What goes with the recovery of all lost runs. */
export interface ResumeLostRunsOptions<out Context = unknown> {
  /**
   * Gives the context of a run that is about to be recovered, from what is kept of the run as it was started: its metadata, say. If it throws or rejects,
   * the run is not recovered: it stays as it was, and is among those that `failed`. Default: no run has a context.
   */
  readonly context?: (run: {
    readonly runId: RunId;
    /** The name of the root's role. */
    readonly role: string;
    /** The text of the task with which it was started. */
    readonly task: string;
    /** The metadata with which it was started. */
    readonly metadata: JsonObject;
  }) => Context | Promise<Context>;
}

const RESUME_FIELDS = ["answers", "role", "grants", "onStreamPart", "signal", "session", "context"];
const STORED_RESUME_FIELDS = [...RESUME_FIELDS, "takeOver"];
const FORK_FIELDS = ["atStep", "message", "budget", "role", "onStreamPart", "signal", "context"];

/** Throws `invalid_option`, or `invalid_definition` if the role is not one. */
export function checkResumeOptions(options: ResumeOptions): void {
  checkContinueOptions("resume options", options, RESUME_FIELDS);
}

/** Throws `invalid_option`, or `invalid_definition` if the role is not one. */
export function checkStoredResumeOptions(options: StoredResumeOptions): void {
  checkContinueOptions("resume options", options, STORED_RESUME_FIELDS);
  checkBoolean("resume options.takeOver", options.takeOver ?? false, "Leave it out for false.");
}

/** Throws `invalid_option`. */
export function checkResumeLostRunsOptions(options: ResumeLostRunsOptions): void {
  const field = "resumeLostRuns options";
  checkKeys(field, options, ["context"]);
  if (options.context !== undefined) checkMethods(field, options, ["context"]);
}

function checkContinueOptions(
  field: string,
  options: ResumeOptions,
  fields: readonly string[],
): void {
  checkKeys(field, options, fields);
  const { grants = [] } = options;
  checkList(`${field}.grants`, grants);
  for (const [index, grant] of grants.entries()) {
    const name = `${field}.grants[${index}]`;
    checkKeys(name, grant, ["budget", "by", "agentPath"]);
    checkGrant(name, grant);
    if (grant.agentPath !== undefined) checkText(`${name}.agentPath`, grant.agentPath);
  }
  checkRunOptions(field, options);
}

/** Throws `invalid_option`, or `invalid_definition` for what is no role. */
export function checkForkOptions(options: ForkOptions): void {
  const field = "fork options";
  checkKeys(field, options, FORK_FIELDS);
  const { atStep, message, budget = {} } = options;
  if (atStep !== undefined) checkCount(`${field}.atStep`, atStep);
  if (Array.isArray(message)) checkedContent(`${field}.message`, message);
  else if (message !== undefined && (typeof message !== "string" || message.trim() === ""))
    throw mismatch(
      `${field}.message`,
      "a non-empty string",
      message,
      "Correct it, or leave it out.",
    );
  checkBudget(`${field}.budget`, budget);
  checkRunOptions(field, options);
}
