// What each event says, by its type. A new event is an entry here and one in `event-schemas.ts`, which the compiler asks for.

import type { JsonValue } from "../kernel/json.ts";
import type { AccountGrant } from "./account.ts";
import type { ContextManifest } from "./context-manifest.ts";
import type { AgentId, CallId, LeaseId, QuestionId, RunId, SessionId } from "./ids.ts";
import type { ModelSettings, ToolChoice } from "./model-settings.ts";
import type { AnswerType, Question } from "./question.ts";
import type { StepTiming } from "./step-timing.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "./stop.ts";
import type { SpawnRefusal, SubagentOutcome } from "./subagent.ts";
import type { ToolErrorSeverity } from "./tool-error-record.ts";
import type { ToolOutcomeType } from "./tool-outcome.ts";
import type { ModelUsage, Usage, UsageReport } from "./usage.ts";

/** Version of the event vocabulary, on every `run.started` and `run.resumed`. */
export const EVENT_SCHEMA_VERSION = 1;

/**
 * What makes an agent take another step (R61): calls that were answered, messages and subtasks that came in, a veto, a reply or a result
 * that is still missing.
 */
export type WorkType =
  | "tool_calls"
  | "messages"
  | "subtasks"
  | "subagents"
  | "veto"
  | "missing_reply"
  | "missing_output"
  | "overflow";

