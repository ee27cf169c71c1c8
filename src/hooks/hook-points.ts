// The points of a run at which a hook may change something: what it is shown there, and what it may change.

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { ContentPart } from "../protocol/message-content.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ToolOutcomeType } from "../protocol/tool-outcome.ts";

/** What a hook is shown, by point. */
export interface PointInput {
  /** Before a run begins. The root has its task; nothing has been spent, and the task is not in a history yet. */
  readonly userInput: {
    /** The role at the root. */
    readonly role: string;
    /** With a line for each part that is no text. */
    readonly task: string;
    /** All of the task, in order, if a part of it is no text. */
    readonly content?: readonly ContentPart[];
    readonly metadata: JsonObject;
  };
  /** Before each model call. */
  readonly beforeModel: {
    /** The system prompt of the request. */
    readonly instructions: string;
    /** The history without the instructions, with the role's sections in their places; those that are system messages are not shown. */
    readonly messages: readonly Message[];
    /** The completed steps of this execution, oldest first. */
    readonly steps: readonly StepRecord[];
  };
  /** Before each tool call. The arguments are not validated yet; those of a patch are validated, too. */
  readonly beforeTool: {
    /** The name of the tool. */
    readonly toolName: string;
    readonly callId: CallId;
    readonly arguments: JsonValue;
  };
  /** After each tool call, however it ended. The arguments are as hooks and answers left them; a text, if the model wrote no JSON. */
  readonly afterTool: {
    /** The name of the tool. */
    readonly toolName: string;
    readonly callId: CallId;
    readonly arguments: JsonValue;
    readonly outcome: ToolOutcomeType;
    /** What the model reads. */
    readonly text: string;
  };
  /** Before a history is made shorter. */
  readonly beforeCompaction: {
    readonly messages: readonly Message[];
    /** Input tokens of the history, counted or estimated. */
    readonly inputTokens: number;
    /** The bound that it is over. */
    readonly maxInputTokens: number;
  };
  /** Before a subagent starts. The context is that of the agent which delegates. */
  readonly subagentStart: {
    /** The role of the subagent. */
    readonly role: string;
    /** What the subagent is to do. */
    readonly task: string;
    /** Where it will stand: 1 below the root. */
    readonly childDepth: number;
  };
  /** When the root is done. */
  readonly stop: {
    /** Its last text. */
    readonly text: string;
    /** Its typed result, if its role declares one and it was given. */
    readonly output: JsonValue | undefined;
    readonly steps: readonly StepRecord[];
    /** True if it continues only because of an earlier veto in this execution: the moment to beware of an endless run. */
    readonly isActive: boolean;
    /** How many vetoes there were in this execution. */
    readonly vetoes: number;
  };
  /** When a subagent is done, at any depth. */
  readonly subagentStop: PointInput["stop"];
}

/** What a hook may change, by point. A field that is left out, or undefined, stays as it is. */
export interface PointPatch {
  /** Replaces or refuses the task. */
  readonly userInput: {
    /** Takes the place of the text. What is no text stays, and follows it. */
    readonly task?: string | undefined;
    /** Why the run stops before it has asked anything of a model. No later hook is asked. */
    readonly refuse?: string | undefined;
  };
  /** Changes one request. The stored history stays as it is. */
  readonly beforeModel: {
    /** The system prompt of this request instead. */
    readonly instructions?: string | undefined;
    /** The whole list anew, without a system message: `instructions` is the way to change that one. */
    readonly messages?: readonly Message[] | undefined;
    /** From 0 up. */
    readonly temperature?: number | undefined;
  };
  /** Changes the arguments of a call, or denies it. */
  readonly beforeTool: {
    readonly arguments?: JsonValue | undefined;
    /** Why the call is not made; the model reads it. Counts as one more deny among the guards. No later hook is asked. */
    readonly deny?: string | undefined;
  };
  /** Changes the text that the model reads of a call, or adds metadata. */
  readonly afterTool: {
    /** What the model reads instead. */
    readonly text?: string | undefined;
    /** Kept with the call. Several hooks may add keys; for one key the last wins. */
    readonly metadata?: JsonObject | undefined;
  };
  /** Changes how much is kept. */
  readonly beforeCompaction: {
    /** How many of the last messages stay as they are; at least 1. */
    readonly keepMessages?: number | undefined;
  };
  /** Changes the task of the subagent. */
  readonly subagentStart: {
    /** What it is to do instead. */
    readonly task?: string | undefined;
  };
  /** What a hook may do about a stop. The veto is bounded, and never holds against a limit, an error or a cancel. */
  readonly stop: {
    /** What the agent is to do instead of stopping; the model reads it. No later hook is asked. */
    readonly continueWith?: string | undefined;
  };
  /** As at `stop`. */
  readonly subagentStop: PointPatch["stop"];
}

/** A point at which a hook may change something. */
export type TransformPoint = keyof PointInput;

/**
 * What a hook may know of the agent that it serves. Read-only; each call has its own. `Context`: what the hook asks of the run's context;
 * default: nothing.
 */
export interface HookContext<out Context = unknown> {
  /** The name under which the hook appears in events, signals and errors. */
  readonly hookName: string;
  /** Aborted when the hook must end: its agent has to, or its time is up. What it gives after that is discarded. */
  readonly signal: AbortSignal;
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

/** A patch of one point, in which the fields of the others are a compile error. */
export type AllowedPatch<P extends TransformPoint> = PointPatch[P] & {
  readonly [
    F in Exclude<
      { readonly [Other in TransformPoint]: keyof PointPatch[Other] }[TransformPoint],
      keyof PointPatch[P]
    >
  ]?: never;
};
