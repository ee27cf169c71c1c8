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

/**
 * Options of one run.
 *
 * @example
 * ```ts
 * const run = orchestrator.start(researcher, "What do pears cost?", {
 *   runId: "order-17",
 *   budget: { costUsd: 0.5 },
 *   metadata: { customer: "ann" },
 * });
 * ```
 */
export interface StartOptions {
  /**
   * Id of the run: 1 to 512 characters, neither `.` nor `..`. While the run is active in this process,
   * a second `start` with the id returns its handle, and only `signal` of the other options applies. If
   * the store has a run with the id, `result` rejects with `run_exists`: use `orchestrator.execute` to
   * start the run, continue it or read its result.
   *
   * @default a unique id
   *
   * @example
   * ```ts
   * const run = orchestrator.start(researcher, "What do pears cost?", { runId: "order-17" });
   * ```
   */
  readonly runId?: string;
  /**
   * Limits of the whole tree. The root role may have a budget too: on each axis the tighter limit
   * applies.
   *
   * @default no further limits
   *
   * @example
   * ```ts
   * const budget = { costUsd: 0.5, steps: 30, timeMs: 120_000 };
   * const run = orchestrator.start(researcher, "What do pears cost?", { budget });
   * ```
   */
  readonly budget?: Budget;
  /**
   * Plain JSON data for tools, hooks and events. Subagents inherit the keys that the context policy
   * allows.
   *
   * @default {}
   *
   * @example
   * ```ts
   * orchestrator.start(researcher, "What do pears cost?", { metadata: { customer: "ann" } });
   * ```
   */
  readonly metadata?: object;
  /**
   * Time by which the run must have ended, in milliseconds since the epoch. Pauses do not extend it. A
   * tool that ignores its signal is awaited for `graceMs` longer. The deadline becomes a duration when a
   * process takes up the run, so that later changes of the wall clock have no effect.
   *
   * @default no deadline
   *
   * @example
   * ```ts
   * const deadlineAtMs = Date.parse("2027-01-15T18:00:00Z");
   * orchestrator.start(researcher, "What do pears cost?", { deadlineAtMs });
   * ```
   */
  readonly deadlineAtMs?: number;
  /**
   * Callback for each stream part of every agent, as `run.stream()` yields them. Makes model calls
   * stream. A promise that it returns is not awaited.
   *
   * @default model calls do not stream
   *
   * @example
   * ```ts
   * orchestrator.start(researcher, "What do pears cost?", {
   *   onStreamPart: (part) => {
   *     if (part.type === "text") process.stdout.write(part.text);
   *   },
   * });
   * ```
   */
  readonly onStreamPart?: (part: StreamPart) => void;
  /**
   * Signal that cancels the run, as `run.cancel()` does. An aborted signal cancels the run before its
   * first model call. To limit the time of a run use `budget.timeMs`: models and tools know that limit.
   *
   * @default none
   *
   * @example
   * ```ts
   * const controller = new AbortController();
   * orchestrator.start(researcher, "What do pears cost?", { signal: controller.signal });
   * controller.abort();
   * ```
   */
  readonly signal?: AbortSignal;
  /**
   * Session whose history the root continues and extends. A session has one active run at a time.
   *
   * @default none
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * orchestrator.start(researcher, "And what do figs cost?", { session });
   * ```
   */
  readonly session?: Session;
  /**
   * Run context: the value that tools, hooks, guards and `instructions` functions receive, such as
   * services or the current user. All agents of the tree share it. It is never copied, serialized or
   * stored: pass it again to `resume` and `fork`.
   *
   * @default undefined
   *
   * @example
   * ```ts
   * orchestrator.start(researcher, "What do pears cost?", { context: { userId: "ann" } });
   * ```
   */
  readonly context?: unknown;
  /**
   * Parent span of the run, as a `traceparent` header of W3C Trace Context, version 00. Takes precedence
   * over the active span of OpenTelemetry.
   *
   * @default the active span, or a new trace
   *
   * @example
   * ```ts
   * const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
   * orchestrator.start(researcher, "What do pears cost?", { traceparent });
   * ```
   */
  readonly traceparent?: string;
}

/** Parameter list of options that are required if a role requires a `Context`. */
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
 * Converts a text to a run id, for APIs that require one: a store, `RunRecord` and `RunFold`. The
 * methods of the orchestrator accept plain texts.
 *
 * @throws EspalierError `invalid_option` if the text is not a valid run id.
 *
 * @example
 * ```ts
 * const found = await store.find(toRunId("order-17"));
 * ```
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
  /**
   * More budget for agents of the run. A run that a limit stopped requires a grant.
   *
   * @example
   * ```ts
   * orchestrator.resume(pausedRun, { answers, grants: [{ by: "Ada", budget: { steps: 10 } }] });
   * ```
   */
  readonly grants?: readonly ResumeGrant[];
  /**
   * Session of the run.
   *
   * @default the session, read from the store of the orchestrator
   */
  readonly session?: Session;
}

/**
 * Options of `resume` with a run id.
 *
 * @example
 * ```ts
 * const resumed = await orchestrator.resume("order-17", { answers, takeOver: true });
 * ```
 */
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

/**
 * More budget for an agent of a run that is paused or was stopped by a limit.
 *
 * @example
 * ```ts
 * const grant: ResumeGrant = { by: "Ada", budget: { costUsd: 2 }, agentPath: "lead/writer#1" };
 * ```
 */
export interface ResumeGrant {
  /** Amounts that are added to the limits of the agent. */
  readonly budget: Budget;
  /** Name of the person or program that grants it, for the event and the account. */
  readonly by: string;
  /**
   * Path of the agent.
   *
   * @default the path of the root
   */
  readonly agentPath?: string;
}

/**
 * Options of `fork`.
 *
 * @example
 * ```ts
 * orchestrator.fork(pausedRun, { atStep: 2, message: "Try another source.", budget: { steps: 10 } });
 * ```
 */
export interface ForkOptions<out Role extends AgentRole<unknown, never> = AgentRole> extends Pick<
  StartOptions,
  "onStreamPart" | "signal" | "context"
> {
  /**
   * Number of the last step of the root that the fork takes over, from 1. 0 keeps none.
   *
   * @default the last completed step
   */
  readonly atStep?: number;
  /**
   * Next message to the root.
   *
   * @default none
   */
  readonly message?: MessageContent;
  /** Limits of the whole fork, in addition to those that the root had. */
  readonly budget?: Budget;
  /**
   * Role of the root. It must have the name of the original role, and may differ from it otherwise.
   *
   * @default the role of that name among the `roles` of the orchestrator
   */
  readonly role?: Role;
}

/**
 * Options of `resumeLostRuns`.
 *
 * @example
 * ```ts
 * await orchestrator.resumeLostRuns({ context: ({ metadata }) => ({ userId: metadata["user"] }) });
 * ```
 */
export interface ResumeLostRunsOptions<out Context = unknown> {
  /**
   * Returns the run context of a lost run, for example from its metadata. If it throws or rejects, the
   * run is unchanged and listed in `failed`.
   *
   * @default no context
   */
  readonly context?: (run: {
    readonly runId: RunId;
    /** Name of the root role. */
    readonly role: string;
    /** Text of the task that the run was started with. */
    readonly task: string;
    /** Metadata that the run was started with. */
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
