// Body of each event, by type. A new event needs an entry here and one in `event-schemas.ts`; the
// compiler checks for both.

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { AccountGrant } from "./account.ts";
import type { BudgetEventBodies } from "./budget-event-bodies.ts";
import type { InheritanceRecord } from "./context-manifest.ts";
import type { FinishReason } from "./finish-reason.ts";
import type { AgentId, CallId, QuestionId, RunId, SessionId } from "./ids.ts";
import type { ModelSettings, ToolChoice } from "./model-settings.ts";
import type { Answer, Question } from "./question.ts";
import type { StepTiming } from "./step-timing.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "./stop.ts";
import type { SpawnRefusal, SubagentOutcome } from "./subagent.ts";
import type { ToolFailure } from "./tool-error-record.ts";
import type { ToolOutcomeType } from "./tool-failure.ts";
import type { ModelUsage, Usage, UsageReport } from "./usage.ts";

/**
 * Version of the event vocabulary, in the `schemaVersion` of every `run.started` and `run.resumed`.
 */
export const EVENT_SCHEMA_VERSION = 1;

export const WORK_TYPES = [
  "tool_calls",
  "messages",
  "subtasks",
  "subagents",
  "paused_reply",
  "veto",
  "missing_reply",
  "missing_output",
  "overflow",
] as const satisfies readonly WorkType[];
export type WorkType = EventBodies["continuation.evaluated"]["work"][number];

/**
 * Maps each event type to the fields that events of this type have.
 *
 * Every event also has the fields of {@link EspalierEvent}, such as `seq`, `atMs` and `agentPath`.
 * Read the type of one body as `EventBodies["tool.ended"]`.
 *
 * @example
 * ```ts
 * for await (const event of run.events()) {
 *   if (event.type === "tool.ended") console.log(event.toolName, event.outcome, event.durationMs);
 *   if (event.type === "run.ended") console.log(event.status, event.usage.total.costUsd);
 * }
 * ```
 */