/** What each event says, by its type: the content of an event without its stamp. */
export interface EventBodies {
  readonly "run.started": {
    readonly schemaVersion: typeof EVENT_SCHEMA_VERSION;
    readonly role: string;
    readonly task: string;
    readonly limits: {
      readonly maxDepth: number;
      readonly maxBreadthPerParent: number;
      readonly maxTotalSubagents: number;
    };
    /** What the run may spend; limited axes only. */
    readonly budget: Readonly<Record<string, number>>;
    /** The session on which it runs. */
    readonly sessionId?: SessionId | undefined;
    /** The span of the caller below which it was asked to stand, as W3C Trace Context writes it. */
    readonly traceparent?: string | undefined;
    /** The run and the step of its root from which this one was forked, and the trace and span of that run (X24). */
    readonly forkedFrom?:
      | {
          readonly runId: RunId;
          readonly stepNumber: number;
          readonly traceId: string;
          readonly spanId?: string | undefined;
          /** Whether its trace was taken. */
          readonly isSampled?: boolean | undefined;
        }
      | undefined;
  };
  readonly "run.ended": {
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    /** Set when the run failed: the root's last error. */
    readonly error?: ErrorRecord | undefined;
    /** All stop signals of the root, in order of arrival; `reason` is that of the highest. */
    readonly signals: readonly StopSignal[];
    readonly usage: UsageReport;
    /** Subagents started at each depth, from "1". */
    readonly subagentsByDepth: Readonly<Record<string, number>>;
    readonly refusalsByCode: Readonly<Record<string, number>>;
    readonly durationMs: number;
  };
  readonly "run.paused": {
    readonly reason: StopReason;
    /** What must be answered before the run can continue, of the whole tree. */
    readonly questions: readonly Question[];
    readonly usage: UsageReport;
    readonly durationMs: number;
  };
  readonly "run.resumed": {
    readonly schemaVersion: typeof EVENT_SCHEMA_VERSION;
    readonly role: string;
    readonly task: string;
    readonly limits: EventBodies["run.started"]["limits"];
    /** What the run may still spend; limited axes only. */
    readonly budget: Readonly<Record<string, number>>;
    /** How often the run has been paused. */
    readonly pauses: number;
    readonly pausedMs: number;
    readonly sessionId?: SessionId | undefined;
    /** The trace of the run up to the pause, and the span of the run in it. */
    readonly previousTraceId: string;
    readonly previousSpanId?: string | undefined;
    /** Whether that trace was taken. */
    readonly wasSampled?: boolean | undefined;
    /** As in `run.started`, if that was not kept. */
    readonly traceparent?: string | undefined;
    readonly answers: number;
    /** Set if its process had died, or had given it up. */
    readonly recovery?:
      | {
          /** Model calls whose end is unknown; they are charged by estimate. */
          readonly lostCalls: number;
          /** The span of the run had not ended: it goes on, under the ids that it had. Set since 0.1.0; a run of before has a further trace. */
          readonly isSpanOpen?: boolean | undefined;
        }
      | undefined;
  };
  readonly "agent.started": {
    readonly role: string;
    readonly purpose?: string | undefined;
    readonly provider: string;
    readonly model: string;
    readonly task: string;
    /** The call that spawned it, in its parent; null for the root and for subtasks. */
    readonly spawnCallId: CallId | null;
    /** What it may still spend: the tightest of its own budget and its ancestors'. Limited axes only. */
    readonly budget: Readonly<Record<string, number>>;
  };
  readonly "agent.paused": {
    readonly role: string;
    readonly reason: StopReason;
    readonly steps: number;
    readonly usage: UsageReport;
  };
  readonly "agent.resumed": EventBodies["agent.started"];
  readonly "agent.ended": {
    readonly role: string;
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    readonly steps: number;
    readonly text: string;
    readonly usage: UsageReport;
    readonly error?: ErrorRecord | undefined;
    /** All stop signals of the execution, in order of arrival; `reason` is that of the highest. */
    readonly signals: readonly StopSignal[];
    readonly durationMs: number;
  };
  readonly "step.started": {
    /** From 1. */
    readonly number: number;
    /** Of the instructions, and of the tool definitions, that the model is shown (C28). */
    readonly promptHash: string;
    readonly toolsHash: string;
  };
  readonly "step.completed": {
    readonly number: number;
    readonly usage: Usage;
    /** What its time went into. */
    readonly timing: StepTiming;
    readonly toolCalls: number;
    /** Set when the step was cut off by an error. */
    readonly error?: ErrorRecord | undefined;
  };
  readonly "model.requested": {
    readonly provider: string;
    readonly model: string;
    /** Where the model is served, if that is known. */
    readonly server?: { readonly address: string; readonly port?: number | undefined } | undefined;
    readonly messageCount: number;
    readonly toolNames: readonly string[];
    /** How long the request is: what is leased for it. */
    readonly estimatedInputTokens: number;
    /** True if that is an estimate, in part at least; false if the model counted it all itself (R101). */
    readonly isEstimated: boolean;
    readonly maxOutputTokens: number;
    readonly temperature?: number | undefined;
    readonly settings?: ModelSettings | undefined;
    readonly toolChoice?: ToolChoice | undefined;
    /** `json`: the model is held to the schema of its typed result. */
    readonly outputType?: "json" | undefined;
    /** The interface of OpenAI's over which it is asked, and how fast it is to be served, where its adapter says so. */
    readonly apiType?: "chat_completions" | "responses" | undefined;
    readonly serviceTier?: string | undefined;
    readonly streaming: boolean;
    /**
     * How far it begins like the last request of the execution, which is what prompt caches of providers go by (X31). Absent: there was
     * none before it, in this process.
     */
    readonly prefix?:
      | {
          /** It begins with all of the last one, less what stood at the end of that for its step alone. */
          readonly isHeld: boolean;
          /** So many messages at its beginning are the same; 0 if the tools are not. */
          readonly messages: number;
          /** What is not the same, if it does not hold. Tools come before messages. */
          readonly changed?: "tools" | "messages" | undefined;
        }
      | undefined;
  };
  readonly "model.retried": {
    /** Of the attempt that failed, from 1. */
    readonly attempt: number;
    readonly error: ErrorRecord;
    readonly delayMs: number;
    /** Set if the attempt goes on instead, with this model of a fallback. */
    readonly nextModel?: { readonly provider: string; readonly model: string } | undefined;
  };
  /** What of a request the provider left out or changed, or could not read; each text comes once in a run. */
  readonly "model.warned": { readonly warning: string };
  readonly "model.replied": {
    readonly finishReason: string;
    /** In the provider's own word, where that is more exact. */
    readonly rawFinishReason?: string | undefined;
    readonly toolCalls: number;
    readonly usage: Usage;
    /** Part of the input tokens: written to the cache of the provider, if it reports that. */
    readonly cacheWriteInputTokens?: number | undefined;
    readonly attempts: number;
    readonly responseId?: string | undefined;
    readonly responseModel?: string | undefined;
    /** How fast it was served, in the provider's word. */
    readonly serviceTier?: string | undefined;
    /** Set if it was not the model that was asked for, but another one of its fallback. */
    readonly answeredBy?:
      | {
          readonly provider: string;
          readonly model: string;
          /** The model that was asked for. */
          readonly insteadOf: string;
          readonly server?:
            | { readonly address: string; readonly port?: number | undefined }
            | undefined;
        }
      | undefined;
    readonly queuedMs: number;
  };
  readonly "model.failed": {
    /** `cancelled`: the agent had to end while the model answered; no failure. */
    readonly error: ErrorRecord;
    readonly isRetryable: boolean;
    readonly usage: Usage;
    readonly attempts: number;
    readonly queuedMs: number;
  };
  /** A call runs: its tool was found, its arguments fit, and nothing forbids it. */
  readonly "tool.started": {
    readonly toolName: string;
    readonly kind: "function" | "delegation" | "external" | "finish";
    readonly description: string;
    /** The model's arguments were no JSON until a small slip in them was mended. */
    readonly isMended?: true;
  };
  /**
   * A call that is not run, whole: unknown, with arguments that do not fit, denied, refused by a limit, or left out. Every call has either
   * this event or `tool.started`.
   */
  readonly "tool.rejected": {
    readonly toolName: string;
    readonly kind: EventBodies["tool.started"]["kind"];
    /** Empty if there is no such tool: then the name may be any text that a model wrote. */
    readonly description: string;
    readonly outcome: Exclude<ToolOutcomeType, "succeeded">;
    readonly errorCode: string;
    readonly severity: ToolErrorSeverity;
    /** The guards and the hook that denied it, by name, with a comma between them. */
    readonly blockedBy?: string;
    /** Why it was denied: the reasons of guards, of the hook, or of the approver. */
    readonly reason?: string;
    /** Of a subagent that was not started. `isKnownRole` as in `subagent.refused`. */
    readonly spawn?: {
      readonly role: string;
      readonly isKnownRole?: true;
      readonly refusal: SpawnRefusal;
    };
    /** Length of the result, and of what the model reads of it, if that is less. */
    readonly resultCharacters: number;
    readonly shownCharacters?: number;
  };
  /** A delegation whose subagent is paused. */
  readonly "tool.paused": { readonly toolName: string };
  readonly "tool.resumed": EventBodies["tool.started"];
  readonly "tool.ended": {
    readonly toolName: string;
    readonly outcome: ToolOutcomeType;
    readonly success: boolean;
    readonly errorCode?: string | undefined;
    readonly severity?: ToolErrorSeverity | undefined;
    /** What denied the call. Only in what releases without `tool.rejected` wrote. */
    readonly blockedBy?: string | undefined;
    /** Length of the whole result. */
    readonly resultCharacters: number;
    /** Length of what the model is shown, if that is less. */
    readonly shownCharacters?: number | undefined;
    /** Images, sounds and files that came with it. */
    readonly attachments?: number | undefined;
    readonly durationMs: number;
    readonly queuedMs: number;
    /** What the delegated subtree consumed. */
    readonly usage?: Usage | undefined;
  };
  /** All guards of a call were asked (R72). */
  readonly "tool.guarded": {
    readonly toolName: string;
    /** Deny beats ask beats allow. */
    readonly decision: "allow" | "ask" | "deny";
    readonly answers: readonly {
      readonly guard: string;
      readonly answer: "allow" | "ask" | "deny";
      readonly reason?: string | undefined;
    }[];
  };
  /** A wrapper calls the tool once more, without the model. */
  readonly "tool.retried": {
    readonly toolName: string;
    readonly attempt: number;
    readonly error: ErrorRecord;
    readonly delayMs: number;
  };
  /** How far a call is, as the tool reports. */
  readonly "tool.progressed": {
    readonly toolName: string;
    readonly done?: number | undefined;
    readonly total?: number | undefined;
    readonly message?: string | undefined;
  };
  /** A result that was too long for the model was summarised; what that cost is in the usage of the step (R112). */
  readonly "result.summarized": {
    readonly toolName: string;
    readonly resultCharacters: number;
    readonly shownCharacters: number;
    readonly usage: Usage;
  };
  /** Tools that the model is not offered in this step, and the filter that took each away. */
  readonly "tools.filtered": {
    readonly removed: readonly { readonly toolName: string; readonly filter: string }[];
  };
  /** The text of a reply was nothing but the arguments of one of its calls, and was dropped (R113). */
  readonly "reply.filtered": { readonly toolName: string; readonly characters: number };
  readonly "question.asked": { readonly question: Question };
  readonly "question.answered": {
    readonly questionId: QuestionId;
    readonly toolName: string;
    readonly answer: AnswerType;
    /** Who decided: the approver, the caller that resumed the run, the deadline, `nobody` (there was no approver), or the end of the agent. */
    readonly by: "approver" | "caller" | "deadline" | "nobody" | "end";
    /** The words that came with it; for audit. */
    readonly reason?: string | undefined;
    /** The arguments with which the call runs, if an approval changed them. */
    readonly arguments?: JsonValue | undefined;
    readonly waitedMs: number;
  };
  /** Hooks changed something on the way. */
  readonly "hook.applied": {
    readonly point: string;
    readonly changedBy: readonly { readonly hook: string; readonly fields: readonly string[] }[];
    /** Arguments of a tool call, before and after (R79). */
    readonly before?: JsonValue | undefined;
    readonly after?: JsonValue | undefined;
  };
  /** A list of messages that hooks left invalid was mended before it went to the model. */
  readonly "request.repaired": {
    readonly repairs: number;
    /** What was done, each kind once: `dropped_result`, `added_result` and the like. */
    readonly types?: readonly string[] | undefined;
  };
  readonly "conversation.compacted": {
    readonly messagesBefore: number;
    readonly messagesAfter: number;
    readonly tokensBefore: number;
    readonly tokensAfter: number;
    /** Length of the summary that stands for what was left out; absent if there is none (R100). */
    readonly summaryCharacters?: number | undefined;
    /** What the summary consumed, also if nothing came of it. In no step: it was made between two. */
    readonly usage?: Usage | undefined;
  };
  /** The execution is over, and with it a section that was made for it (R95). */
  readonly "section.cleared": {
    readonly name: string;
    /** Messages that it had in each request: 0 if it was empty. */
    readonly count: number;
  };
  /** A message from outside was put into the history. */
  readonly "message.delivered": {
    readonly origin: "steering" | "subtask" | "report";
    readonly characters: number;
    /** The agent that wrote it, or whose result it is; absent: it came from outside the tree. */
    readonly fromAgentId?: AgentId | undefined;
  };
  readonly "subagent.spawned": {
    readonly childId: AgentId;
    readonly childPath: string;
    readonly role: string;
    readonly childDepth: number;
    readonly task: string;
    /** It works beside its parent, which has a receipt for it. */
    readonly isBackground: boolean;
    /** What it received besides its instructions and its task. */
    readonly context: ContextManifest;
    readonly subagentsByDepth: Readonly<Record<string, number>>;
  };
  /** A subagent that had ended continues with its history: a further execution, no further subagent (X10). */
  readonly "subagent.continued": {
    readonly childId: AgentId;
    readonly childPath: string;
    readonly role: string;
    readonly childDepth: number;
    readonly task: string;
    readonly isBackground: boolean;
    /** Which execution of the subagent this is, from 2. */
    readonly execution: number;
  };
  /** A subagent in the background was left to the run: it lives on after its parent (X9). */
  readonly "subagent.detached": {
    readonly childId: AgentId;
    readonly childPath: string;
    readonly role: string;
  };
  /**
   * It has no id: no agent was started. `childDepth`: where it would have stood. `isKnownRole`: the run has a role of this name; without it
   * the name may be any text that a model wrote.
   */
  readonly "subagent.refused": {
    readonly role: string;
    readonly isKnownRole?: true;
    readonly childDepth: number;
    readonly refusal: SpawnRefusal;
  };
  readonly "subagent.ended": {
    readonly childId: AgentId;
    readonly childPath: string;
    readonly role: string;
    readonly childDepth: number;
    readonly outcome: SubagentOutcome;
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    readonly usage: UsageReport;
  };
  readonly "budget.reserved": {
    readonly leaseId: LeaseId;
    readonly inputTokens: number;
    readonly maxOutputTokens: number;
    readonly waitedMs: number;
  };
  readonly "budget.settled": {
    readonly leaseId: LeaseId;
    readonly usage: Usage;
    /** Part of `usage`: of other models of a fallback than the first. */
    readonly otherModels?: readonly ModelUsage[] | undefined;
    /** Left to this agent after the settlement. Limited axes only. */
    readonly remaining: Readonly<Record<string, number>>;
    /** Left to the whole run after the settlement. Limited axes only. */
    readonly runRemaining: Readonly<Record<string, number>>;
    /** Set if it was under way when its process died: its end is unknown. Which model was asked. */
    readonly lostCall?: { readonly provider: string; readonly model: string } | undefined;
  };
  /** A lease went back unused: the agent stopped before the call. */
  readonly "budget.released": { readonly leaseId: LeaseId };
  readonly "budget.denied": {
    readonly axis: string;
    /** The ancestor whose limit refused. */
    readonly accountPath: string;
    readonly maximum: number;
    readonly spent: number;
    readonly asked: number;
    /** So much of the rest is kept by the ancestor for itself. */
    readonly kept?: number | undefined;
  };
  /** So much of a limit is spent: of the account of the agent that the event is about. Once for each threshold of each limit (X6). */
  readonly "budget.threshold_reached": {
    readonly axis: string;
    readonly accountPath: string;
    /** A part of the limit: 0.8 or 0.95. */
    readonly threshold: number;
    readonly spent: number;
    readonly maximum: number;
  };
  /** Limits of an account were raised while the tree ran or stood (X7). */
  readonly "budget.granted": {
    readonly accountPath: string;
    /** What was added. */
    readonly budget: AccountGrant["budget"];
    /** Who granted it, in the words of the caller. */
    readonly by: string;
    /** Left to the agent afterwards. Limited axes only. */
    readonly remaining: Readonly<Record<string, number>>;
  };
  readonly "signal.raised": { readonly signal: StopSignal };
  readonly "continuation.evaluated": {
    readonly decision: "continue" | "stop" | "compact" | "retry";
    /** What asks for another step. */
    readonly work: readonly WorkType[];
    /** The hook that made the agent continue although it had answered. */
    readonly vetoedBy?: string | undefined;
    /** All that were raised; `winner` is the highest of them. */
    readonly signals: readonly StopSignal[];
    readonly winner?: StopReason | undefined;
  };
}
