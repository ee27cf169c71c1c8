import type { JsonObject } from "./json.ts";

/**
 * Code of an {@link EspalierError}. Codes are stable across releases: match on them instead of on
 * messages.
 *
 * @example
 * ```ts
 * try {
 *   openai("gpt-5-mini");
 * } catch (error) {
 *   if (!EspalierError.is(error) || error.code !== "missing_api_key") throw error;
 *   console.error("Set OPENAI_API_KEY.");
 * }
 * ```
 */
export type ErrorCode =
  /**
   * An argument, an option or a part of a definition is invalid, or a store that the call needs is
   * missing. The message names the field, the expected and the received value: correct it, or leave
   * it out for its default.
   */
  | "invalid_argument"
  /**
   * An optional package that the call needs is not installed. The message has the command: run it.
   */
  | "missing_package"
  /**
   * Two tools of an agent have the same name. Rename one of them, as with `prefixTools` or
   * `renameTools`, or omit it.
   */
  | "duplicate_tool"
  /**
   * Two different roles of a run have the same name. Rename one, or use the same value for both.
   */
  | "duplicate_role"
  /**
   * A role names a subagent that no role of the run has as its name. Correct the name, list the
   * role itself in `subagents`, or add it to the `roles` of the orchestrator.
   */
  | "unknown_subagent"
  /**
   * A cost limit covers a model without a known price. Give the model a `price`, give the
   * orchestrator `prices`, or leave the cost limit out.
   */
  | "price_unknown"
  /**
   * A model has no key. Set `OPENAI_API_KEY` or the option `apiKey`; name a server that needs no
   * key by `baseUrl`.
   */
  | "missing_api_key"
  /**
   * espalier was imported by a version of Node that is too old for it. Install the version that the
   * message names, or a newer one.
   */
  | "unsupported_node"
  /**
   * A role file cannot be read, or is invalid. The message names file and line: correct it, and
   * check with `espalier roles check`.
   */
  | "invalid_role_file"
  /**
   * A context policy, a role file or a configuration names a tool that no agent below has. Name
   * tools as the model calls them, or leave the name out.
   */
  | "unknown_tool"
  /**
   * `run.iterate()` was called a second time. Share the first iterator, or listen to `events()`.
   */
  | "already_iterating"
  /**
   * A reader of events or stream parts has more unread than `maxBacklog`. Read faster, raise
   * `maxBacklog`, or read again with `from`; the run continues in any case.
   */
  | "backlog_overflow"
  /**
   * Past events were requested that no store has. Give the orchestrator a `store`, or leave `from`
   * out.
   */
  | "events_not_persisted"
  /** An id or a path names no agent of the run. Take it from an event or from the result. */
  | "unknown_agent"
  /**
   * A change was applied to an execution whose status does not allow it. This is a bug in espalier,
   * unless your code changes states: report it.
   */
  | "illegal_transition"
  /**
   * A run, a session or an orchestrator cannot do this now: it was closed, is in use, or has no
   * result yet. The message names the state to await first.
   */
  | "invalid_state"
  /**
   * A tool failed: it threw an error, or a `ToolError`. The model reads it and continues, unless it
   * is `abortive`; correct the tool, or what it depends on.
   */
  | "tool_error"
  /**
   * A tool asks the model for a corrected call. Do nothing; if the model repeats the mistake,
   * explain more in `message` and `hint`.
   */
  | "tool_retry"
  /**
   * An MCP server does not answer or cannot be started. The message names the attempt: start the
   * server, or correct its address.
   */
  | "mcp_unavailable"
  /** An MCP server rejected the credentials. Correct the headers or the provider of its tokens. */
  | "mcp_unauthorized"
  /**
   * An answer of an MCP server exceeds `maxResponseBytes`, or a message has too many values or
   * levels. Its connection was closed. Check the server, or raise `maxResponseBytes`.
   */
  | "mcp_response_too_large"
  /**
   * A scripted model received a request that its script does not have, or not in this order.
   * Correct the script or the agent under test.
   */
  | "script_mismatch"
  /**
   * A paused run or a snapshot cannot be read, cannot continue, or its roles are missing. Pass the
   * JSON as it was written, and give the orchestrator the `roles` that the run was started with.
   */
  | "invalid_paused_run"
  /**
   * The signature of a paused run is missing or wrong, or cannot be verified without a
   * `signingKey`. Pass the JSON as it was written, and give the orchestrator the key that signed
   * it.
   */
  | "invalid_signature"
  /**
   * A typed result that is stored in a run does not fit the `output` that its role has in code. The
   * run is unchanged: restore the output schema that the role had, or start a new run.
   */
  | "output_mismatch"
  /**
   * The stored value has an unsupported format version. Use the version of espalier that wrote it.
   */
  | "unsupported_version"
  /**
   * An answer is missing, unknown, given twice, of the wrong kind, for other arguments, or late.
   * Take the questions from `result.questions` anew, or from `orchestrator.getResult(runId)`. Answer
   * each once with `approve`, `deny`, `provideResult` or `provideError`.
   */
  | "invalid_answer"
  /**
   * This pause was already resumed, here or in another process. Use the handle of that run, or the
   * paused run that it left.
   */
  | "already_resumed"
  /**
   * The store already has a run of this id. Leave `runId` out or choose another one; to continue
   * that run, call `orchestrator.execute` or `resume`.
   */
  | "run_exists"
  /**
   * The store has no run of this id, or no records of it. Check the id and the store; start a run
   * without records again.
   */
  | "unknown_run"
  /**
   * Another process owns the run. Wait until the run pauses or ends, or its owner is lost, or set
   * `takeOver`.
   */
  | "run_active"
  /**
   * The run has ended and cannot continue. Read its result with `orchestrator.getResult`, or start
   * another run. A run that a limit stopped continues with `grants`.
   */
  | "run_ended"
  /**
   * Another process has taken the run over: this one can no longer write it. Leave the run to its
   * owner; if it happens often, raise `staleAfterMs`.
   */
  | "run_fenced"
  /**
   * Several processes in a row died while running this run, without completing a step or a tool
   * call (`maxCrashes`). The message names the calls in flight: find the cause, such as
   * `process.exit`, lack of memory or a native crash, fix it and start a new run.
   */
  | "crash_loop"
  /**
   * This process has released the run, or lost it with its store. Recover it here or elsewhere to
   * get its result or a snapshot.
   */
  | "run_released"
  /** The id belongs to a run with another role or task. Choose another id for another task. */
  | "run_id_conflict"
  /**
   * Another writer has written to the journal of a run. Read it again; if the store is one of your
   * own, check it with `storeContract`.
   */
  | "journal_conflict"
  /**
   * A journal or a recording cannot be read: it was altered or damaged. Restore it from a copy;
   * nothing was changed.
   */
  | "invalid_journal"
  /**
   * The store could not read or write; `data` contains the reason. Fix the store, then resume the
   * unfinished runs.
   */
  | "store_failed"
  /**
   * A replay diverged from its recording. Find the change in roles, prompts or tools, or record the
   * run again.
   */
  | "replay_diverged"
  /**
   * Another run has written the session meanwhile. Call `reload()`, or `merge(result)` to add what
   * this run has added.
   */
  | "session_conflict"
  /**
   * A stored session was altered or damaged. Restore it from a copy, or remove it from the store.
   */
  | "invalid_session"
  /**
   * A run request names a role that no worker has. List it in the `roles` of the orchestrator of
   * the workers, or correct the request.
   */
  | "unknown_role"
  /**
   * An engine cannot be reached, or could not accept or serve a run. Start its server, or correct
   * its address; the sweep of the workers finds run requests that were already sent.
   */
  | "engine_failed"
  | ModelErrorCode
  /**
   * `contextPolicy.selectMessages` of a role threw, or returned something other than whole
   * exchanges of the given messages. Make it a synchronous pure function, or set
   * `messageWindowSize` instead.
   */
  | "context_policy_failed"
  /**
   * A stop condition threw, or returned no valid reason. Return `{ code, message, data }`, an array
   * of these, or `undefined`.
   */
  | "stop_condition_failed"
  /**
   * A tool filter threw, or returned neither true nor false. Make it a synchronous pure function.
   */
  | "tool_filter_failed"
  /**
   * A section of a request threw, or returned no text. Return a string or `undefined` from its
   * function.
   */
  | "section_failed"
  /**
   * `instructions` threw, or returned no text, so the execution did not start. Make it a
   * synchronous function of the context.
   */
  | "instructions_failed"
  /**
   * The function that returns the `context` of a recovered run, or of a run in a worker, threw or
   * rejected. Correct it; the run is unchanged.
   */
  | "context_failed"
  /** A hook threw. Correct it, or catch expected errors in it. */
  | "hook_failed"
  /**
   * A hook returned a value that its point does not allow. The message names the allowed values:
   * correct the hook.
   */
  | "invalid_hook_result"
  /** A hook did not settle in time. Make it react to its signal, or raise `hookTimeoutMs`. */
  | "hook_timeout"
  /**
   * A call that a `wrapModelCall` hook made with `next()` ended without a reply. Return a reply of
   * your own, call `next()` again, or let the error pass; `data.error` has the code of the failure.
   */
  | "model_call_failed"
  /** An internal invariant was violated. This is a bug in espalier: report it with its message. */
  | "internal_error"
  | RunErrorCode;

