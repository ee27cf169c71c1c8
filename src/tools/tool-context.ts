// The facts and services that a tool receives for a call. Read-only, and separate for each call
// (R169, R170).

import type { Clock } from "../kernel/clock.ts";
import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { MessageContent } from "../protocol/message-content.ts";
import type { Message } from "../protocol/message.ts";
import type { SettledStatus } from "../protocol/stop.ts";
import type { DynamicRole, SpawnOutcome, SpawnRequest } from "../protocol/subagent.ts";

/**
 * The second argument of a tool's `execute`: facts about the call, and services that the tool may
 * use. Frozen, and separate for each call.
 *
 * `Context` is the type of the run context that the tool reads. A role that has the tool requires
 * it, too.
 *
 * @example
 * ```ts
 * const listOrders = defineTool({
 *   name: "list_orders",
 *   description: "Lists the orders of the customer.",
 *   inputSchema: z.object({}),
 *   execute: async (_input, { context, signal }: ToolContext<{ readonly customerId: string }>) => {
 *     const response = await fetch(`https://shop.example/${context.customerId}`, { signal });
 *     return await response.text();
 *   },
 * });
 * ```
 */
export interface ToolContext<out Context = unknown> {
  /** The run of the calling agent. */
  readonly runId: RunId;
  /** The calling agent. */
  readonly agentId: AgentId;
  /** Path of the calling agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the calling agent. The root is at 0. */
  readonly depth: number;
  /** The execution of the agent that made the call. */
  readonly executionId: ExecutionId;
  /** The step that made the call, counted from 1. */
  readonly stepNumber: number;
  /** The id of the call. */
  readonly callId: CallId;
  /**
   * A key that stays the same for every attempt at this call, also after a crash. Pass it to
   * services that deduplicate requests.
   *
   * @example
   * ```ts
   * const charge = defineTool({
   *   name: "charge",
   *   description: "Charges the customer's card.",
   *   inputSchema: z.object({ amountUsd: z.number() }),
   *   execute: ({ amountUsd }, { idempotencyKey }) =>
   *     fetch("https://pay.example/charges", {
   *       method: "POST",
   *       headers: { "Idempotency-Key": idempotencyKey },
   *       body: JSON.stringify({ amountUsd }),
   *     }).then((response) => response.text()),
   * });
   * ```
   */
  readonly idempotencyKey: string;
  /**
   * Number of times in a row that the model was asked for a corrected call of this tool. 0 at
   * first, and after a successful call.
   */
  readonly retryCount: number;
  /**
   * Maximum of `retryCount`. A `ToolRetryError` at this count ends the agent with `retry_limit`,
   * unless `errorPolicy` says otherwise.
   */
  readonly maxRetries: number;
  /** The history of the agent at the time of the call. Frozen. */
  readonly messages: readonly Message[];
  /**
   * Aborted when the call must end: its agent ends (`reason` is a `CancelReason`), or the call
   * timed out. After a grace period (`graceMs` of the orchestrator) the result is discarded.
   */
  readonly signal: AbortSignal;
  /** The metadata of the agent: passed to `start`, or inherited from the parent. Frozen JSON. */
  readonly metadata: JsonObject;
  /**
   * The run context: the value passed as `context` to `start`, `resume` or `fork`.
   * `undefined` if none was passed.
   */
  readonly context: Context;
  /**
   * Queues a subagent that the agent runs before its next model call. The model reads the result as
   * a message, or why the subagent was refused. A request made after the tool has returned is
   * ignored.
   *
   * @throws EspalierError `invalid_argument` if the request is invalid, or asks for a background
   * subagent.
   *
   * @example
   * ```ts
   * const review = defineTool({
   *   name: "save_draft",
   *   description: "Saves a draft and has it reviewed.",
   *   inputSchema: z.object({ draft: z.string() }),
   *   execute: ({ draft }, { queueSubtask }) => {
   *     queueSubtask({ role: "reviewer", task: `Review this draft:\n${draft}` });
   *     return "Saved. The review follows.";
   *   },
   * });
   * ```
   */
  queueSubtask(request: SpawnRequest): void;
  /**
   * Emits the event `tool.progressed`. The model does not read it. Reports after the first 1,000 of
   * a call are ignored.
   *
   * @throws EspalierError `invalid_argument` if a field of the report is invalid.
   *
   * @example
   * ```ts
   * const index = defineTool({
   *   name: "index_files",
   *   description: "Indexes files.",
   *   inputSchema: z.object({ paths: z.array(z.string()) }),
   *   execute: ({ paths }, { reportProgress }) => {
   *     for (const [done, path] of paths.entries())
   *       reportProgress({ done, total: paths.length, message: path });
   *   },
   * });
   * ```
   */
  reportProgress(progress: ToolProgress): void;
  /**
   * Asks the `approver` of the run for a value while the call is running. The question is of kind
   * `external`. The approver answers it with `provideResult`, or declines with `provideError` or
   * `deny`.
   *
   * The run does not pause. The waiting time counts toward the time limit of the tool.
   *
   * @throws EspalierError `invalid_argument` if the request is invalid.
   *
   * @example
   * ```ts
   * const login = defineTool({
   *   name: "login",
   *   description: "Logs in to the shop.",
   *   inputSchema: z.object({}),
   *   execute: async (_input, { ask }) => {
   *     const outcome = await ask({ reason: "Enter the code from the app.", arguments: {} });
   *     return outcome.type === "answered" ? `Code: ${String(outcome.value)}` : outcome.reason;
   *   },
   * });
   * ```
   */
  ask(request: AskRequest): Promise<AskOutcome>;
}