export interface EventBodies extends BudgetEventBodies {
  /**
   * The run begins. This is the first event of a run, before its root agent starts.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "run.started") console.log(event.role, event.task, event.budget.costUsd);
   * ```
   */
  readonly "run.started": {
    /** Version of the event vocabulary. The events that follow conform to this version. */
    readonly schemaVersion: 1;
    /** Role name of the root agent. */
    readonly role: string;
    /** Text of the task. */
    readonly task: string;
    /** Limits on the shape of the agent tree. */
    readonly limits: {
      /** Maximum depth of a subagent. The root has depth 0. */
      readonly maxDepth: number;
      /** Maximum number of subagents that one agent may start. */
      readonly maxBreadthPerParent: number;
      /** Maximum number of subagents that the run may start. */
      readonly maxTotalSubagents: number;
    };
    /** Budget of the run by axis, in the units of `Budget`. Contains limited axes only. */
    readonly budget: AccountGrant["budget"];
    /** Session that the run continues. Absent if the run has no session. */
    readonly sessionId?: SessionId | undefined;
    /** Milliseconds that the run waited for its slot. Absent without `maxConcurrentRuns`. */
    readonly queuedMs?: number | undefined;
    /** Caller's span that is the parent of this run, as a W3C Trace Context `traceparent`. */
    readonly traceparent?: string | undefined;
    /** Origin of a forked run. Absent if the run is not a fork. */
    readonly forkedFrom?:
      | {
          /** Run from which this run was forked. */
          readonly runId: RunId;
          /** Last step of the root that the fork shares with the other run. 0 if it shares none. */
          readonly stepNumber: number;
          /** Trace id of the other run. */
          readonly traceId: string;
          /** Span id of the other run in that trace. */
          readonly spanId?: string | undefined;
          /** True if that trace was sampled. */
          readonly isSampled?: boolean | undefined;
        }
      | undefined;
  };
  /**
   * The run has ended, including its detached agents. This is the last event of a run.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "run.ended" && event.status !== "completed")
   *     console.error(event.reason.code, event.reason.message);
   * ```
   */
  readonly "run.ended": {
    /** Final status of the run. */
    readonly status: TerminalStatus;
    /** Reason of the highest-ranking stop signal. */
    readonly reason: StopReason;
    /** Last error of the root. Absent unless the run failed. */
    readonly error?: ErrorRecord | undefined;
    /** All stop signals of the root, in order of arrival. */
    readonly signals: readonly StopSignal[];
    /** Usage of the whole run. */
    readonly usage: UsageReport;
    /** Number of subagents started at each depth. The first key is "1". */
    readonly subagentsByDepth: Readonly<Record<string, number>>;
    /** Number of refused subagents by refusal code. */
    readonly refusalsByCode: Readonly<Record<string, number>>;
    /** Milliseconds since the root's execution began, including pauses. */
    readonly durationMs: number;
  };
  /**
   * The run pauses until it is resumed. It waits for answers, or `requestPause` was called.
   *
   * This is the last event before `run.resumed`.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "run.paused")
   *     for (const { toolName, reason } of event.questions) console.log(`${toolName}: ${reason}`);
   * ```
   */
  readonly "run.paused": {
    /** Reason for the pause. */
    readonly reason: StopReason;
    /** Questions of the whole tree that must be answered before the run can continue. */
    readonly questions: readonly Question[];
    /** Usage of the whole run so far. */
    readonly usage: UsageReport;
    /** Milliseconds since the root's execution began, including pauses. */
    readonly durationMs: number;
  };
  /**
   * The run continues: after a pause, after a grant that followed a limit, or in another process
   * after a crash.
   */
  readonly "run.resumed": {
    /** Version of the event vocabulary, as in `run.started`. */
    readonly schemaVersion: 1;
    /** Role name of the root agent. */
    readonly role: string;
    /** Text of the task. */
    readonly task: string;
    /** Limits on the shape of the agent tree, as in `run.started`. */
    readonly limits: EventBodies["run.started"]["limits"];
    /**
     * Remaining budget of the run by axis, in the units of `Budget`. Contains limited axes only.
     */
    readonly budget: AccountGrant["budget"];
    /** Number of times that the run has been paused. */
    readonly pauseCount: number;
    /** Milliseconds between the pause and the resumption. */
    readonly pausedMs: number;
    /** Session that the run continues. Absent if the run has no session. */
    readonly sessionId?: SessionId | undefined;
    /** Milliseconds that the run waited for its slot, as in `run.started`. */
    readonly queuedMs?: number | undefined;
    /** Trace id of the run before the pause. */
    readonly previousTraceId: string;
    /** Span id of the run in that trace. */
    readonly previousSpanId?: string | undefined;
    /** True if that trace was sampled. */
    readonly wasSampled?: boolean | undefined;
    /** Caller's span as in `run.started`, if `run.started` was not persisted. */
    readonly traceparent?: string | undefined;
    /** Number of answers passed with the resumption. */
    readonly answerCount: number;
    /** Set if the previous process of the run died or released the run. */
    readonly recovery?:
      | {
          /** Number of model calls with an unknown outcome. They are charged by estimate. */
          readonly lostCallCount: number;
          /**
           * True if the span of the run was still open. The run continues in that span, under the
           * same ids.
           */
          readonly isSpanOpen: boolean;
        }
      | undefined;
  };
  /** An execution of an agent begins: its first, or another that continues its history. */
  readonly "agent.started": {
    /** Role name of the agent. */
    readonly role: string;
    /** Description of the role, as the parent's model reads it. Absent if the role has none. */
    readonly description?: string | undefined;
    /** Provider of the agent's model. */
    readonly provider: string;
    /** Id of the agent's model. */
    readonly model: string;
    /** Text of the task. */
    readonly task: string;
    /**
     * Tool call of the parent that spawned the agent. `null` for the root and for queued subtasks.
     */
    readonly spawnCallId: CallId | null;
    /**
     * Remaining budget by axis: the tightest of the agent's budget and its ancestors'. Contains
     * limited axes only.
     */
    readonly budget: AccountGrant["budget"];
  };
  /**
   * The execution pauses together with its run. `agent.resumed` follows when the run is resumed.
   */
  readonly "agent.paused": {
    /** Role name of the agent. */
    readonly role: string;
    /** Reason for the pause. */
    readonly reason: StopReason;
    /** Number of completed steps in this execution. */
    readonly stepCount: number;
    /** Usage of the agent and its descendants so far. */
    readonly usage: UsageReport;
  };
  /** The execution continues after a pause or after its process died. */
  readonly "agent.resumed": EventBodies["agent.started"];
  /**
   * The execution has ended. This is the last event of an execution.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "agent.ended")
   *     console.log(event.agentPath, event.status, event.stepCount, event.usage.own.totalTokens);
   * ```
   */
  readonly "agent.ended": {
    /** Role name of the agent. */
    readonly role: string;
    /** Final status of the execution. */
    readonly status: TerminalStatus;
    /** Reason of the highest-ranking stop signal. */
    readonly reason: StopReason;
    /** Number of completed steps in this execution. */
    readonly stepCount: number;
    /** Last text that the agent wrote. Partial unless the execution completed. */
    readonly text: string;
    /** Usage of the agent and its descendants. */
    readonly usage: UsageReport;
    /** Error that failed the execution. Absent unless it failed. */
    readonly error?: ErrorRecord | undefined;
    /** All stop signals of the execution, in order of arrival. */
    readonly signals: readonly StopSignal[];
    /** Milliseconds since the execution began, including pauses. */
    readonly durationMs: number;
  };
  /** A step begins: the request is built, budget is reserved, and the model call follows. */
  readonly "step.started": {
    /** Step number in the execution, from 1. */
    readonly number: number;
    /** Hash of the instructions sent to the model: 64 hexadecimal digits. */
    readonly promptHash: string;
    /** Hash of the tool definitions sent to the model: 64 hexadecimal digits. */
    readonly toolsHash: string;
  };
  /**
   * A step has ended. Every tool call of the reply has a result, or an error cut the step off.
   *
   * Each `step.started` is followed by one `step.completed`.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "step.completed")
   *     console.log(event.number, event.usage.totalTokens, event.timing.inferenceMs);
   * ```
   */
  readonly "step.completed": {
    /** Step number in the execution, from 1. */
    readonly number: number;
    /** Usage of the step, including its tool calls and the summaries of their results. */
    readonly usage: Usage;
    /** Milliseconds of the step by activity: inference, tools, hooks and formatting. */
    readonly timing: StepTiming;
    /** Number of tool calls in the reply. */
    readonly toolCallCount: number;
    /** Error that cut the step off. Absent if the step is whole. */
    readonly error?: ErrorRecord | undefined;
  };
  /**
   * A request is about to be sent to a model: of a step, of a summary, or a further call by a hook.
   *
   * Its attempts follow. The call ends with `model.replied` or `model.failed`.
   */
  readonly "model.requested": {
    /** Provider of the requested model. */
    readonly provider: string;
    /** Id of the requested model. */
    readonly model: string;
    /** Server of the model. Absent if the adapter does not report it. */
    readonly server?:
      | {
          /** Host name. */
          readonly address: string;
          /** Port. Absent for the default port of the protocol. */
          readonly port?: number | undefined;
        }
      | undefined;
    /** Number of messages in the request. */
    readonly messageCount: number;
    /** Names of the tools offered to the model, in request order. */
    readonly toolNames: readonly string[];
    /** Input tokens reserved for the request. */
    readonly estimatedInputTokens: number;
    /**
     * True if `estimatedInputTokens` is at least partly estimated. False if the model counted every
     * token.
     */
    readonly isEstimated: boolean;
    /**
     * Maximum output tokens of the reply: the role's `maxOutputTokens`, or less if the budget has
     * less left.
     */
    readonly maxOutputTokens: number;
    /** Sampling temperature. Absent for the provider's default. */
    readonly temperature?: number | undefined;
    /** Settings of the request: the role's merged over the model's own. */
    readonly settings?: ModelSettings | undefined;
    /** Tool choice of the request. Absent for the model's default. */
    readonly toolChoice?: ToolChoice | undefined;
    /** `json` if the reply must conform to the schema of the typed result. Absent for free text. */
    readonly outputType?: "json" | undefined;
    /** OpenAI API that the request uses. Absent for other providers. */
    readonly apiType?: "chat_completions" | "responses" | undefined;
    /** Requested service tier, in the provider's vocabulary, such as `flex` or `priority`. */
    readonly serviceTier?: string | undefined;
    /** True if the reply is requested as a stream. */
    readonly streaming: boolean;
    /**
     * Milliseconds that the call waited for a slot or a provider rate limit. Absent if it did not
     * wait.
     */
    readonly queuedMs?: number | undefined;
    /**
     * Prefix that the request shares with the previous request of the execution. Providers' prompt
     * caches depend on it.
     *
     * Absent for the first request in a process, and if no observer received the previous event.
     */
    readonly prefix?:
      | {
          /**
           * True if the request begins with the whole previous request, except its single-step
           * messages.
           */
          readonly isUnchanged: boolean;
          /** Number of leading messages that are unchanged. 0 if the tools changed. */
          readonly messageCount: number;
          /** First part that changed. Tools precede messages. Absent if the prefix is unchanged. */
          readonly changed?: "tools" | "messages" | undefined;
        }
      | undefined;
  };
  /**
   * An attempt of a model call failed. The call is repeated, or continues with the next fallback
   * model.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "model.retried")
   *     console.warn(event.attempt, event.error.code, `retry in ${event.delayMs} ms`);
   * ```
   */
  readonly "model.retried": {
    /** Number of the failed attempt, from 1. */
    readonly attempt: number;
    /** Error of the failed attempt. */
    readonly error: ErrorRecord;
    /** Milliseconds until the next attempt. */
    readonly delayMs: number;
    /**
     * Milliseconds that the attempt waited for a slot or a provider rate limit. Absent if it did
     * not wait.
     */
    readonly queuedMs?: number | undefined;
    /** Fallback model that the call continues with. Absent if the same model is called again. */
    readonly nextModel?: Pick<ModelUsage, "provider" | "model"> | undefined;
  };
  /**
   * The provider ignored, changed or could not read part of a request. Each warning is reported
   * once per run.
   */
  readonly "model.warned": {
    /** Text of the warning. */
    readonly warning: string;
  };
  /**
   * The model call that began with `model.requested` has ended with a reply.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "model.replied" && event.finishReason === "length")
   *     console.warn(`${event.agentPath}: the reply was cut off at its output limit.`);
   * ```
   */
  readonly "model.replied": {
    /** Finish reason of the reply. */
    readonly finishReason: FinishReason;
    /** Number of tool calls in the reply. */
    readonly toolCallCount: number;
    /** Usage of the call, including failed attempts. */
    readonly usage: Usage;
    /** Input tokens written to the provider's prompt cache. They are part of the input tokens. */
    readonly cacheWriteInputTokens?: number | undefined;
    /** Number of attempts, from 1. */
    readonly attemptCount: number;
    /** Id that the provider gave the reply. */
    readonly responseId?: string | undefined;
    /** Model that answered, as the provider names it. */
    readonly responseModel?: string | undefined;
    /** Service tier that served the call, in the provider's vocabulary. */
    readonly serviceTier?: string | undefined;
    /** Fallback model that answered. Absent if the requested model answered. */
    readonly repliedBy?:
      | {
          /** Provider of the model that answered. */
          readonly provider: string;
          /** Id of the model that answered. */
          readonly model: string;
          /** Id of the requested model. */
          readonly insteadOf: string;
          /** Server of the model that answered. Absent if the adapter does not report it. */
          readonly server?: EventBodies["model.requested"]["server"];
        }
      | undefined;
    /** Milliseconds that all attempts of the call waited for slots and provider rate limits. */
    readonly queuedMs: number;
  };
  /**
   * The model call that began with `model.requested` has ended without a reply.
   *
   * All attempts failed, or the agent had to end.
   */
  readonly "model.failed": {
    /**
     * Error of the last attempt. The code `cancelled` means that the agent had to end during the
     * call.
     */
    readonly error: ErrorRecord;
    /** True if the error is transient and the attempts are used up. */
    readonly isRetryable: boolean;
    /** Usage of all attempts. */
    readonly usage: Usage;
    /** Number of attempts made. */
    readonly attemptCount: number;
    /** Milliseconds that all attempts of the call waited for slots and provider rate limits. */
    readonly queuedMs: number;
  };
  /**
   * A tool call runs: the tool exists, the arguments are valid, and the call is permitted. A call
   * that does not run has `tool.rejected` in place of this event and `tool.ended`.
   *
   * The event contains no arguments. Arguments and results are in the stream parts of
   * `run.stream()` and in the steps of the result.
   *
   * @example
   * ```ts
   * for await (const event of run.events()) {
   *   if (event.type === "tool.started") console.log("calls", event.toolName);
   *   if (event.type === "tool.ended") console.log(event.toolName, event.outcome);
   *   if (event.type === "tool.rejected") console.warn(event.toolName, event.error.code);
   * }
   * ```
   */
  readonly "tool.started": {
    /** Tool name. */
    readonly toolName: string;
    /** Kind of the tool: a function, a delegation, an external tool, or the built-in `Finish`. */
    readonly kind: "function" | "delegation" | "external" | "finish";
    /** Tool description that the model reads. */
    readonly description: string;
    /** Index of the call in the reply, from 0. */
    readonly index: number;
    /** True if the model's arguments were invalid JSON and were repaired. */
    readonly isRepaired?: true;
  };
  /**
   * A tool call ended without running: it is unknown, invalid, denied, refused by a limit, or
   * skipped.
   *
   * Each tool call has either this event or `tool.started`.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "tool.rejected")
   *     console.warn(event.toolName, event.reason ?? event.error.message);
   * ```
   */
  readonly "tool.rejected": {
    /** Tool name as the model wrote it. */
    readonly toolName: string;
    /** Kind of the tool. */
    readonly kind: EventBodies["tool.started"]["kind"];
    /**
     * Tool description. Empty if the tool does not exist; the name is then arbitrary text from the
     * model.
     */
    readonly description: string;
    /** Index of the call in the reply, from 0. */
    readonly index: number;
    /** Outcome of the call. */
    readonly outcome: Exclude<ToolOutcomeType, "succeeded">;
    /** Code, message and severity of the failure. */
    readonly error: ToolFailure;
    /** Names of the guards and hooks that denied the call, separated by commas. */
    readonly blockedBy?: string;
    /** Reasons for the denial, from guards, the hook or the approver. */
    readonly reason?: string;
    /** Refused subagent, if the call would have started one. */
    readonly spawn?: {
      /** Name of the requested role. */
      readonly role: string;
      /** True if the run has a role of this name. */
      readonly isKnownRole?: true;
      /** Code, message and limit of the refusal. */
      readonly error: SpawnRefusal;
    };
    /** Length of the result in UTF-16 code units. */
    readonly resultCharacters: number;
    /**
     * Length of the part that the model reads, in UTF-16 code units. Absent if the model reads
     * everything.
     */
    readonly shownCharacters?: number;
  };
  /** A delegation pauses together with its subagent. */
  readonly "tool.paused": {
    /** Tool name. */
    readonly toolName: string;
  };
  /** A delegation continues together with its paused subagent. */
  readonly "tool.resumed": EventBodies["tool.started"];
  /**
   * A tool call that ran has ended, with or without success. The model reads its result next.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "tool.ended" && !event.success)
   *     console.warn(event.toolName, event.error?.code, event.error?.message);
   * ```
   */
  readonly "tool.ended": {
    /** Tool name. */
    readonly toolName: string;
    /** Outcome of the call. */
    readonly outcome: ToolOutcomeType;
    /** True if the outcome is `succeeded`. */
    readonly success: boolean;
    /** Code, message and severity of the failure. Absent on success. */
    readonly error?: ToolFailure | undefined;
    /** Length of the whole result in UTF-16 code units. */
    readonly resultCharacters: number;
    /**
     * Length of the part that the model reads, in UTF-16 code units. Absent if the model reads
     * everything.
     */
    readonly shownCharacters?: number | undefined;
    /** Number of images, audio files and other files in the result. Absent without attachments. */
    readonly attachmentCount?: number | undefined;
    /** Milliseconds that the tool ran. */
    readonly durationMs: number;
    /** Milliseconds that the call waited for a concurrency slot. */
    readonly queuedMs: number;
    /** Usage of the delegated subtree. Absent unless the call delegated. */
    readonly usage?: Usage | undefined;
  };
  /** All guards of a tool call have decided. */
  readonly "tool.guarded": {
    /** Tool name. */
    readonly toolName: string;
    /** Combined decision. `deny` overrides `ask`, and `ask` overrides `allow`. */
    readonly decision: "allow" | "ask" | "deny";
    /** Decisions of the guards, in call order. */
    readonly answers: readonly {
      /** Guard name. */
      readonly guard: string;
      /** Decision of the guard. */
      readonly answer: "allow" | "ask" | "deny";
      /** Reason that the guard gave. */
      readonly reason?: string | undefined;
    }[];
  };
  /** A retry wrapper calls the tool again, without the model. */
  readonly "tool.retried": {
    /** Tool name. */
    readonly toolName: string;
    /** Number of the failed attempt, from 1. */
    readonly attempt: number;
    /** Error of the failed attempt. */
    readonly error: ErrorRecord;
    /** Milliseconds until the next attempt. */
    readonly delayMs: number;
  };
  /**
   * A tool reports its progress.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "tool.progressed")
   *     console.log(event.toolName, event.done ?? 0, event.total ?? "?", event.message ?? "");
   * ```
   */
  readonly "tool.progressed": {
    /** Tool name. */
    readonly toolName: string;
    /** Amount done, in units that the tool chooses. */
    readonly done?: number | undefined;
    /** Total amount, in the same units as `done`. */
    readonly total?: number | undefined;
    /** Description of the current work. */
    readonly message?: string | undefined;
  };
  /**
   * A tool result that was too long for the model was summarized. The step's usage includes the
   * cost.
   */
  readonly "result.summarized": {
    /** Tool name. */
    readonly toolName: string;
    /** Length of the whole result in UTF-16 code units. */
    readonly resultCharacters: number;
    /** Length of the summary in UTF-16 code units. */
    readonly shownCharacters: number;
    /** Usage of the summary. */
    readonly usage: Usage;
  };
  /** Tool filters removed tools from the request of this step. */
  readonly "tools.filtered": {
    /** Removed tools. */
    readonly removed: readonly {
      /** Tool name. */
      readonly toolName: string;
      /** Name of the filter that removed the tool. */
      readonly filter: string;
    }[];
  };
  /** The text of a reply only repeated the arguments of a tool call, and was dropped. */
  readonly "reply.filtered": {
    /** Tool of the call. */
    readonly toolName: string;
    /** Length of the dropped text in UTF-16 code units. */
    readonly characters: number;
  };
  /**
   * A tool call waits for an answer: an approval, or the result of an external tool.
   *
   * The approver is called, or the run pauses.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "question.asked")
   *     console.log(event.questionId, event.reason, event.toolName, event.arguments);
   * ```
   */
  readonly "question.asked": Omit<Question, "agentId" | "agentPath" | "callId">;
  /** A question is closed: it was answered, its deadline passed, or its agent ended. */
  readonly "question.answered": {
    /** Id of the question, as in `question.asked`. */
    readonly questionId: QuestionId;
    /** Tool of the call. */
    readonly toolName: string;
    /** Type of the answer. An unanswered approval counts as `denied`. */
    readonly answer: Answer["type"];
    /**
     * Source of the answer. `caller` resumed the run with it. `nobody` means that no approver
     * answered, and `end` that the agent ended.
     */
    readonly source: "approver" | "caller" | "deadline" | "nobody" | "end";
    /** Name of the person who decided, as in `by` of the answer. Absent if the answer has none. */
    readonly by?: string | undefined;
    /** Reason that came with the answer. */
    readonly reason?: string | undefined;
    /** Arguments with which the call runs. Absent unless the approval changed them. */
    readonly arguments?: JsonObject | undefined;
    /** Milliseconds from the question to the answer, including pauses. */
    readonly waitedMs: number;
  };
  /** Transform hooks changed values at one point. */
  readonly "hook.applied": {
    /** Point at which the hooks ran, such as `beforeModel`. */
    readonly point: string;
    /** Hooks that made changes, in call order. */
    readonly changedBy: readonly {
      /** Hook name. */
      readonly hook: string;
      /** Changed fields. */
      readonly fields: readonly string[];
    }[];
    /** Arguments of the tool call before the hooks. Set at `beforeTool` only. */
    readonly before?: JsonValue | undefined;
    /** Arguments of the tool call after the hooks. Set at `beforeTool` only. */
    readonly after?: JsonValue | undefined;
  };
  /** A message list that hooks left invalid was repaired before the model call. */
  readonly "request.repaired": {
    /** Number of messages that were repaired, added or dropped. */
    readonly repairCount: number;
    /** Distinct kinds of repairs, such as `dropped_result` or `added_result`. */
    readonly types?: readonly string[] | undefined;
  };
  /**
   * The history was shortened between two steps. It exceeded the configured limit, or the model's
   * context window.
   */
  readonly "conversation.compacted": {
    /** Number of messages before the compaction. */
    readonly messagesBefore: number;
    /** Number of messages after the compaction. */
    readonly messagesAfter: number;
    /** Input tokens of the history before, counted or estimated. */
    readonly tokensBefore: number;
    /** Input tokens of the history after, counted or estimated. */
    readonly tokensAfter: number;
    /**
     * Length of the summary that replaces the dropped messages, in UTF-16 code units. Absent
     * without a summary.
     */
    readonly summaryCharacters?: number | undefined;
    /** Usage of the summary, even if it failed. It belongs to no step. */
    readonly usage?: Usage | undefined;
  };
  /** A request section with the lifetime `execution` was removed, because its execution ended. */
  readonly "section.cleared": {
    /** Section name. */
    readonly name: string;
    /** Number of messages that the section had in each request. 0 if the section was empty. */
    readonly count: number;
  };
  /** A message from outside the execution was added to the history. */
  readonly "message.delivered": {
    /**
     * Source of the message.
     *
     * - `steering`: sent with `steer`, or by another agent.
     * - `subtask`: queued by a tool.
     * - `report`: the result of a background subagent.
     */
    readonly origin: "steering" | "subtask" | "report";
    /** Length of the text in UTF-16 code units. */
    readonly characters: number;
    /**
     * Agent that wrote the message or whose result it is. Absent if it came from outside the tree.
     */
    readonly fromAgentId?: AgentId | undefined;
  };
  /**
   * A subagent was created. The event belongs to the parent; the subagent's `agent.started`
   * follows.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "subagent.spawned")
   *     console.log(`${event.agentPath} delegates to ${event.childPath}: ${event.task}`);
   * ```
   */
  readonly "subagent.spawned": {
    /** Id of the subagent. */
    readonly childId: AgentId;
    /** Path of the subagent in the tree, such as `lead/researcher#2`. */
    readonly childPath: string;
    /** Role name of the subagent. */
    readonly role: string;
    /** Depth of the subagent. 1 is directly below the root. */
    readonly childDepth: number;
    /** Text of the task. */
    readonly task: string;
    /** True if the subagent runs in the background, in parallel to its parent. */
    readonly isBackground: boolean;
    /** Context that the subagent inherited besides its instructions and its task. */
    readonly inherited: InheritanceRecord;
    /** Number of subagents started at each depth, including this one. The first key is "1". */
    readonly subagentsByDepth: Readonly<Record<string, number>>;
  };
  /** An ended subagent continues its history in a further execution. No new subagent is created. */
  readonly "subagent.continued": {
    /** Id of the subagent. */
    readonly childId: AgentId;
    /** Path of the subagent in the tree, such as `lead/researcher#2`. */
    readonly childPath: string;
    /** Role name of the subagent. */
    readonly role: string;
    /** Depth of the subagent. 1 is directly below the root. */
    readonly childDepth: number;
    /** Text of the new task. */
    readonly task: string;
    /** True if the subagent runs in the background, in parallel to its parent. */
    readonly isBackground: boolean;
    /** Number of this execution of the subagent, from 2. */
    readonly execution: number;
  };
  /**
   * A background subagent was detached from its parent. It continues after the parent has ended.
   */
  readonly "subagent.detached": {
    /** Id of the subagent. */
    readonly childId: AgentId;
    /** Path of the subagent in the tree, such as `lead/researcher#2`. */
    readonly childPath: string;
    /** Role name of the subagent. */
    readonly role: string;
  };
  /**
   * A subagent was refused by a limit, the budget or a rule. It has no id. The model reads the
   * reason.
   */
  readonly "subagent.refused": {
    /** Name of the requested role. */
    readonly role: string;
    /**
     * True if the run has a role of this name. Absent: the name is arbitrary text from the model.
     */
    readonly isKnownRole?: true;
    /** Depth that the subagent would have had. */
    readonly childDepth: number;
    /** Code, message and limit of the refusal. */
    readonly error: SpawnRefusal;
  };
  /**
   * A subagent has ended. The event belongs to the parent and follows the subagent's `agent.ended`.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "subagent.ended" && event.outcome !== "completed")
   *     console.warn(event.childPath, event.outcome, event.reason.message);
   * ```
   */
  readonly "subagent.ended": {
    /** Id of the subagent. */
    readonly childId: AgentId;
    /** Path of the subagent in the tree, such as `lead/researcher#2`. */
    readonly childPath: string;
    /** Role name of the subagent. */
    readonly role: string;
    /** Depth of the subagent. 1 is directly below the root. */
    readonly childDepth: number;
    /** Quality of the result. Only `completed` is a success. */
    readonly outcome: SubagentOutcome;
    /** Final status of the subagent. */
    readonly status: TerminalStatus;
    /** Reason why the subagent ended. */
    readonly reason: StopReason;
    /** Usage of the subagent and its descendants. */
    readonly usage: UsageReport;
  };
  /**
   * A stop signal was raised by a limit, an error, a stop condition, a hook, the caller, or the
   * answer.
   *
   * The agent ends with the highest-ranking signal.
   */
  readonly "signal.raised": {
    /** Raised signal. */
    readonly signal: StopSignal;
  };
  /** The agent has decided how to proceed after a step. */
  readonly "continuation.evaluated": {
    /** Decision: take another step, end, shorten the history, or repeat the model call. */
    readonly decision: "continue" | "stop" | "compact" | "retry";
    /**
     * Work that requires another step.
     *
     * - `tool_calls`: tool results that the model has not read.
     * - `messages`: new messages in the mailbox.
     * - `subtasks`: subtasks that tools queued.
     * - `subagents`: background subagents that have not reported.
     * - `paused_reply`: a reply that the provider paused.
     * - `veto`: a stop hook returned `continueWith`.
     * - `missing_reply`: an empty or unusable reply.
     * - `missing_output`: a typed result that is still missing.
     * - `overflow`: a request that exceeded the context window.
     */
    readonly work: readonly (
      | "tool_calls"
      | "messages"
      | "subtasks"
      | "subagents"
      | "paused_reply"
      | "veto"
      | "missing_reply"
      | "missing_output"
      | "overflow"
    )[];
    /** Hook that made the agent continue after its answer. */
    readonly vetoedBy?: string | undefined;
    /** All stop signals raised so far. */
    readonly signals: readonly StopSignal[];
    /** Reason of the highest-ranking signal, if the agent ends. */
    readonly reason?: StopReason | undefined;
  };
}
