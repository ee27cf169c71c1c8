// Points of a run at which a hook may change values: their inputs and patches.

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { ContentPart } from "../protocol/message-content.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ToolOutcomeType } from "../protocol/tool-failure.ts";

/**
 * Input of a `transform` handler at each point. The values are frozen.
 *
 * @example
 * ```ts
 * function logTask({ role, task }: PointInput["userInput"]): void {
 *   console.log(`${role} starts with: ${task}`);
 * }
 * ```
 */
export interface PointInput {
  /**
   * Input before a run begins. The root has its task; nothing has been spent, and the history is
   * empty.
   *
   * @example
   * ```ts
   * const screen = transform("userInput", ({ task }) =>
   *   task.includes("password") ? { refuse: "Do not send passwords." } : undefined,
   * );
   * ```
   */
  readonly userInput: {
    /** Role name of the root. */
    readonly role: string;
    /** Text of the task, with one line for each part that is not text. */
    readonly task: string;
    /** All parts of the task, in order. Absent if the task is only text. */
    readonly content?: readonly ContentPart[];
    /** Metadata of the run. */
    readonly metadata: JsonObject;
  };
  /**
   * Input before each model call.
   *
   * @example
   * ```ts
   * const today = transform("beforeModel", ({ instructions }) => ({
   *   instructions: `${instructions}\nToday is ${new Date().toDateString()}.`,
   * }));
   * ```
   */
  readonly beforeModel: {
    /** System prompt of the request. */
    readonly instructions: string;
    /**
     * Messages of the request without the system prompt, including the sections of the role.
     * Sections that are system messages are not included.
     */
    readonly messages: readonly Message[];
    /** Completed steps of this execution, oldest first. */
    readonly steps: readonly StepRecord[];
  };
  /**
   * Input before each tool call. The arguments are not validated yet; changed arguments are
   * validated afterwards.
   *
   * @example
   * ```ts
   * const limitQuery = transform(
   *   "beforeTool",
   *   ({ arguments: input }) =>
   *     typeof input === "object" && input !== null && !Array.isArray(input)
   *       ? { arguments: { ...input, maxResults: 5 } }
   *       : undefined,
   *   { tools: ["search"] },
   * );
   * ```
   */
  readonly beforeTool: {
    /** Tool name. */
    readonly toolName: string;
    /** Id of the tool call. */
    readonly callId: CallId;
    /** Arguments as parsed JSON. Calls with invalid JSON do not reach the hook. */
    readonly arguments: JsonValue;
  };
  /**
   * Input after each tool call, whatever its outcome.
   *
   * @example
   * ```ts
   * const mask = transform("afterTool", ({ text }) => ({
   *   text: text.replaceAll(/\b\d{16}\b/g, "****"),
   * }));
   * ```
   */
  readonly afterTool: {
    /** Tool name. */
    readonly toolName: string;
    /** Id of the tool call. */
    readonly callId: CallId;
    /** Arguments after hooks and answers. A string if the model did not write valid JSON. */
    readonly arguments: JsonValue;
    /** Outcome of the call. */
    readonly outcome: ToolOutcomeType;
    /** Text that the model reads. */
    readonly text: string;
  };
  /**
   * Input before a history is shortened.
   *
   * @example
   * ```ts
   * const keepMore = transform("beforeCompaction", ({ messages }) => ({
   *   keepMessages: Math.ceil(messages.length / 2),
   * }));
   * ```
   */
  readonly beforeCompaction: {
    /** Messages of the history. */
    readonly messages: readonly Message[];
    /** Input tokens of the history, counted or estimated. */
    readonly inputTokens: number;
    /** Limit that the history exceeds, in input tokens. */
    readonly maxInputTokens: number;
  };
  /**
   * Input before a subagent starts. The `context` argument of the handler belongs to the parent.
   *
   * @example
   * ```ts
   * const brief = transform("subagentStart", ({ task }) => ({
   *   task: `${task}\nReply in at most 200 words.`,
   * }));
   * ```
   */
  readonly subagentStart: {
    /** Role name of the subagent. */
    readonly role: string;
    /** Text of the subagent's task. */
    readonly task: string;
    /** Depth of the subagent. 1 is directly below the root. */
    readonly childDepth: number;
  };
  /**
   * Input when the root has given its answer.
   *
   * @example
   * ```ts
   * const demandSources = transform("stop", ({ text, isActive }) =>
   *   text.includes("http") || isActive ? undefined : { continueWith: "Add your sources." },
   * );
   * ```
   */
  readonly stop: {
    /** Last text of the agent. */
    readonly text: string;
    /** Typed result. `undefined` if the role declares none, or none was given. */
    readonly output: JsonValue | undefined;
    /** Completed steps of this execution, oldest first. */
    readonly steps: readonly StepRecord[];
    /** True if an earlier veto made this execution continue. Check it to avoid endless loops. */
    readonly isActive: boolean;
    /** Number of vetoes in this execution so far. At most 3 take effect. */
    readonly vetoes: number;
  };
  /** Input when a subagent has given its answer, at any depth. */
  readonly subagentStop: PointInput["stop"];
}

