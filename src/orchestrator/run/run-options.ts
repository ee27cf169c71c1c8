// Options of a run that is started, resumed or forked.

import {
  checkAmount,
  checkBoolean,
  checkCount,
  checkFields,
  checkFunction,
  checkLater,
  checkList,
  checkText,
  type FieldCheck,
  type FieldChecks,
  mismatch,
  NO_LIMIT_ADVICE,
} from "../../kernel/argument-checks.ts";
import { adviseOnOption } from "../../kernel/option-names.ts";
import { parseTraceparent } from "../../kernel/trace-ids.ts";
import { type AgentRole, checkAgentRole } from "../../agent/agent-role.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import { type Budget, checkBudget } from "../../policies/budget.ts";
import type { Session } from "../sessions/session.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { type JsonObject, deepFreeze } from "../../kernel/json.ts";
import { NotJsonError, copyForeignJson } from "../../kernel/json-copy.ts";
import { JsonObjectSchema } from "../../protocol/json-value.ts";
import { type MessageContent, copyContent } from "../../protocol/message-content.ts";
import type { Answer } from "../../protocol/question.ts";
import { checkGrant } from "../../budget/ledger-grant.ts";

/**
 * Options of `orchestrator.start`, which apply to one run.
 *
 * @example
 * ```ts
 * const run = orchestrator.start(role, "Compare three markets.", {
 *   budget: { costUsd: 1, timeMs: 120_000 },
 *   metadata: { tenant: "acme" },
 *   signal: AbortSignal.timeout(300_000),
 * });
 * ```
 */
export interface StartOptions {
  /**
   * Id of the run: 1 to 512 characters, except `.` and `..`. If a run with this id is active here,
   * `start` returns its handle, and only `signal` of the other options applies. If the store has a
   * run with this id, `result` rejects with `run_exists`, unless nothing of that run was persisted.
   * Use `orchestrator.execute` to start, continue or read a run by id.
   *
   * @default a random id
   */
  readonly runId?: string;
  /**
   * Limits for the whole tree. On each axis the tighter of this budget and that of the root's role
   * applies. To keep a part for the answer of the root, set `delegation.reserve` of its role.
   *
   * @example
   * ```ts
   * const run = orchestrator.start(role, "Compare three markets.", {
   *   budget: { costUsd: 1, steps: 20, timeMs: 120_000 },
   * });
   * ```
   */
  readonly budget?: Budget;
  /**
   * Plain JSON data for tools and hooks. Subagents inherit it if their context policy allows that.
   *
   * @example
   * ```ts
   * const run = orchestrator.start(role, "Check the order.", { metadata: { orderId: 4711 } });
   * ```
   */
  readonly metadata?: object;
  /**
   * Time by which the run must end, in milliseconds since the epoch. Pauses do not move it. When a
   * process starts or continues the run, the deadline is converted to a duration: a later change of
   * the wall clock has no effect. A tool that ignores its signal is abandoned after another
   * `graceMs`.
   *
   * @example
   * ```ts
   * const deadlineAtMs = Date.parse("2027-01-31T18:00:00Z");
   * const run = orchestrator.start(role, "Prepare the report.", { deadlineAtMs });
   * ```
   */
  readonly deadlineAtMs?: number;
  /**
   * Callback for each stream part of every agent, as `run.stream()` yields them. Setting it makes
   * model calls stream. A returned promise is not awaited.
   *
   * @example
   * ```ts
   * const run = orchestrator.start(role, "Write a poem.", {
   *   onStreamPart: (part) => part.type === "text" && process.stdout.write(part.text),
   * });
   * ```
   */
  readonly onStreamPart?: (part: StreamPart) => void;
  /**
   * Signal that cancels the run, as `run.cancel()` does. If it is aborted already, no model is
   * called. To limit the duration, prefer `budget.timeMs`, which is known before calls are made.
   *
   * @example
   * ```ts
   * const controller = new AbortController();
   * const run = orchestrator.start(role, "Compare three markets.", { signal: controller.signal });
   * controller.abort(new Error("The user closed the page."));
   * ```
   */
  readonly signal?: AbortSignal;
  /**
   * Session whose history the root begins with and adds to. One run at a time can use a session
   * handle.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const run = orchestrator.start(role, "Where is my order?", { session });
   * ```
   */
  readonly session?: Session;
  /**
   * Value that tools, hooks, guards and `instructions` functions receive, such as services or the
   * current user. All agents of the tree get this very value. It is never copied, frozen or stored,
   * and appears in no event. Pass it again to resume the run.
   *
   * @example
   * ```ts
   * const run = orchestrator.start(role, "Book a table.", { context: { userId: "u-42", db: new Map() } });
   * ```
   */
  readonly context?: unknown;
  /**
   * Parent span of the run, as the W3C Trace Context header `traceparent` of version 00. The run
   * continues that trace, and is not sampled if that trace is not. Takes precedence over an active
   * OpenTelemetry span.
   *
   * @default the active OpenTelemetry span, or a new trace
   * @example
   * ```ts
   * const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
   * const run = orchestrator.start(role, "Compare three markets.", { traceparent });
   * ```
   */
  readonly traceparent?: string;
}

