// The points of a run at which a hook may change something: what it is shown there, and what it may change.

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { ContentPart } from "../protocol/message-content.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ToolOutcomeType } from "../protocol/tool-outcome.ts";

/** The root has its task; nothing has been spent, and the task is not in a history yet. */
export interface UserInput {
  /** The role at the root. */
  readonly role: string;
  /** With a line for each part that is no text. */
  readonly task: string;
  /** All of the task, in order, if a part of it is no text. */
  readonly content?: readonly ContentPart[];
  readonly metadata: JsonObject;
}

/** What a hook may do about a task. */
export interface UserInputPatch {
  /** Takes the place of the text. What is no text stays, and follows it. */
  readonly task?: string | undefined;
  /** Why the run stops before it has asked anything of a model. No later hook is asked. */
  readonly refuse?: string | undefined;
}

/** A request is about to go to the model. */
export interface BeforeModelInput {
  /** The system prompt of the request. */
  readonly instructions: string;
  /** The history without the instructions, with the role's sections in their places; those that are system messages are not shown. */
  readonly messages: readonly Message[];
  /** The completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
}

/** What a hook may change of one request. The stored history stays as it is (R78). */
export interface BeforeModelPatch {
  /** The system prompt of this request instead. */
  readonly instructions?: string | undefined;
  /** The whole list anew, without a system message: `instructions` is the way to change that one. */
  readonly messages?: readonly Message[] | undefined;
  /** From 0 up. */
  readonly temperature?: number | undefined;
}

/** A tool is about to be called; its arguments are not validated yet, and are again after a change (C44). */
export interface BeforeToolInput {
  /** The name of the tool. */
  readonly toolName: string;
  readonly callId: CallId;
  readonly arguments: JsonValue;
}

/** What a hook may do about a tool call. */
export interface BeforeToolPatch {
  readonly arguments?: JsonValue | undefined;
  /** Why the call is not made; the model reads it. Counts as one more deny among the guards (C43). No later hook is asked. */
  readonly deny?: string | undefined;
}

/** A tool call has ended. Its arguments are as hooks and answers left them; a text, if the model wrote no JSON. */
export interface AfterToolInput extends BeforeToolInput {
  readonly outcome: ToolOutcomeType;
  /** What the model reads. */
  readonly text: string;
}

/** What a hook may change of a tool call that has ended. */
export interface AfterToolPatch {
  /** What the model reads instead. */
  readonly text?: string | undefined;
  /** Kept with the call (R82). Several hooks may add keys; for one key the last wins. */
  readonly metadata?: JsonObject | undefined;
}

/** The history is about to be made shorter. */
export interface BeforeCompactionInput {
  readonly messages: readonly Message[];
  /** Input tokens of the history, counted or estimated. */
  readonly inputTokens: number;
  /** The bound that it is over. */
  readonly maxInputTokens: number;
}

/** What a hook may change of a compaction. */
export interface BeforeCompactionPatch {
  /** How many of the last messages stay as they are; at least 1. */
  readonly keepMessages?: number | undefined;
}

/** A subagent is about to start. The context is that of the agent which delegates. */
export interface SubagentStartInput {
  /** The role of the subagent. */
  readonly role: string;
  /** What the subagent is to do. */
  readonly task: string;
  /** Where it will stand: 1 below the root. */
  readonly childDepth: number;
}

/** What a hook may change of a delegation. */
export interface SubagentStartPatch {
  /** What it is to do instead. */
  readonly task?: string | undefined;
}

/** An agent is done and about to stop. */
export interface StopInput {
  /** Its last text. */
  readonly text: string;
  /** Its typed result, if its role declares one and it was given. */
  readonly output: JsonValue | undefined;
  readonly steps: readonly StepRecord[];
  /** True if it continues only because of an earlier veto in this execution: the moment to beware of an endless run. */
  readonly isActive: boolean;
  /** How many vetoes there were in this execution. */
  readonly vetoes: number;
}

/** What a hook may do about a stop. The veto is bounded, and never holds against a limit, an error or a cancel (C35). */
export interface StopPatch {
  /** What the agent is to do instead of stopping; the model reads it. No later hook is asked. */
  readonly continueWith?: string | undefined;
}

/** What a hook is shown, by point. */
export interface PointInput {
  /** Before a run begins. */
  readonly userInput: UserInput;
  /** Before each model call. */
  readonly beforeModel: BeforeModelInput;
  /** Before each tool call. */
  readonly beforeTool: BeforeToolInput;
  /** After each tool call, however it ended. */
  readonly afterTool: AfterToolInput;
  /** Before a history is made shorter. */
  readonly beforeCompaction: BeforeCompactionInput;
  /** Before a subagent starts. */
  readonly subagentStart: SubagentStartInput;
  /** When the root is done. */
  readonly stop: StopInput;
  /** When a subagent is done, at any depth. */
  readonly subagentStop: StopInput;
}

/** What a hook may change, by point. A field that is left out, or undefined, stays as it is. */
export interface PointPatch {
  readonly userInput: UserInputPatch;
  readonly beforeModel: BeforeModelPatch;
  readonly beforeTool: BeforeToolPatch;
  readonly afterTool: AfterToolPatch;
  readonly beforeCompaction: BeforeCompactionPatch;
  readonly subagentStart: SubagentStartPatch;
  readonly stop: StopPatch;
  readonly subagentStop: StopPatch;
}

/** A point at which a hook may change something. */
export type TransformPoint = keyof PointInput;
/** Points that concern one tool: hooks there can be limited to tools by name. */
export type ToolPoint = "beforeTool" | "afterTool";

/** What every hook that is waited for knows of itself. */
export interface HookSelf {
  /** The name under which the hook appears in events, signals and errors. */
  readonly hookName: string;
  /** Aborted when the hook must end: its agent has to, or its time is up. What it gives after that is discarded. */
  readonly signal: AbortSignal;
}

/**
 * What a hook may know of the agent that it serves. Read-only; each call has its own. `Context`: what the hook asks of the run's context;
 * default: nothing.
 */
export interface HookContext<out Context = unknown> extends HookSelf {
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Place of the agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** The name of the agent's role. */
  readonly role: string;
  readonly executionId: ExecutionId;
  /** From 1; 0 before the first step. */
  readonly stepNumber: number;
  /** The agent's metadata. Frozen. */
  readonly metadata: JsonObject;
  /** The context of the run: the very value that was given with it; undefined: none was. */
  readonly context: Context;
  /** Raises a stop signal for this agent: it stops before its next phase, with this message as its reason. */
  requestStop(message: string): void;
}

/** Every field that a patch has at any point. */
export type PatchField = { readonly [P in TransformPoint]: keyof PointPatch[P] }[TransformPoint];

/** A patch of one point, in which the fields of the others are a compile error (R80). */
export type AllowedPatch<P extends TransformPoint> = PointPatch[P] & {
  readonly [F in Exclude<PatchField, keyof PointPatch[P]>]?: never;
};
