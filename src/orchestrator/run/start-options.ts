// What goes with a run when it is started.

import { checkAmount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { parseTraceparent } from "../../kernel/trace-ids.ts";
import { checkRole, type AgentRole } from "../../agent/agent-role.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { StreamPiece } from "../../protocol/stream-piece.ts";
import { checkBudget, type Budget } from "../../policies/budget.ts";
import type { Session } from "../sessions/session.ts";

/** What holds for one run. */
export interface StartOptions {
  /**
   * The id of the run, 1 to 512 characters, and neither `.` nor `..`. Once more while that run is under way here: its handle, and nothing
   * else starts; of the other options `signal` alone holds. A run of this id that the store has, and of which anything is kept, is left
   * alone: `result` rejects with `run_exists`; one of which nothing is kept yet, since its process died before, begins. To start, recover or
   * take the result of a run, whichever it is: `orchestrator.execute`. Default: one that no other run has.
   */
  readonly runId?: string;
  /** Over the whole tree, on top of the root role's own. */
  readonly budget?: Budget;
  /** Plain data for tools, checked to survive JSON; subagents inherit what the context policy hands on. */
  readonly metadata?: object;
  /**
   * Milliseconds since the epoch at which the run must have ended, next to `budget.wallTimeMs`; no pause moves it. It becomes a duration
   * once, when a process takes the run up: a wall clock that is set afterwards changes nothing. As with `wallTimeMs`, a tool that ignores
   * its signal is waited for `graceMs` longer.
   */
  readonly deadlineAtMs?: number;
  /** Called with each piece of what any agent says, as `run.pieces()` gives them. Makes model calls stream. It is not waited for. */
  readonly onPiece?: (piece: StreamPiece) => void;
  /**
   * Cancels the run when it is aborted, as `run.cancel()` does; one that is aborted already cancels it before any model is called. To
   * give a run a time, use `budget.wallTimeMs`: that limit is known before calls are made.
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
export type OptionsWith<
  Options,
  Context,
  Needed = { readonly context: Context },
> = unknown extends Context ? readonly [options?: Options] : readonly [options: Options & Needed];

const START_FIELDS = [
  "runId",
  "budget",
  "metadata",
  "deadlineAtMs",
  "onPiece",
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
  const expected = `1 to ${LONGEST_RUN_ID} characters of well-formed Unicode without U+0000, and neither . nor ..`;
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
  throw mismatch(field, expected, value, "Leave it out for a trace of its own.");
}

/** What may go with a run however it begins. */
interface AnyRunOptions {
  readonly role?: AgentRole;
  readonly onPiece?: unknown;
  readonly signal?: AbortSignal;
}

/** Throws `invalid_option`, or `invalid_definition` for what is no role. */
export function checkRunOptions(field: string, options: AnyRunOptions): void {
  if (options.role !== undefined) checkRole(`${field}.role`, options.role);
  if (options.onPiece !== undefined) checkMethods(field, options, ["onPiece"]);
  const { signal }: { readonly signal?: unknown } = options;
  if (signal === undefined || (signal instanceof EventTarget && "aborted" in signal)) return;
  const isController = signal instanceof AbortController;
  const advice = isController ? "Give its signal: controller.signal." : "Leave it out for none.";
  throw mismatch(`${field}.signal`, "an AbortSignal", signal, advice);
}
