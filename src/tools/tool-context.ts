// What a tool may know and do while it serves a call. Read-only; each call has its own (R169, R170).

import type { Clock } from "../kernel/clock.ts";
import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { MessageContent } from "../protocol/message-content.ts";
import type { Message } from "../protocol/message.ts";
import type { SettledStatus } from "../protocol/stop.ts";
import type { DynamicRole, SpawnOutcome, SpawnRequest } from "../protocol/subagent.ts";

/**
 * What a tool may know of the call it serves, and the services that it may use. Frozen; each call has its own. `Context`: what the tool
 * asks of the run's context, such as `{ readonly userId: string }`. A role that has the tool asks for it, too; default: nothing.
 */
export interface ToolContext<out Context = unknown> {
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Place of the calling agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  readonly executionId: ExecutionId;
  /** From 1. */
  readonly stepNumber: number;
  readonly callId: CallId;
  /** The same for every attempt at this very call, also after a crash: hand it to services that do a thing once under a key. */
  readonly idempotencyKey: string;
  /** How often in a row the model was asked for a corrected call of this tool; 0 at first, and after a call that succeeded. */
  readonly retryCount: number;
  /** How often it may be asked. With `retryCount` at this number, one more `ToolRetryError` is the end of it. */
  readonly maxRetries: number;
  /** The history of the agent at the time of the call. Frozen. */
  readonly messages: readonly Message[];
  /**
   * Aborted when the call must end: its agent has to (`reason` is a `CancelReason`), or its time is up. End then: after a grace
   * period the result is discarded.
   */
  readonly signal: AbortSignal;
  /** The agent's metadata: given at the start of the run, or inherited. Frozen. */
  readonly metadata: JsonObject;
  /** The context of the run: the very value that was given to `start`, `resume`, `recover` or `fork`; undefined: none was. */
  readonly context: Context;
  /**
   * Queues a delegation that the agent works off before its next model call; the result comes as a message. What is queued
   * after the tool has returned is dropped. A role that the agent may not start is refused in that message.
   */
  queueSubtask(request: SpawnRequest): void;
  /** Reports how far the call is: an event, nothing for the model. Of one call the first 1,000 reports count. */
  reportProgress(progress: ToolProgress): void;
  /**
   * Asks the approver of the run for a value, while the call is at work: a question of kind `external`, which `provideResult` answers and
   * `provideError` or `deny` declines. The run does not pause for it, and the wait counts as work of the tool, in its time limit too.
   *
   * @throws EspalierError `invalid_option` for what is no request.
   */
  ask(request: AskRequest): Promise<AskOutcome>;
}

/** What a tool asks the approver of the run. */
export interface AskRequest {
  /** Why, for the approver. */
  readonly reason: string;
  /** What is asked for, as plain JSON: the `arguments` of the question. */
  readonly arguments: JsonObject;
  /** What is wrong with a value, in words: it counts as no answer then. Default: any value will do. */
  readonly problemWith?: (value: JsonValue) => string | undefined;
  /** Aborted when no answer is needed any more. Default: with the call. */
  readonly signal?: AbortSignal;
}

/** What came of it. `declined`: the approver says no, or there is none; `unanswered`: no answer that can be used came, or none in time. */
export type AskOutcome =
  | { readonly type: "answered"; readonly value: JsonValue }
  | { readonly type: "declined" | "unanswered"; readonly reason: string };

export const QUESTION_ENDED: AskOutcome = Object.freeze({
  type: "unanswered",
  reason: "The call ended before an answer came.",
});

/** How far a call is. Every part may be left out. */
export interface ToolProgress {
  /** How much is done, in units of its own. */
  readonly done?: number;
  /** How much there is to do, in the same units. */
  readonly total?: number;
  /** What it is doing, in words. */
  readonly message?: string;
}

/** What a delegation gets: the means to start a subagent, but no `ask`, since it runs again in a replay, where no approver is. */
export interface DelegationContext<out Context = unknown> extends Omit<
  ToolContext<Context>,
  "ask"