/**
 * Code of the `RunError` that `run.orThrow()` rejects with, by the status of the run.
 *
 * @example
 * ```ts
 * const answer = await run.orThrow().catch((error: unknown) => {
 *   if (EspalierError.is(error) && error.code === "run_stopped") return { text: "Out of budget." };
 *   throw error;
 * });
 * ```
 */
export type RunErrorCode =
  /**
   * The run failed. `error.result` contains the reason, and its `errors` begin with the first
   * cause.
   */
  | "run_failed"
  /**
   * A limit, a stop condition or `requestStop` ended the run before its answer. `error.result` has
   * the partial result; raise the limit, or continue with a grant.
   */
  | "run_stopped"
  /** The run was cancelled. `error.result` contains the partial result. */
  | "run_cancelled"
  /**
   * The run waits for answers, or was asked to pause. Continue with
   * `orchestrator.resume(error.result.pausedRun, { answers })`.
   */
  | "run_paused";

/**
 * Code of a failed model call, independent of the provider. A custom adapter throws it in a
 * `ModelError`.
 *
 * @example
 * ```ts
 * throw new ModelError({
 *   code: "model_rate_limited",
 *   message: "Too many requests.",
 *   retryAfterMs: 2_000,
 * });
 * ```
 */
export type ModelErrorCode =
  /**
   * Too many requests for the provider. The call is retried; if that is not enough, set `limits` of
   * the model with `modelLimits`, or raise your quota.
   */
  | "model_rate_limited"
  /** The provider is overloaded. The call is retried; `withFallback` then calls another model. */
  | "model_overloaded"
  /**
   * The connection failed, or the provider failed. The call is retried; check address, proxy and
   * network.
   */
  | "model_unavailable"
  /**
   * No reply came in time. The call is retried; raise the `timeoutMs` of the model if replies take
   * long.
   */
  | "model_timeout"
  /**
   * The provider rejected the request. The call is not retried; the message quotes the provider:
   * correct the settings, the tools or the model's id.
   */
  | "model_invalid_request"
  /**
   * The key is missing, wrong, or not allowed to use this model. The call is not retried; correct
   * the key or its rights.
   */
  | "model_unauthorized"
  /**
   * The reply violates the API of the provider. The call is not retried; check that `baseUrl`
   * belongs to a server with this API.
   */
  | "model_protocol_error"
  /**
   * The history exceeds the context window of the model. The call is not retried, except once with
   * a shorter history if the role has a `compaction`: set one, or shorten the input.
   */
  | "model_context_overflow"
  /**
   * The adapter is broken, or the model returns nothing usable. The call is not retried; correct
   * your adapter, or use another model.
   */
  | "model_invalid_reply";