/**
 * Rest parameter of options, which are required if a role needs a `Context`. `Needed` is the
 * required part.
 */
export type OptionsWithContext<
  Options,
  Context,
  Needed = { readonly context: Context },
> = unknown extends Context ? readonly [options?: Options] : readonly [options: Options & Needed];

/** Checks of the options of every call that starts or continues a run. */
export const RUN_CHECKS = { onStreamPart: checkFunction, signal: checkSignal, context: checkLater };

const START_CHECKS: Readonly<Record<keyof StartOptions, FieldCheck>> = {
  ...RUN_CHECKS,
  runId: (_field, value) => checkRunId("runId", value),
  budget: checkLater,
  metadata: checkLater,
  deadlineAtMs: (_field, value) => checkAmount("deadlineAtMs", value, NO_LIMIT_ADVICE),
  session: checkLater,
  traceparent: (_field, value) => checkTraceparent("traceparent", value),
};

/** Throws `invalid_argument`. */
export function checkStartOptions(options: StartOptions): void {
  checkFields("start options", options, START_CHECKS, adviseOnOption);
  if (options.budget !== undefined) checkBudget("budget", options.budget);
}

/** Maximum length of an id in code units, which every store accepts. */
const LONGEST_RUN_ID = 512;

/** Texts that cannot be a segment of a URL path. */
const STEPS: readonly unknown[] = [".", ".."];

/**
 * Narrows a text to the id of a run. Throws `invalid_argument` for a text that no store or URL can
 * have as one.
 */
export function checkRunId(field: string, runId: unknown): asserts runId is RunId {
  const isText = typeof runId === "string" && runId !== "" && runId.length <= LONGEST_RUN_ID;
  if (isText && runId.isWellFormed() && !runId.includes("\0") && !STEPS.includes(runId)) return;
  const expected = `1 to ${LONGEST_RUN_ID} characters of well-formed Unicode without U+0000, and not . or ..`;
  const isJson = typeof runId === "string" && runId.startsWith("{");
  const advice = isJson
    ? "Read a stored paused run with readPausedRun(text)."
    : "Choose another id.";
  throw mismatch(field, expected, runId, advice);
}

/**
 * Converts a text to a `RunId`, for stores, and for `RunRecord` and `RunFold` of `espalier/view`.
 * Methods of the orchestrator accept the text itself.
 *
 * @throws EspalierError `invalid_argument` if the text cannot be the id of a run.
 *
 * @example
 * ```ts
 * const found = await store.find(toRunId("order-4711"));
 * ```
 */
export function toRunId(text: string): RunId {
  checkRunId("runId", text);
  return text;
}