/**
 * A question of a running tool to the approver of the run.
 *
 * @example
 * ```ts
 * const request: AskRequest = {
 *   reason: "Which account should pay?",
 *   arguments: { accounts: ["checking", "savings"] },
 *   validate: (value) => (typeof value === "string" ? undefined : "Expected an account name."),
 * };
 * ```
 */
export interface AskRequest {
  /** The reason of the question, shown to the approver. */
  readonly reason: string;
  /** The subject of the question as plain JSON, available as `question.arguments`. */
  readonly arguments: JsonObject;
  /**
   * Checks a provided value. Returns a description of the problem, or `undefined` if the value is
   * valid. An invalid value counts as no answer.
   *
   * @default any value is valid
   */
  readonly validate?: (value: JsonValue) => string | undefined;
  /**
   * Withdraws the question when aborted.
   *
   * @default the signal of the call
   */
  readonly signal?: AbortSignal;
}

/**
 * The outcome of a question that a tool asked.
 *
 * - `answered`: the approver provided a value.
 * - `declined`: the approver declined, or the run has no approver.
 * - `unanswered`: there was no valid answer, or none in time.
 *
 * @example
 * ```ts
 * function toText(outcome: AskOutcome): string {
 *   return outcome.type === "answered" ? String(outcome.value) : `No answer: ${outcome.reason}`;
 * }
 * ```
 */
export type AskOutcome =
  | { readonly type: "answered"; readonly value: JsonValue }
  | { readonly type: "declined" | "unanswered"; readonly reason: string };

export const QUESTION_ENDED: AskOutcome = Object.freeze({
  type: "unanswered",
  reason: "The call ended before an answer came.",
});

/**
 * A progress report of a running call.
 *
 * @example
 * ```ts
 * const progress: ToolProgress = { done: 3, total: 10, message: "Indexing chapter 3" };
 * ```
 */
export interface ToolProgress {
  /** Completed work, in units of your choice. */
  readonly done?: number;
  /** All work, in the same units as `done`. */
  readonly total?: number;
  /** A description of the current work. */
  readonly message?: string;
}

/**
 * The second argument of a delegation's `execute`: the facts of `ToolContext`, and services for
 * subagents. `ask` is missing, because a delegation runs again in a replay, where there is no
 * approver.
 *
 * @example
 * ```ts
 * const translate = defineDelegation({
 *   name: "translate",
 *   description: "Translates a text.",
 *   inputSchema: z.object({ text: z.string(), language: z.string() }),
 *   execute: ({ text, language }, { spawn }) =>
 *     spawn({ role: "translator", task: `Translate into ${language}:\n${text}` }),
 * });
 * ```
 */
export interface DelegationContext<out Context = unknown> extends Omit<
  ToolContext<Context>,
  "ask"
> {
  /**
   * Starts a subagent and waits until it has ended. A refused or failed subagent is an outcome, not
   * an error. After the call has ended, nothing is started.
   *
   * @throws EspalierError `invalid_argument` if the request is invalid.
   * @throws EspalierError `hook_failed` if a `subagentStart` hook threw.
   * @throws EspalierError `hook_timeout` if a `subagentStart` hook did not settle in time.
   *
   * @example
   * ```ts
   * const ask = defineDelegation({
   *   name: "ask_lawyer",
   *   description: "Asks the lawyer.",
   *   inputSchema: z.object({ question: z.string() }),
   *   execute: ({ question }, { spawn }) => spawn({ role: "lawyer", task: question }),
   * });
   * ```
   */
  spawn(request: SpawnRequest): Promise<SpawnOutcome>;
  /** The subagents that the agent has started so far, and actions on them. */
  readonly subagents: SubagentService;
}

/**
 * Actions of an agent on the subagents that it has started. Each subagent is identified by its
 * `subagent`, such as `researcher#2`.
 *
 * @example
 * ```ts
 * const stopAll = defineDelegation({
 *   name: "stop_all",
 *   description: "Stops all running subagents.",
 *   inputSchema: z.object({}),
 *   execute: async (_input, { subagents }) => {
 *     const running = subagents.list().filter(({ status }) => status === "running");
 *     for (const { subagent } of running) await subagents.cancel(subagent, "No longer needed.");
 *     return { type: "answered", text: `Stopped ${running.length} subagents.` };
 *   },
 * });
 * ```
 */
