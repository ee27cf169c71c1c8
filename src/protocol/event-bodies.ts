// The body of each event, by its type. A new event is an entry here and one in `event-schemas.ts`, which the compiler asks for.

import type { JsonValue } from "../kernel/json.ts";
import type { BudgetEventBodies } from "./budget-event-bodies.ts";
import type { ContextManifest } from "./context-manifest.ts";
import type { AgentId, CallId, QuestionId, RunId, SessionId } from "./ids.ts";
import type { ModelSettings, ToolChoice } from "./model-settings.ts";
import type { Answer, Question } from "./question.ts";
import type { StepTiming } from "./step-timing.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "./stop.ts";
import type { SpawnRefusal, SubagentOutcome } from "./subagent.ts";
import type { ToolErrorSeverity } from "./tool-error-record.ts";
import type { ToolOutcomeType } from "./tool-outcome.ts";
import type { ModelUsage, Usage, UsageReport } from "./usage.ts";

/** Version of the event vocabulary, on every `run.started` and `run.resumed`. */
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

/** What each event says, by its type: the content of an event without its stamp. */
export interface EventBodies extends BudgetEventBodies {
  /** The run begins: the first event of a run, before its root starts. */
  readonly "run.started": {
    /** Of the vocabulary of events in which what follows is written. */
    readonly schemaVersion: 1;
    /** Of the root. */
    readonly role: string;
    /** The text of the task. */
    readonly task: string;
    /** Bounds on the shape of the tree. */
    readonly limits: {
      /** How deep a subagent may stand; the root is at 0. */
      readonly maxDepth: number;
      /** How many subagents one agent may start. */
      readonly maxBreadthPerParent: number;
      /** How many subagents the run may start. */
      readonly maxTotalSubagents: number;
    };
    /** What the run may spend; limited axes only. */
    readonly budget: Readonly<Record<string, number>>;
    /** The session on which it runs. */
    readonly sessionId?: SessionId | undefined;
    /** Milliseconds that the run waited for its slot. Absent without `maxConcurrentRuns`. */
    readonly queuedMs?: number | undefined;
    /** The span of the caller below which it was asked to stand, as W3C Trace Context writes it. */
    readonly traceparent?: string | undefined;
    /** The run and the step of its root from which this one was forked, and the trace and span of that run. */
    readonly forkedFrom?:
      | {
          readonly runId: RunId;
          /** The step of the root after which the fork goes its own way; 0: before the first. */
          readonly stepNumber: number;
          /** The trace of the other run. */
          readonly traceId: string;
          /** The span of the other run in it. */
          readonly spanId?: string | undefined;
          /** Whether its trace was taken. */
          readonly isSampled?: boolean | undefined;
        }
      | undefined;
  };
  /** The run is over, and all its agents with it, detached ones included: the last event of a run. */
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
    /** How often a subagent was refused, by the code of the refusal. */
    readonly refusalsByCode: Readonly<Record<string, number>>;
    /** Milliseconds since the execution of the root began, pauses included. */
    readonly durationMs: number;
  };
  /** The run rests until it is resumed: it waits for answers, or `requestPause` was called. The last event until `run.resumed`. */
  readonly "run.paused": {
    readonly reason: StopReason;
    /** What must be answered before the run can continue, of the whole tree. */
    readonly questions: readonly Question[];
    readonly usage: UsageReport;
    /** Milliseconds since the execution of the root began, pauses included. */
    readonly durationMs: number;
  };
  /** The run continues: after a pause, with more budget after a limit, or in another process after its own had died or given it up. */
  readonly "run.resumed": {
    /** Of the vocabulary of events, as in `run.started`. */
    readonly schemaVersion: 1;
    /** Of the root. */
    readonly role: string;
    /** The text of the task. */
    readonly task: string;
    /** Bounds on the shape of the tree, as in `run.started`. */
    readonly limits: EventBodies["run.started"]["limits"];
    /** What the run may still spend; limited axes only. */
    readonly budget: Readonly<Record<string, number>>;
    /** How often the run has been paused. */
    readonly pauses: number;
    /** Milliseconds for which the run rested before it was resumed. */
    readonly pausedMs: number;
    readonly sessionId?: SessionId | undefined;
    /** Milliseconds that the run waited for its slot, as in `run.started`. */
    readonly queuedMs?: number | undefined;
    /** The trace of the run up to the pause, and the span of the run in it. */
    readonly previousTraceId: string;
    /** The span of the run in that trace. */
    readonly previousSpanId?: string | undefined;
    /** Whether that trace was taken. */
    readonly wasSampled?: boolean | undefined;
    /** As in `run.started`, if that was not kept. */
    readonly traceparent?: string | undefined;
    /** How many answers came with the resumption. */
    readonly answers: number;
    /** Set if its process had died, or had given it up. */
    readonly recovery?:
      | {
          /** Model calls whose end is unknown; they are charged by estimate. */
          readonly lostCalls: number;
          /** True if the span of the run had not ended. It continues under the same ids. */
          readonly isSpanOpen: boolean;
        }
      | undefined;
  };
  /** An execution of an agent begins: its first, or a further one with its history. What it does follows. */
  readonly "agent.started": {
    /** The name of its role. */
    readonly role: string;
    /** What a supervisor reads about the role. */
    readonly description?: string | undefined;
    /** Of its model. */
    readonly provider: string;
    /** The id of its model. */
    readonly model: string;
    /** The text of the task. */
    readonly task: string;
    /** The call that spawned it, in its parent; null for the root and for subtasks. */
    readonly spawnCallId: CallId | null;
    /** What it may still spend: the tightest of its own budget and its ancestors'. Limited axes only. */
    readonly budget: Readonly<Record<string, number>>;
  };
  /** The execution rests with its run. It has not ended: `agent.resumed` follows once the run is resumed. */
  readonly "agent.paused": {
    /** The name of its role. */
    readonly role: string;
    readonly reason: StopReason;
    /** Completed steps of the execution. */
    readonly steps: number;
    readonly usage: UsageReport;
  };
  /** The execution continues where it was paused, or where its process had died. */
  readonly "agent.resumed": EventBodies["agent.started"];
  /** The execution is over: its last event. */
  readonly "agent.ended": {
    /** The name of its role. */
    readonly role: string;
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    /** Completed steps of the execution. */
    readonly steps: number;
    /** The last text that it wrote; partial unless it completed. */
    readonly text: string;
    readonly usage: UsageReport;
    /** Set when it failed. */
    readonly error?: ErrorRecord | undefined;
    /** All stop signals of the execution, in order of arrival; `reason` is that of the highest. */
    readonly signals: readonly StopSignal[];
    /** Milliseconds since the execution began, pauses included. */
    readonly durationMs: number;
  };
  /** A step begins: its request is made and has its lease, and the model is asked next. */
  readonly "step.started": {
    /** From 1. */
    readonly number: number;
    /** Of the instructions, and of the tool definitions, that the model is shown. */
    readonly promptHash: string;
    /** Of the definitions of the tools that the model is offered. */
    readonly toolsHash: string;
  };
  /** A step is over: every call of its reply has a result, or an error cut it off. Once for each `step.started`. */
  readonly "step.completed": {
    /** From 1. */
    readonly number: number;
    readonly usage: Usage;
    /** What its time went into. */
    readonly timing: StepTiming;
    /** How many calls the reply had. */
    readonly toolCalls: number;
    /** Set when the step was cut off by an error. */
    readonly error?: ErrorRecord | undefined;
  };
  /** A request is about to go to the model: of a step, of a summary, or a further one of a hook. Its attempts follow. */
  readonly "model.requested": {
    /** Of the model that is asked. */
    readonly provider: string;
    /** The id of the model that is asked. */
    readonly model: string;
    /** Where the model is served, if that is known. */
    readonly server?:
      | {
          /** Its host name. */
          readonly address: string;
          /** Its port, if that is not the usual one. */
          readonly port?: number | undefined;
        }
      | undefined;
    /** How many messages the model is shown. */
    readonly messageCount: number;
    /** The tools that the model is offered, in their order. */
    readonly toolNames: readonly string[];
    /** How long the request is: what is leased for it. */
    readonly estimatedInputTokens: number;
    /** True if that is an estimate, in part at least; false if the model counted it all itself. */
    readonly isEstimated: boolean;
    /** The cap on the reply: that of the role, or what the budget has left. */
    readonly maxOutputTokens: number;
    /** Of the role; absent: the provider's default. */
    readonly temperature?: number | undefined;
    /** Those of the role, over the model's own. */
    readonly settings?: ModelSettings | undefined;
    /** Which tools the model may call. */
    readonly toolChoice?: ToolChoice | undefined;
    /** `json`: the model is held to the schema of its typed result. */
    readonly outputType?: "json" | undefined;
    /** The interface of OpenAI's over which it is asked, and how fast it is to be served, where its adapter says so. */
    readonly apiType?: "chat_completions" | "responses" | undefined;
    /** How fast it is to be served, in the provider's word. */
    readonly serviceTier?: string | undefined;
    /** Whether the reply is asked for as a stream. */
    readonly streaming: boolean;
    /** Milliseconds that the call waited for a slot or a provider limit. Absent if it did not. */
    readonly queuedMs?: number | undefined;
    /**
     * How far it begins like the last request of the execution, which is what prompt caches of providers
     * go by. Absent for the first request of a process, and for the first that something hears of.
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
  /** An attempt of a model call failed, and the call is made again, or continues with the next model of a fallback. */
  readonly "model.retried": {
    /** Of the attempt that failed, from 1. */
    readonly attempt: number;
    /** Why the attempt failed. */
    readonly error: ErrorRecord;
    /** Milliseconds that are waited before the next attempt. */
    readonly delayMs: number;
    /** Milliseconds that the attempt waited for a slot or a provider limit. Absent if it did not. */
    readonly queuedMs?: number | undefined;
    /** Set if the attempt continues instead, with this model of a fallback. */
    readonly nextModel?: Pick<ModelUsage, "provider" | "model"> | undefined;
  };
  /** What of a request the provider left out or changed, or could not read; each text comes once in a run. */
  readonly "model.warned": {
    /** What was left out or changed, in words. */
    readonly warning: string;
  };
  /** The model has answered: the call of `model.requested` is over. */
  readonly "model.replied": {
    /** Why the reply ended: a `FinishReason`. */
    readonly finishReason: string;
    /** How many calls the reply has. */
    readonly toolCalls: number;
    /** What the call consumed, failed attempts included. */
    readonly usage: Usage;
    /** Part of the input tokens: written to the cache of the provider, if it reports that. */
    readonly cacheWriteInputTokens?: number | undefined;
    /** How many attempts it took, from 1. */
    readonly attempts: number;
    /** The id that the provider gave the reply. */
    readonly responseId?: string | undefined;
    /** The model that answered, in the provider's word. */
    readonly responseModel?: string | undefined;
    /** How fast it was served, in the provider's word. */
    readonly serviceTier?: string | undefined;
    /** Set if it was not the model that was asked for, but another one of its fallback. */
    readonly answeredBy?:
      | {
          /** Of the model that answered. */
          readonly provider: string;
          /** The id of the model that answered. */
          readonly model: string;
          /** The model that was asked for. */
          readonly insteadOf: string;
          /** Where it is served, if that is known. */
          readonly server?: EventBodies["model.requested"]["server"];
        }
      | undefined;
    /** Milliseconds that all attempts of the call waited for slots and provider limits. */
    readonly queuedMs: number;
  };
  /** The call of `model.requested` is over without a reply: all attempts failed, or the agent had to end. */
  readonly "model.failed": {
    /** `cancelled`: the agent had to end while the model answered; no failure. */
    readonly error: ErrorRecord;
    /** Whether the failure may pass by itself; its attempts are used up. */
    readonly isRetryable: boolean;
    /** What the attempts consumed. */
    readonly usage: Usage;
    /** How many attempts were made. */
    readonly attempts: number;
    /** Milliseconds that all attempts of the call waited for slots and provider limits. */
    readonly queuedMs: number;
  };
  /** A call runs: its tool was found, its arguments fit, and nothing forbids it. */
  readonly "tool.started": {
    /** The name of the tool. */
    readonly toolName: string;
    /** What its tool is: a function, a delegation, one that is executed elsewhere, or `Finish`. */
    readonly kind: "function" | "delegation" | "external" | "finish";
    /** What the model reads about the tool. */
    readonly description: string;
    /** The place of the call in the reply, from 0. Absent for the first call. */
    readonly index?: number;
    /** The model's arguments were no JSON until a small slip in them was mended. */
    readonly isMended?: true;
  };
  /**
   * A call that is not run, whole: unknown, with arguments that do not fit, denied, refused by a limit, or left out. Every call has either
   * this event or `tool.started`.
   */
  readonly "tool.rejected": {
    /** As the model wrote it. */
    readonly toolName: string;
    /** What its tool is. */
    readonly kind: EventBodies["tool.started"]["kind"];
    /** Empty if there is no such tool: then the name may be any text that a model wrote. */
    readonly description: string;
    /** The place of the call in the reply, from 0. Absent for the first call. */
    readonly index?: number;
    /** How the call ended. */
    readonly outcome: Exclude<ToolOutcomeType, "succeeded">;
    /** Why it was not run: see the codes of `ToolFailureCode`. */
    readonly errorCode: string;
    /** What follows from it for the agent. */
    readonly severity: ToolErrorSeverity;
    /** The guards and the hook that denied it, by name, with a comma between them. */
    readonly blockedBy?: string;
    /** Why it was denied: the reasons of guards, of the hook, or of the approver. */
    readonly reason?: string;
    /** Why it was not run, at most 500 characters, without secrets. */
    readonly message?: string;
    /** Of a subagent that was not started. `isKnownRole` as in `subagent.refused`. */
    readonly spawn?: {
      /** The role that was to be started. */
      readonly role: string;
      /** The run has a role of this name. */
      readonly isKnownRole?: true;
      /** Why it was not started. */
      readonly refusal: SpawnRefusal;
    };
    /** Length of the result, and of what the model reads of it, if that is less. */
    readonly resultCharacters: number;
    /** Length of what the model reads of it, if that is less. */
    readonly shownCharacters?: number;
  };
  /** A delegation whose subagent is paused. */
  readonly "tool.paused": {
    /** The name of the tool. */
    readonly toolName: string;
  };
  /** A delegation continues together with its subagent, which was paused. */
  readonly "tool.resumed": EventBodies["tool.started"];
  /** A call that ran is over, whatever came of it; its result is what the model reads next. */
  readonly "tool.ended": {
    /** The name of the tool. */
    readonly toolName: string;
    /** How the call ended. */
    readonly outcome: ToolOutcomeType;
    /** True if the outcome is `succeeded`. */
    readonly success: boolean;
    /** Set if it went wrong: a `ToolFailureCode`. */
    readonly errorCode?: string | undefined;
    /** Set if it went wrong: what follows from it for the agent. */
    readonly severity?: ToolErrorSeverity | undefined;
    /** The name of a typed error that the tool threw, for example `TypeError`. */
    readonly errorName?: string | undefined;
    /**
     * Set if it went wrong: the tool's own words, at most 500 characters, without secrets. Absent
     * for a subagent, which reports its own end.
     */
    readonly message?: string | undefined;
    /** Length of the whole result. */
    readonly resultCharacters: number;
    /** Length of what the model is shown, if that is less. */
    readonly shownCharacters?: number | undefined;
    /** Images, sounds and files that came with it. */
    readonly attachments?: number | undefined;
    /** Milliseconds that the tool was at work. */
    readonly durationMs: number;
    /** Milliseconds in which the call waited for a place among those that may run at once. */
    readonly queuedMs: number;
    /** What the delegated subtree consumed. */
    readonly usage?: Usage | undefined;
  };
  /** All guards of a call were asked. */
  readonly "tool.guarded": {
    /** The name of the tool. */
    readonly toolName: string;
    /** Deny beats ask beats allow. */
    readonly decision: "allow" | "ask" | "deny";
    /** What each guard said, in the order in which they were asked. */
    readonly answers: readonly {
      /** The name of the guard. */
      readonly guard: string;
      /** What it said. */
      readonly answer: "allow" | "ask" | "deny";
      /** Why, in its words. */
      readonly reason?: string | undefined;
    }[];
  };
  /** A wrapper calls the tool once more, without the model. */
  readonly "tool.retried": {
    /** The name of the tool. */
    readonly toolName: string;
    /** Of the attempt that failed, from 1. */
    readonly attempt: number;
    /** Why the attempt failed. */
    readonly error: ErrorRecord;
    /** Milliseconds that are waited before the next attempt. */
    readonly delayMs: number;
  };
  /** How far a call is, as the tool reports. */
  readonly "tool.progressed": {
    /** The name of the tool. */
    readonly toolName: string;
    /** How much is done, in units of the tool's own. */
    readonly done?: number | undefined;
    /** How much there is to do, in the same units. */
    readonly total?: number | undefined;
    /** What it is doing, in words. */
    readonly message?: string | undefined;
  };
  /** A result that was too long for the model was summarised; what that cost is in the usage of the step. */
  readonly "result.summarized": {
    /** The name of the tool. */
    readonly toolName: string;
    /** Length of the whole result. */
    readonly resultCharacters: number;
    /** Length of the summary. */
    readonly shownCharacters: number;
    /** What the summary consumed. */
    readonly usage: Usage;
  };
  /** Tools that the model is not offered in this step, and the filter that took each away. */
  readonly "tools.filtered": {
    /** What is not offered. */
    readonly removed: readonly {
      /** The name of the tool. */
      readonly toolName: string;
      /** The name of the filter. */
      readonly filter: string;
    }[];
  };
  /** The text of a reply was nothing but the arguments of one of its calls, and was dropped. */
  readonly "reply.filtered": {
    /** The tool of that call. */
    readonly toolName: string;
    /** Length of the text that was dropped. */
    readonly characters: number;
  };
  /**
   * A call waits for an answer: an approval, or the result of a tool that is executed elsewhere. An approver is asked, or the run pauses.
   */
  readonly "question.asked": {
    /** What is asked. */
    readonly question: Question;
  };
  /** A question is settled: it was answered, its time ran out, or its agent ended. */
  readonly "question.answered": {
    /** The question, as in `question.asked`. */
    readonly questionId: QuestionId;
    /** The tool of the call. */
    readonly toolName: string;
    /** What came of it. */
    readonly answer: Answer["type"];
    /** Who decided: the approver, the caller that resumed the run, the deadline, `nobody` (there was no approver), or the end of the agent. */
    readonly by: "approver" | "caller" | "deadline" | "nobody" | "end";
    /** The words that came with it; for audit. */
    readonly reason?: string | undefined;
    /** The arguments with which the call runs, if an approval changed them. */
    readonly arguments?: JsonValue | undefined;
    /** Milliseconds from the question to the answer, pauses included. */
    readonly waitedMs: number;
  };
  /** Hooks changed something on the way. */
  readonly "hook.applied": {
    /** The point at which they were called, such as `beforeModel`. */
    readonly point: string;
    /** Who changed what, in the order of the hooks. */
    readonly changedBy: readonly {
      /** The name of the hook. */
      readonly hook: string;
      /** The fields that it changed. */
      readonly fields: readonly string[];
    }[];
    /** Arguments of a tool call, before and after. */
    readonly before?: JsonValue | undefined;
    /** Arguments of the call as hooks left them. */
    readonly after?: JsonValue | undefined;
  };
  /** A list of messages that hooks left invalid was mended before it went to the model. */
  readonly "request.repaired": {
    /** How many messages were mended, added or dropped. */
    readonly repairs: number;
    /** What was done, each kind once: `dropped_result`, `added_result` and the like. */
    readonly types?: readonly string[] | undefined;
  };
  /** The history was made shorter: it had grown too long, by our count or by the model's. Between two steps. */
  readonly "conversation.compacted": {
    /** Length of the history before. */
    readonly messagesBefore: number;
    /** Length of the history after. */
    readonly messagesAfter: number;
    /** Input tokens of the history before, counted or estimated. */
    readonly tokensBefore: number;
    /** Input tokens of the history after, counted or estimated. */
    readonly tokensAfter: number;
    /** Length of the summary that stands for what was left out; absent if there is none. */
    readonly summaryCharacters?: number | undefined;
    /** What the summary consumed, also if nothing came of it. In no step: it was made between two. */
    readonly usage?: Usage | undefined;
  };
  /** The execution is over, and with it a section that was made for it. */
  readonly "section.cleared": {
    /** The name of the section. */
    readonly name: string;
    /** Messages that it had in each request: 0 if it was empty. */
    readonly count: number;
  };
  /** A message from outside was put into the history. */
  readonly "message.delivered": {
    /**
     * `steering`: sent by `steer` or by another agent; `subtask`: queued by a tool; `report`: the result of a subagent in the background.
     */
    readonly origin: "steering" | "subtask" | "report";
    /** Length of its text. */
    readonly characters: number;
    /** The agent that wrote it, or whose result it is; absent: it came from outside the tree. */
    readonly fromAgentId?: AgentId | undefined;
  };
  /** A subagent is created, an event of its parent; its own `agent.started` follows. */
  readonly "subagent.spawned": {
    /** The subagent. */
    readonly childId: AgentId;
    /** Its place in the tree. */
    readonly childPath: string;
    /** The name of its role. */
    readonly role: string;
    /** Its depth: 1 below the root. */
    readonly childDepth: number;
    /** The text of its task. */
    readonly task: string;
    /** It works beside its parent, which has a receipt for it. */
    readonly isBackground: boolean;
    /** What it received besides its instructions and its task. */
    readonly context: ContextManifest;
    /** Subagents that the run has started at each depth, this one included, from "1". */
    readonly subagentsByDepth: Readonly<Record<string, number>>;
  };
  /** A subagent that had ended continues with its history: a further execution, no further subagent. */
  readonly "subagent.continued": {
    /** The subagent. */
    readonly childId: AgentId;
    /** Its place in the tree. */
    readonly childPath: string;
    /** The name of its role. */
    readonly role: string;
    /** Its depth: 1 below the root. */
    readonly childDepth: number;
    /** What it is to do now. */
    readonly task: string;
    /** It works beside its parent, which has a receipt for it. */
    readonly isBackground: boolean;
    /** Which execution of the subagent this is, from 2. */
    readonly execution: number;
  };
  /** A subagent in the background was left to the run: it continues after its parent. */
  readonly "subagent.detached": {
    /** The subagent. */
    readonly childId: AgentId;
    /** Its place in the tree. */
    readonly childPath: string;
    /** The name of its role. */
    readonly role: string;
  };
  /** A subagent was not started, and has no id: a limit, the budget or a rule forbids it. The model reads why. */
  readonly "subagent.refused": {
    /** The role that was to be started. */
    readonly role: string;
    /** The run has a role of this name; without it the name may be any text that a model wrote. */
    readonly isKnownRole?: true;
    /** Where it would have stood. */
    readonly childDepth: number;
    /** Why, and at which limit. */
    readonly refusal: SpawnRefusal;
  };
  /** A subagent has ended, an event of its parent after its own `agent.ended`. */
  readonly "subagent.ended": {
    /** The subagent. */
    readonly childId: AgentId;
    /** Its place in the tree. */
    readonly childPath: string;
    /** The name of its role. */
    readonly role: string;
    /** Its depth: 1 below the root. */
    readonly childDepth: number;
    /** What its result is worth. */
    readonly outcome: SubagentOutcome;
    readonly status: TerminalStatus;
    readonly reason: StopReason;
    readonly usage: UsageReport;
  };
  /**
   * Something asks the agent to end: a limit, an error, a stop condition, a hook, the caller, or its answer. It ends by the highest
   * signal.
   */
  readonly "signal.raised": {
    /** What was asked, by whom and why. */
    readonly signal: StopSignal;
  };
  /** It is decided what follows a step: another one, the end, a shorter history, or the step once more. */
  readonly "continuation.evaluated": {
    /** What follows. */
    readonly decision: "continue" | "stop" | "compact" | "retry";
    /**
     * What makes the agent take another step: calls that were answered, messages and subtasks that came in, a veto, a reply or a result that
     * is still missing.
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
    /** The hook that made the agent continue although it had answered. */
    readonly vetoedBy?: string | undefined;
    /** All that were raised; `winner` is the highest of them. */
    readonly signals: readonly StopSignal[];
    /** Why the agent ends, if it does. */
    readonly winner?: StopReason | undefined;
  };
}