/**
 * Options of an {@link EspalierError}.
 *
 * @example
 * ```ts
 * const cause = new Error("ENOSPC");
 * throw new EspalierError({
 *   code: "store_failed",
 *   message: "Cannot write to the store. Free some disk space.",
 *   data: { path: "runs.db" },
 *   cause,
 * });
 * ```
 */
export interface EspalierErrorOptions {
  /** Code of the error. */
  readonly code: ErrorCode;
  /** Message: the expected and the actual value, and the remedy. */
  readonly message: string;
  /**
   * Details of the message as plain values.
   *
   * @default {}
   */
  readonly data?: JsonObject;
  /** Error that caused this one. */
  readonly cause?: unknown;
}

const MARK = Symbol.for("espalier.error");

/**
 * Error that espalier throws. Distinguish errors by `code`.
 *
 * Use `EspalierError.is` instead of `instanceof`: it also recognises errors of another copy of the
 * package.
 *
 * @example
 * ```ts
 * try {
 *   await orchestrator.getResult("run_42");
 * } catch (error) {
 *   if (!EspalierError.is(error)) throw error;
 *   if (error.code === "unknown_run") console.log("No such run.", error.data);
 * }
 * ```
 */
export class EspalierError extends Error {
  /** Name of the error: always `EspalierError`, also for subclasses. */
  override readonly name = "EspalierError";
  /** Code to match on. */
  readonly code: ErrorCode;
  /** Details of the message as plain values. */
  readonly data: JsonObject;

  /** Creates an error. */
  constructor(options: EspalierErrorOptions) {
    checkErrorOptions(options);
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.data = options.data ?? {};
  }

  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }

  /**
   * Returns true if `value` is an error of espalier, including errors of another copy of the
   * package.
   *
   * @example
   * ```ts
   * process.on("unhandledRejection", (reason) => {
   *   if (EspalierError.is(reason)) console.error(reason.code, reason.message);
   * });
   * ```
   */
  static is(value: unknown): value is EspalierError {
    return isMarkedError(value, MARK);
  }
}

/** Throws for options that are not an object. argument-checks.ts builds on errors and cannot be used here. */
function checkErrorOptions(options: unknown): void {
  if (typeof options === "object" && options !== null) return;
  throw new EspalierError({
    code: "invalid_argument",
    message: `Expected the options of an error to be an object, got ${String(options)}. Pass code and message.`,
  });
}

/**
 * Returns true for an error with the symbol by which every copy of the package recognises its
 * class.
 */
export function isMarkedError(value: unknown, mark: symbol): boolean {
  try {
    return value instanceof Error && mark in value;
  } catch {
    return false; // A value whose traps throw is not one of our errors.
  }
}

/** Returns the message of any thrown value, without a stack. Never throws. */
export function getErrorMessage(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return "a value without a text";
  }
}