export interface SubagentService {
  /** Returns all subagents in the order in which they were started. */
  list(): readonly SubagentInfo[];
  /**
   * Gives a new task to a subagent that has ended. The subagent keeps its history and its account,
   * and does not count again toward the limits.
   *
   * @example
   * ```ts
   * const revise = defineDelegation({
   *   name: "revise",
   *   description: "Has the writer revise the draft.",
   *   inputSchema: z.object({ criticism: z.string() }),
   *   execute: ({ criticism }, { subagents }) =>
   *     subagents.continue({ subagent: "writer#1", task: criticism }),
   * });
   * ```
   */
  continue(request: ContinueRequest): Promise<SpawnOutcome>;
  /**
   * Waits until subagents have ended or paused, and returns their results. The default is all
   * background subagents, without a time limit. When the time is over, subagents that still run are
   * listed with their status.
   *
   * @example
   * ```ts
   * const collect = defineDelegation({
   *   name: "collect",
   *   description: "Waits for the reports, one minute at most.",
   *   inputSchema: z.object({}),
   *   execute: (_input, { subagents }) => subagents.wait({ timeoutMs: 60_000 }),
   * });
   * ```
   */
  wait(request?: {
    /**
     * Names of the subagents to wait for, such as `["researcher#1"]`.
     *
     * @default all background subagents
     */
    readonly subagents?: readonly string[];
    /**
     * Maximum time in milliseconds.
     *
     * @default no time limit
     */
    readonly timeoutMs?: number;
  }): Promise<DelegationOutcome>;
  /**
   * Sends a message to a running subagent, which reads it before its next model call. A subagent
   * that has ended is refused.
   */
  sendMessage(subagent: string, text: string): DelegationOutcome;
  /**
   * Cancels a subagent with all its descendants, and waits until they have ended. The outcome
   * contains what the subagent had so far.
   */
  cancel(subagent: string, reason?: string): Promise<DelegationOutcome>;
}

/** The current state of a subagent. */
export interface SubagentInfo {
  /** The name of the subagent among its siblings, such as `researcher#2`. */
  readonly subagent: string;
  /** The name of its role. */
  readonly role: string;
  /** The text of its task. */
  readonly task: string;
  /** Its current status. */
  readonly status: SettledStatus | "running";
  /** True if the subagent runs in the background. */
  readonly isBackground: boolean;
  /** Tokens that the subagent and its descendants have used so far. */
  readonly totalTokens: number;
}

/**
 * A new task for a subagent that has ended. Fields that cannot apply are refused with a reason.
 *
 * @example
 * ```ts
 * const request: ContinueRequest = { subagent: "researcher#2", task: "Add sources from 2026." };
 * ```
 */
export interface ContinueRequest {
  /** The name of the subagent, such as `researcher#2`. */
  readonly subagent: string;
  /** The new task: a text, or parts such as images and files. */
  readonly task: MessageContent;
  /**
   * Runs the subagent in the background: the call returns a receipt at once, and the result comes
   * as a message.
   *
   * @default false
   */
  readonly background?: boolean;
  /** Must be the role of the subagent if it is set. Any other role is refused. */
  readonly role?: string;
  /** Refused: results of siblings are passed on only when a subagent is started. */
  readonly includeResultsFrom?: readonly string[];
  /** Refused: a subagent keeps its role. */
  readonly roleDefinition?: DynamicRole;
}

/** The subagent that a call requests: a new one, or one that continues. */
export type SubagentRequest =
  | { readonly type: "spawn"; readonly request: SpawnRequest }
  | { readonly type: "continue"; readonly request: ContinueRequest };

/**
 * The result of a delegation: the outcome of a subagent, or a text for the model.
 *
 * @example
 * ```ts
 * const outcome: DelegationOutcome = { type: "answered", text: "All subagents are running." };
 * ```
 */
export type DelegationOutcome = SpawnOutcome | DelegationReply;

/** A text about subagents that the model reads as the result of a call. */
export interface DelegationReply {
  /** Distinguishes a reply from the outcome of a subagent. */
  readonly type: "answered";
  /** The text that the model reads. */
  readonly text: string;
  /**
   * Background subagents whose results are in the text. Their results are not reported again as
   * messages.
   */
  readonly reportedAgentIds?: readonly AgentId[];
}

/** Services for wrappers of a tool, besides the context of the call. */
export interface ToolRuntime {
  /**
   * The name by which the model called the tool, after all renaming. Use it in texts for the model.
   */
  readonly toolName: string;
  /** The clock of the run. */
  readonly clock: Clock;
  /** Milliseconds that a tool may take to end after its signal was aborted. */
  readonly graceMs: number;
  /**
   * Aborted when nothing further may start, or together with the signal of the call. A wrapper that
   * waits should then give up.
   */
  readonly endSignal: AbortSignal;
  /**
   * An object that identifies the run. Wrappers may use it as the key of a `WeakMap` for state of
   * the whole tree.
   */
  readonly run: object;
  /** Records that a failed attempt is repeated without the model, as the event `tool.retried`. */
  readonly noteRetry: (retry: {
    /** The number of the failed attempt, counted from 1. */
    readonly attempt: number;
    /** The error of the failed attempt. */
    readonly error: unknown;
    /** Milliseconds until the next attempt. */
    readonly delayMs: number;
  }) => void;
}