/** Throws `invalid_argument` for an invalid `traceparent` of version 00. */
export function checkTraceparent(field: string, value: unknown): void {
  if (typeof value === "string" && parseTraceparent(value) !== undefined) return;
  const expected =
    "a traceparent of version 00: 00-{32 hexadecimal digits}-{16}-{2}, in lower case, ids not all zeros";
  throw mismatch(field, expected, value, "Leave it out to start a new trace.");
}

/** Throws `invalid_argument` unless `signal` is an `AbortSignal`. */
function checkSignal(field: string, signal: unknown): void {
  if (signal instanceof EventTarget && "aborted" in signal) return;
  const isController = signal instanceof AbortController;
  const advice = isController ? "Pass its signal: controller.signal." : "Leave it out for none.";
  throw mismatch(field, "an AbortSignal", signal, advice);
}

/** Returns a frozen copy. Throws `invalid_argument`, naming the part that is not JSON. */
export function freezeMetadata(metadata: unknown): JsonObject {
  const parsed = JsonObjectSchema().safeParse(copyMetadata(metadata));
  if (parsed.success) return deepFreeze(parsed.data);
  throw mismatch("metadata", "an object of JSON values", metadata, PLAIN_DATA);
}

const PLAIN_DATA =
  "Pass plain data: strings, numbers, booleans, null, and arrays and objects of these.";

