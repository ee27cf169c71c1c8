// The live output of a run: replies as they arrive, and results of tools. No events, and nothing of it is kept.

import type { FinishReason } from "./finish-reason.ts";
import type { AgentId, CallId, RunId, StepId } from "./ids.ts";
import type { ToolExecution } from "./tool-outcome.ts";

/** A piece of a reply as a model gives it. A call comes before its arguments; `index`: which call of the reply, from 0. */
export type ModelDelta =
  | { readonly type: "text" | "reasoning" | "refusal"; readonly text: string }
  | {
      readonly type: "call";
      readonly index: number;
      readonly callId: CallId;
      readonly toolName: string;
    }
  /** Of the call at `index`, as the model writes them: they are no JSON until the last piece has come. */
  | { readonly type: "arguments"; readonly index: number; readonly text: string }
  /** What came of the reply so far does not count: another model answers in place of the one that failed. */
  | { readonly type: "reset"; readonly reason: "fallback" };

/** What is emitted. */
export type StreamPartBody =
  | Exclude<ModelDelta, { readonly type: "reset" }>
  /**
   * Drop what came of the reply of this step: so many characters.
   *
   * `reason`: why what was emitted of the reply does not count: an attempt failed and is made again (`retry`), or by another model (`fallback`); the process
   * of the run had died (`recovered`); the reply became another one, which follows (`replaced`); it is empty, or the call failed
   * (`discarded`); its agent had to end (`cancelled`). `joined`: this reader, or this process, was not there, and gets it from its beginning.
   */
  | {
      readonly type: "reset";
      readonly reason:
        | "retry"
        | "fallback"
        | "recovered"
        | "replaced"
        | "discarded"
        | "cancelled"
        | "joined";
      readonly characters: number;
    }
  /** The reply counts as it was emitted. */
  | { readonly type: "end"; readonly finishReason: FinishReason }
  /** A call of the step has its result, as the model will read it. */
  | {
      readonly type: "result";
      readonly callId: CallId;
      readonly toolName: string;
      readonly text: string;
      readonly isError: boolean;
    };

/**
 * A piece of the live output of a run. The texts of one step since its last `reset`, put together, are the text of the reply, once its `end`
 * has come. A process that dies emits no more; the one that continues the run begins a repeated reply with a `reset`. Arguments are as the model wrote them: where they were mended, or nulls left out of
 * them, the tool is given others. `seq`: from 1, one more with each piece of the run; a reader that joins late gets what was written
 * before it under the number of the last piece.
 */
export type StreamPart = {
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Place of the agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** The step whose reply it is. */
  readonly stepId: StepId;
  /** Of the execution of the agent, from 1. */
  readonly stepNumber: number;
  readonly seq: number;
} & StreamPartBody;

export type StreamPartSource = Pick<
  StreamPart,
  "runId" | "agentId" | "agentPath" | "stepId" | "stepNumber"
>;
export type ResetReason = Extract<StreamPartBody, { readonly type: "reset" }>["reason"];

/** That a call has its result. */
export type ResultBody = Extract<StreamPartBody, { readonly type: "result" }>;

export function resultBody({
  call: { callId, toolName },
  type,
  text,
}: Pick<ToolExecution, "call" | "type" | "text">): ResultBody {
  return { type: "result", callId, toolName, text, isError: type !== "succeeded" };
}