> {
  /**
   * Starts a subagent and waits for its end. A refusal and a failure are outcomes; rejects only with `invalid_option` for what is no request, and if a hook
   * before the subagent broke. After
   * the call has ended nothing is started any more.
   */
  spawn(request: SpawnRequest): Promise<SpawnOutcome>;
  /** The subagents that the agent has started so far, and what it may do with them. */
  readonly subagents: SubagentService;
}

/** What an agent may do with the subagents that it has started; all know them by `childName`, such as `researcher#2`. */
export interface SubagentService {
  /** In the order of their start. */
  list(): readonly SubagentInfo[];
  /** Continues a subagent that has ended: with its history, and a new task. Counts as no further subagent. */
  continue(request: ContinueRequest): Promise<SpawnOutcome>;
  /**
   * Waits until subagents rest, and gives their results. Default: all that work in the background, without limit in time. One that is
   * paused is not waited for.
   */
  wait(request?: {
    /** The subagents that are waited for. Default: all that are at work. */
    readonly childNames?: readonly string[];
    /** How long, in milliseconds. Default: until they rest. */
    readonly timeoutMs?: number;
  }): Promise<DelegationOutcome>;
  /** Writes to a subagent that is running: it reads the message before its next model call. */
  message(childName: string, text: string): DelegationOutcome;
  /** Cancels a subagent with all below it, and waits for its end. */
  cancel(childName: string, reason?: string): Promise<DelegationOutcome>;
}

/** What is known of a subagent. */
export interface SubagentInfo {
  /** What its parent calls it: `researcher#2`. */
  readonly childName: string;
  /** The name of its role. */
  readonly role: string;
  /** The text of its task. */
  readonly task: string;
  readonly status: SettledStatus | "running";
  /** It works beside its parent. */
  readonly isBackground: boolean;
  /** What it and all below it consumed so far. */
  readonly totalTokens: number;
}

/** What a subagent is to do next. Nothing of it is left out in silence: what cannot be done is refused, with the reason. */
export interface ContinueRequest {
  /** The subagent that has ended: `researcher#2`. */
  readonly childName: string;
  readonly task: MessageContent;
  /** Default false. */
  readonly background?: boolean;
  /** Refused if it is not the role that the subagent has. Default: that one. */
  readonly role?: string;
  /** Refused: results of others are handed on only when a subagent is started. */
  readonly includeResultsFrom?: readonly string[];
  /** Refused: a subagent keeps its role. */
  readonly roleDefinition?: DynamicRole;
}

/** The one subagent that a call asks for: a new one, or one that continues. */
export type SubagentRequest =
  | { readonly type: "spawn"; readonly request: SpawnRequest }
  | { readonly type: "continue"; readonly request: ContinueRequest };

/** The result of a delegation: the outcome of a subagent, or an answer for the model. */
export type DelegationOutcome = SpawnOutcome | DelegationAnswer;

/** What the model reads about its subagents. */
export interface DelegationAnswer {
  /** It is an answer. */
  readonly type: "answered";
  /** What the model reads. */
  readonly text: string;
  /** Subagents in the background whose results are in the text: they are not reported once more. */
  readonly reportedIds?: readonly AgentId[];
}

/** What wrappers of a tool work with, besides the context of the call. Not for tools themselves. */
export interface ToolRuntime {
  /** What the model called the tool by, after all renaming: for texts that it reads. */
  readonly toolName: string;
  readonly clock: Clock;
  /** How long a tool that ignores its signal is waited for. */
  readonly graceMs: number;
  /** Aborted when nothing further may start: a wrapper that waits to begin something gives up. Aborted with the call's own signal, too. */
  readonly endSignal: AbortSignal;
  /** Stands for the run: what a wrapper has to know over the whole tree it keeps by this key, weakly. */
  readonly run: object;
  /** Says that the call is tried once more, without the model, after an attempt that failed. */
  readonly noteRetry: (retry: {
    /** The attempt that failed, from 1. */
    readonly attempt: number;
    /** What it threw. */
    readonly error: unknown;
    /** How long the next one is waited for. */
    readonly delayMs: number;
  }) => void;
}
