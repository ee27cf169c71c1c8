import type { JsonObject } from "./json.ts";

/** Why espalier refused or failed. Stable across releases; match on it instead of on messages. */
export type ErrorCode =
  /**
   * A role, a tool, a hook or a configuration is not what it must be. The message names the field, what was expected and what came:
   * correct it.
   */
  | "invalid_definition"
  /**
   * An option of a call is not usable, or a part that the call needs is not there, such as a store. The message names the option and what
   * it takes: correct it, or leave it out for its default.
   */
  | "invalid_option"
  /** Two tools of one agent have the same name. Rename one of them, as with `prefixTools` or `renameTools`, or leave it out. */
  | "duplicate_tool"
  /** Two different roles of one run have the same name. Rename one, or use the same value for both. */
  | "duplicate_role"
  /**
   * A role names a subagent that no role of the run has as its name. Correct the name, list the role itself in `subagents`, or add it to
   * the `roles` of the orchestrator.
   */
  | "unknown_subagent"
  /**
   * A cost limit covers a model whose price is not known. Give the model a `price`, give the orchestrator `prices`, or leave the cost
   * limit out.
   */
  | "price_unknown"
  /** A model has no key. Set `OPENAI_API_KEY` or the option `apiKey`; name a server that needs no key by `baseUrl`. */
  | "missing_api_key"
  /** espalier was imported by a version of Node that is too old for it. Install the version that the message names, or a newer one. */
  | "unsupported_node"
  /**
   * A role file cannot be read, or says something that no role can be. The message has file and line: correct it, and check with
   * `espalier roles check`.
   */
  | "invalid_role_file"
  /**
   * A context policy, a role file or a configuration names a tool that no agent below has. Name tools as the model calls them, or leave the
   * name out.
   */
  | "unknown_tool"
  /** `run.iterate()` was called a second time. Share the first iterator, or listen to `events()`. */
  | "already_iterating"
  /**
   * A reader of events or pieces has more unread than `maxBacklog`. Read faster, raise `maxBacklog`, or read again with `from`; the run
   * continues in any case.
   */
  | "backlog_overflow"
  /** Events of the past were asked for that no store has. Give the orchestrator a `store`, or leave `from` out. */
  | "events_not_kept"
  /** An id or a path names no agent of the run. Take it from an event or from the result. */
  | "unknown_agent"
  /**
   * An execution was given a change that its status does not allow. This is a bug in espalier, unless states are changed by hand: report
   * it.
   */
  | "illegal_transition"
  /**
   * Something is asked of a run, a session or an orchestrator at a time at which it cannot be done: it was closed, is in use, or has no
   * result yet. The message says what to await first.
   */
  | "invalid_state"
  /**
   * A tool failed: what it threw, or a `ToolError`. The model reads it and continues, unless it is `abortive`; correct the tool, or what
   * it stands on.
   */
  | "tool_error"
  /**
   * A tool asks the model for a corrected call. Nothing is to be done; if the model does not learn from it, say more in `message` and
   * `hint`.
   */
  | "tool_retry"
  /**
   * An MCP server does not answer, cannot be started, or its client is not installed. The message says what was tried: start the server,
   * correct its address, or `npm install @modelcontextprotocol/client`.
   */
  | "mcp_unavailable"
  /** An MCP server does not take the credentials. Correct the headers or the provider of tokens that go with it. */
  | "mcp_unauthorized"
  /**
   * An answer of an MCP server exceeds `maxResponseBytes`, or a message has too many values or levels. Its connection was closed. Check the
   * server, or raise `maxResponseBytes`.
   */
  | "mcp_response_too_large"
  /**
   * A scripted model was asked something that its script does not have, or not in this order. Correct the script, or what was changed in
   * the agent under test.
   */
  | "script_mismatch"
  /**
   * A paused run or a snapshot cannot be read, has ended for good, or its roles are not there. Hand over the JSON as it was written, and
   * give the orchestrator the `roles` that it was started with.
   */
  | "invalid_paused_run"
  /**
   * The signature of a paused run is missing or wrong, or cannot be verified without a `signingKey`. Hand over the JSON as it was
   * written, and give the orchestrator the key with which it was signed.
   */
  | "invalid_signature"
  /**
   * A typed result that is stored in a run does not fit the `output` that its role has in code. The run stays as it was: restore the
   * output schema that the role had, or start a new run.
   */
  | "output_mismatch"
  /** The stored value has another version than this one. Use the version of espalier that wrote it. */
  | "unsupported_version"
  /**
   * An answer is missing, unknown, given twice, of the wrong kind, for other arguments, or late. Take the questions from
   * `result.questions` anew, and answer each once with `approve`, `deny`, `provideResult` or `provideError`.
   */
  | "invalid_answer"
  /** This pause was continued before, here or in another process. Use the handle of that run, or the paused run that it left. */
  | "already_resumed"
  /**
   * A run of this id is in the store. Leave `runId` out or choose another one; to continue that run, call `orchestrator.execute`
   * or `recover`.
   */
  | "run_exists"
  /**
   * The store has no run of this id, or nothing of it but its beginning. Check the id and which store it is in; one of which nothing is
   * kept is started anew.
   */
  | "unknown_run"
  /** A process leads the run that another one is to take. Wait until it rests or is lost, or say `takeOver`. */
  | "run_alive"
  /** The run has ended, and cannot continue. Take its result with `orchestrator.getResult`, start another run, or fork a snapshot of it. */
  | "run_ended"
  /**
   * Another process has taken the run over: this one persists nothing further of it. Leave it to its owner; if it happens often, raise
   * `staleAfterMs`.
   */
  | "run_fenced"
  /**
   * Several processes in a row died while they led the run, and no step or tool call was completed in between (`maxCrashes`). The message
   * says which calls were under way: find what ends the process, such as `process.exit`, a lack of memory or a native crash, correct it
   * and start the run anew.
   */
  | "crash_loop"
  /** This process has given the run up, or lost it with its store. Recover it here or elsewhere to have its result or a snapshot. */
  | "run_released"
  /** The id is that of a run with another role or task. Choose another id for another task. */
  | "run_id_conflict"
  /** Another writer has written into the journal of a run. Read it anew; if the store is one of your own, check it with `storeContract`. */
  | "journal_conflict"
  /** A journal or a recording cannot be read: it is not as it was written. Restore it from a copy; nothing was changed. */
  | "invalid_journal"
  /** The store could not read or write; `data` says why. Mend the store, then recover what was under way. */
  | "store_failed"
  /** A replay did something else than what was recorded. Find what changed in roles, prompts or tools, or record the run anew. */
  | "replay_diverged"
  /** Another run has written the session meanwhile. Call `reload()`, or `merge(result)` to add what this run has added. */
  | "session_conflict"
  /** What is stored of a session is not what was written. Restore it from a copy, or remove it from the store. */
  | "invalid_session"
  /** An order names a role that no worker has. List it in the `roles` of the orchestrator of the workers, or correct the order. */
  | "unknown_role"
  /**
   * An engine cannot be reached, or could not take or serve a run. Start its server, or correct how it is reached; orders that were
   * posted are found again by the sweep of the workers.
   */
  | "engine_failed"
  | ModelErrorCode
  /**
   * `context.selectMessages` of a role gave something else than whole exchanges of what it was handed, or threw. Make it a pure function
   * that answers at once, or set `messageWindowSize` instead.
   */
  | "invalid_context"
  /** A stop condition threw, or gave no reason that can be used. Let it give `{ code, message, data }`, several of them, or nothing. */
  | "condition_failed"
  /** A tool filter threw, or gave neither true nor false. Make it a pure function that answers at once. */
  | "filter_failed"
  /** A section of a request threw, or gave no text. Let its function give a text, or undefined. */
  | "section_failed"
  /** `instructions` threw, or gave no text, so that the execution did not begin. Make it a function of the context that answers at once. */
  | "instructions_failed"
  /**
   * The function that gives runs their `context` threw or rejected, for a run that is recovered or led by a worker. Correct it; the run
   * stays as it was.
   */
  | "context_failed"
  /** A hook threw. Correct it, or catch in it what may fail. */
  | "hook_failed"
  /** A hook gave what its point does not allow. The message says what the point takes: correct the hook. */
  | "hook_contract"
  /** A hook did not settle in time. Let it obey its signal, or raise `hookTimeoutMs`. */
  | "hook_timeout"
  /**
   * A call that a hook made of a model came to no reply: what `call` of a `wrapModelCall` hook rejects with. Give a reply of its own,
   * call again, or let the error pass; `data.error` has the code of the failure.
   */
  | "model_call_failed"
  /** Something happened that cannot. This is a bug in espalier: report it with its message. */
  | "internal_error"
  | RunErrorCode;