/**
 * Fields that a `transform` handler may return at each point. Absent and `undefined` fields change
 * nothing.
 *
 * @example
 * ```ts
 * const patch: PointPatch["beforeTool"] = { deny: "Writing to /etc is not allowed." };
 * ```
 */
export interface PointPatch {
  /** Replaces or refuses the task. */
  readonly userInput: {
    /** New text of the task. Parts that are not text are kept after it. */
    readonly task?: string | undefined;
    /**
     * Refusal with its reason. The run stops with `input_refused` before any model call; later
     * hooks are skipped.
     */
    readonly refuse?: string | undefined;
  };
  /** Changes one request. The stored history is unchanged. */
  readonly beforeModel: {
    /** New system prompt of this request. */
    readonly instructions?: string | undefined;
    /**
     * Complete new message list of this request, without system messages. Change `instructions` for
     * the system prompt.
     */
    readonly messages?: readonly Message[] | undefined;
    /** Sampling temperature of this request, from 0. */
    readonly temperature?: number | undefined;
  };
  /** Changes the arguments of a tool call, or denies the call. */
  readonly beforeTool: {
    /** New arguments. They are validated by the tool's schema. */
    readonly arguments?: JsonValue | undefined;
    /**
     * Denial with its reason, which the model reads. It counts like a guard's denial; later hooks
     * are skipped.
     */
    readonly deny?: string | undefined;
  };
  /** Changes the text that the model reads of a tool call, or adds metadata. */
  readonly afterTool: {
    /** New text for the model. */
    readonly text?: string | undefined;
    /**
     * Metadata stored with the call. Keys of several hooks are merged; for equal keys the last hook
     * wins.
     */
    readonly metadata?: JsonObject | undefined;
  };
  /** Changes how much of the history is kept. */
  readonly beforeCompaction: {
    /** Number of most recent messages that stay unchanged, at least 1. */
    readonly keepMessages?: number | undefined;
  };
  /** Changes the task of a subagent. */
  readonly subagentStart: {
    /** New text of the task. */
    readonly task?: string | undefined;
  };
  /**
   * Vetoes the end of the agent. A veto applies to an answer only, never to a limit, an error or a
   * cancellation.
   *
   * At most 3 vetoes take effect in one execution.
   */
  readonly stop: {
    /** Instruction that makes the agent continue. The model reads it; later hooks are skipped. */
    readonly continueWith?: string | undefined;
  };
  /** Vetoes the end of a subagent, as at `stop`. */
  readonly subagentStop: PointPatch["stop"];
}

/**
 * Name of a point at which a `transform` hook runs, such as `"beforeTool"`.
 *
 * @example
 * ```ts
 * const points: readonly TransformPoint[] = ["beforeModel", "beforeTool"];
 * ```
 */
export type TransformPoint = keyof PointInput;

/**
 * Context of a hook call. Read-only.
 *
 * `Context` is the type of the run's context that the hook requires.
 *
 * @example
 * ```ts
 * const cap = transform("beforeModel", (_input, context: HookContext) => {
 *   if (context.stepNumber > 20) context.requestStop("More than 20 steps.");
 * });
 * ```
 */
export interface HookContext<out Context = unknown> {
  /** Name of the hook, as events, signals and errors contain it. */
  readonly hookName: string;
  /**
   * Signal that aborts when the agent has to end, or the hook has timed out. Later results are
   * discarded.
   */
  readonly signal: AbortSignal;
  /** Id of the run. */
  readonly runId: RunId;
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the agent. 0 for the root. */
  readonly depth: number;
  /** Role name of the agent. */
  readonly role: string;
  /** Id of the execution. */
  readonly executionId: ExecutionId;
  /** Number of the current step, from 1. 0 before the first step. */
  readonly stepNumber: number;
  /** Metadata of the agent. Frozen. */
  readonly metadata: JsonObject;
  /**
   * Value that was passed as `context` when the run was started. `undefined` if none was passed.
   */
  readonly context: Context;
  /**
   * Raises the stop signal `stop_requested` for this agent. The agent stops before its next phase,
   * with `message` as the reason.
   */
  requestStop(message: string): void;
}

/** Fields that a handler may return at point `P`. Fields of other points are compile errors. */
export type AllowedPatch<P extends TransformPoint> = PointPatch[P] & {
  readonly [
    F in Exclude<
      { readonly [Other in TransformPoint]: keyof PointPatch[Other] }[TransformPoint],
      keyof PointPatch[P]
    >
  ]?: never;
};