function copyMetadata(metadata: unknown): unknown {
  try {
    return copyForeignJson(metadata);
  } catch (cause) {
    const { place, got } =
      cause instanceof NotJsonError
        ? cause
        : { place: "", got: `an error: ${getErrorMessage(cause)}` };
    const field = `metadata${place}`;
    const expected = "a JSON value";
    const advice = got === "a date" ? "Pass its text: date.toISOString()." : PLAIN_DATA;
    throw new EspalierError({
      code: "invalid_argument",
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
  /**
   * Answers to the open questions. A paused run needs an answer to each question, except approvals
   * for which the orchestrator has an `approver`.
   *
   * @example
   * ```ts
   * const answers = pausedRun.questions.map((question) => deny(question, "Too expensive."));
   * const resumed = orchestrator.resume(pausedRun, { answers });
   * ```
   */
  readonly answers?: readonly Answer[];
  /**
   * Role of the root, if the orchestrator's `roles` do not have it, or for the type of the result.
   *
   * @example
   * ```ts
   * const resumed = orchestrator.resume(pausedRun, { role: writer, answers });
   * ```
   */
  readonly role?: Role;
  /**
   * Additional budget. A run that a limit has stopped continues only with a grant.
   *
   * @example
   * ```ts
   * const resumed = orchestrator.resume(pausedRun, {
   *   grants: [{ budget: { steps: 10 }, by: "alice@example.com" }],
   * });
   * ```
   */
  readonly grants?: readonly ResumeGrant[];
  /**
   * Session handle of the run.
   *
   * @default the session is read from the store of the orchestrator when the run ends
   */
  readonly session?: Session;
}

/**
 * Options of `resume(runId)`.
 *
 * @example
 * ```ts
 * const resumed = await orchestrator.resume("order-4711", { answers, takeOver: true });
 * ```
 */
export interface StoredResumeOptions<
  out Role extends AgentRole<unknown, never> = AgentRole,
> extends ResumeOptions<Role> {
  /**
   * Takes the run over although another process seems to own it. That process is refused at its
   * next record.
   *
   * @default false
   */
  readonly takeOver?: boolean;
}

/**
 * Additional budget for an agent of a paused or stopped run.
 *
 * @example
 * ```ts
 * const grant: ResumeGrant = { budget: { costUsd: 2 }, by: "alice@example.com" };
 * ```
 */
export interface ResumeGrant {
  /** Amounts that are added to the agent's own limits. */
  readonly budget: Budget;
  /**
   * Name of the person or program that grants the budget. It is recorded in the event and on the
   * account.
   */
  readonly by: string;
  /**
   * Place of the agent in the tree, such as `lead/researcher#2`.
   *
   * @default the root
   */
  readonly agentPath?: string;
}

/**
 * Options of `orchestrator.fork`.
 *
 * @example
 * ```ts
 * const fork = orchestrator.fork(pausedRun, {
 *   atStep: 2,
 *   message: "Try another source.",
 *   budget: { steps: 10 },
 * });
 * ```
 */
export interface ForkOptions<out Role extends AgentRole<unknown, never> = AgentRole> extends Pick<
  StartOptions,
  "onStreamPart" | "signal" | "context"
> {
  /**
   * Number of the root's step after which the fork begins. 0 begins with the input of the first
   * step.
   *
   * @default the last completed step
   */
  readonly atStep?: number;
  /**
   * Message to the root, with which the fork begins. Without one, the root continues where it was.
   */
  readonly message?: MessageContent;
  /** Limits for the whole fork, in addition to the limits of the original root. */
  readonly budget?: Budget;
  /**
   * Role of the root, which must have the same name as before. It replaces the orchestrator's role
   * of that name in the fork.
   *
   * @default the role of that name in the `roles` of the orchestrator
   */
  readonly role?: Role;
}

/**
 * Options of `orchestrator.resumeLostRuns`.
 *
 * @example
 * ```ts
 * const { runs } = await orchestrator.resumeLostRuns({
 *   context: ({ metadata }) => ({ tenant: metadata["tenant"] }),
 * });
 * ```
 */
export interface ResumeLostRunsOptions<out Context = unknown> {
  /**
   * Function that returns the context of a run before it is resumed, from the data with which it
   * was started. If the function throws or rejects, the run stays as it was, and is listed in
   * `failed`.
   *
   * @default none: runs have no context
   */
  readonly context?: (run: {
    /** Id of the run. */
    readonly runId: RunId;
    /** Name of the root's role. */
    readonly role: string;
    /** Text of the task. */
    readonly task: string;
    /** Metadata of the run. */
    readonly metadata: JsonObject;
  }) => Context | Promise<Context>;
}

const RESUME_CHECKS = {
  ...RUN_CHECKS,
  answers: checkLater,
  role: checkAgentRole,
  grants: checkLater,
  session: checkLater,
} satisfies Record<keyof ResumeOptions, FieldCheck>;

const FORK_CHECKS: Readonly<Record<keyof ForkOptions, FieldCheck>> = {
  ...RUN_CHECKS,
  atStep: (field, value) => checkCount(field, value, "Leave it out for the last step."),
  message: copyContent,
  budget: checkLater,
  role: checkAgentRole,
};

/** Throws `invalid_argument`. */
export function checkResumeOptions(options: ResumeOptions): void {
  checkContinueOptions(options, RESUME_CHECKS);
}

/** Throws `invalid_argument`. */
export function checkStoredResumeOptions(options: StoredResumeOptions): void {
  checkContinueOptions(options, { ...RESUME_CHECKS, takeOver: checkTakeOver });
}

function checkTakeOver(field: string, value: unknown): void {
  checkBoolean(field, value, "Leave it out for false.");
}

/** Throws `invalid_argument`. */
export function checkResumeLostRunsOptions(options: ResumeLostRunsOptions): void {
  checkFields("resumeLostRuns options", options, { context: checkFunction });
}

function checkContinueOptions(options: ResumeOptions, checks: FieldChecks): void {
  const field = "resume options";
  checkFields(field, options, checks);
  const { grants = [] } = options;
  checkList(`${field}.grants`, grants);
  for (const [index, grant] of grants.entries()) {
    const name = `${field}.grants[${index}]`;
    checkFields(name, grant, { budget: checkLater, by: checkLater, agentPath: checkText });
    checkGrant(name, grant);
  }
}

/** Throws `invalid_argument`. */
export function checkForkOptions(options: ForkOptions): void {
  const field = "fork options";
  checkFields(field, options, FORK_CHECKS);
  checkBudget(`${field}.budget`, options.budget ?? {});
}