/** What `run.orThrow()` rejects with, for each way not to complete. */
export type RunErrorCode =
  /** The run failed. `error.result` has the reason, and in `errors` the first cause. */
  | "run_failed"
  /**
   * A limit, a stop condition or `requestStop` ended the run before its answer. `error.result` has what it came to; raise the limit, or
   * continue with a grant.
   */
  | "run_stopped"
  /** The run was cancelled. `error.result` has what it came to until then. */
  | "run_cancelled"
  /** The run waits for answers, or was asked to pause. Continue with `orchestrator.resume(error.result.pausedRun, answers)`. */
  | "run_paused";

/** What can go wrong with a model call, whichever provider serves it. */
export type ModelErrorCode =
  /**
   * Too many requests for the provider. It is tried again; if that is not enough, set `limits` of the model with `modelLimits`, or raise
   * your quota.
   */
  | "model_rate_limited"
  /** The provider has too much to do. It is tried again; `withFallback` asks another model then. */
  | "model_overloaded"
  /** There is no connection, or the provider is broken. It is tried again; check address, proxy and network. */
  | "model_unavailable"
  /** No answer came in time. It is tried again; raise the `timeoutMs` of the model if replies take long. */
  | "model_timeout"
  /**
   * The provider does not take such a request. It is not tried again; the message has the provider's words: correct the settings, the
   * tools or the model's id.
   */
  | "model_refused_request"
  /** The key is missing, wrong, or not allowed to ask this model. It is not tried again; correct the key or its rights. */
  | "model_not_authorized"
  /** The answer is not what the interface says. It is not tried again; check that `baseUrl` is a server of this interface. */
  | "model_protocol_error"
  /**
   * The history is longer than the model takes. It is not tried again, but once with a shorter history if the role has a `compaction`: give it
   * one, or less to read.
   */
  | "model_context_overflow"
  /**
   * The adapter is broken, or the model says nothing that can be used. It is not tried again; correct an adapter of your own, or take
   * another model.
   */
  | "model_misbehaved";

/** What an error says. */
export interface EspalierErrorOptions {
  /** Why. */
  readonly code: ErrorCode;
  /** What was expected, what came, what to do. */
  readonly message: string;
  /** The same as plain values, for logs and programs. */
  readonly data?: JsonObject;
  /** What was thrown before. */
  readonly cause?: unknown;
}

const MARK = Symbol.for("espalier.error");

/** The one error class of espalier. Distinguished by `code`; recognised across copies of the package by `is`. */
export class EspalierError extends Error {
  /** Always `EspalierError`, also of errors that extend it. */
  override readonly name = "EspalierError";
  /** Why: match on it. */
  readonly code: ErrorCode;
  /** The facts of the message as plain values, for logs and programs. */
  readonly data: JsonObject;

  constructor(options: EspalierErrorOptions) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.data = options.data ?? {};
  }

  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }

  /** True if `value` is an error of espalier, also of another copy of the package. */
  static is(value: unknown): value is EspalierError {
    try {
      return value instanceof Error && MARK in value;
    } catch {
      return false; // What throws when it is looked at is none of ours.
    }
  }
}

/** The message of anything that was thrown, without a stack. Never throws itself, whatever it is given. */
export function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return "a value without a text";
  }
}
