// Live output of a run: replies as they arrive, and tool results. Stream parts are not events and
// are not persisted.

import type { FinishReason } from "./finish-reason.ts";
import type { AgentId, CallId, RunId, StepId } from "./ids.ts";
import type { ToolExecution } from "./tool-outcome.ts";

/**
 * Part of a reply that a model streams to `onDelta`. A `call` precedes its `arguments`; `index` is
 * the index of the call in the reply, from 0.
 *
 * @example
 * ```ts
 * const deltas: readonly ModelDelta[] = [
 *   { type: "call", index: 0, callId: toCallId("call_1"), toolName: "search" },
 *   { type: "arguments", index: 0, text: '{"query":' },
 *   { type: "arguments", index: 0, text: '"espalier"}' },
 * ];
 * ```
 */
export type ModelDelta =
  /** Next characters of the reply. */
  | { readonly type: "text" | "reasoning" | "refusal"; readonly text: string }
  /** Start of a tool call. */
  | {
      readonly type: "call";
      /** Index of the call in the reply, from 0. */
      readonly index: number;
      /** Id of the call. */
      readonly callId: CallId;
      /** Tool name as the model wrote it. */
      readonly toolName: string;
    }
  /**
   * Fragment of the arguments of the call at `index`. The fragments form JSON only when they are
   * complete.
   */
  | { readonly type: "arguments"; readonly index: number; readonly text: string }
  /** Discards the reply so far: a fallback model answers in place of the failed one. */
  | { readonly type: "reset"; readonly reason: "fallback" };

/**
 * Content of a stream part, without its position in the tree. Narrow it by `type`.
 *
 * - `text`, `reasoning`, `refusal`: the next characters of the reply.
 * - `call`, `arguments`: a tool call, and fragments of its arguments.
 * - `reset`: the streamed reply is discarded.
 * - `end`: the reply is final.
 * - `result`: the result of a tool call.
 *
 * @example
 * ```ts
 * for await (const part of run.stream()) {
 *   if (part.type === "text") process.stdout.write(part.text);
 *   if (part.type === "result") console.log(`[${part.toolName}${part.isError ? " failed" : ""}]`);
 * }
 * ```
 */
export type StreamPartBody =
  | Exclude<ModelDelta, { readonly type: "reset" }>
  /**
   * Discards the streamed reply of this step. `characters` is its length in UTF-16 code units.
   *
   * `reason` is one of:
   * - `retry`: the attempt failed and is repeated.
   * - `fallback`: the attempt failed and another model answers.
   * - `recovered`: the process of the run had died.
   * - `replaced`: the reply was changed, and the new text follows.
   * - `discarded`: the reply is empty, or the call failed.
   * - `cancelled`: the agent had to end.
   * - `joined`: the reader joined late, and the reply follows from its beginning.
   */
  | {
      readonly type: "reset";
      /** Reason why the streamed reply is discarded. */
      readonly reason:
        | "retry"
        | "fallback"
        | "recovered"
        | "replaced"
        | "discarded"
        | "cancelled"
        | "joined";
      /** Length of the discarded text in UTF-16 code units. */
      readonly characters: number;
    }
  /** Confirms the streamed reply. */
  | { readonly type: "end"; readonly finishReason: FinishReason }
  /** Result of a tool call, as the model will read it. */
  | {
      readonly type: "result";
      /** Id of the call. */
      readonly callId: CallId;
      /** Tool name. */
      readonly toolName: string;
      /** Text that the model will read. */
      readonly text: string;
      /** True unless the outcome of the call is `succeeded`. */
      readonly isError: boolean;
    };

/**
 * Part of the live output of a run.
 *
 * The concatenated `text` parts of a step since its last `reset` are the text of the reply, once
 * `end` has arrived. `arguments` are as the model wrote them, before repairs.
 *
 * @example
 * ```ts
 * const texts = new Map<string, string>();
 * for await (const part of run.stream()) {
 *   if (part.type === "reset") texts.delete(part.stepId);
 *   if (part.type === "text") texts.set(part.stepId, (texts.get(part.stepId) ?? "") + part.text);
 * }
 * ```
 */
export type StreamPart = {
  /** Id of the run. */
  readonly runId: RunId;
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Id of the step that the reply belongs to. */
  readonly stepId: StepId;
  /** Number of the step in its execution, from 1. */
  readonly stepNumber: number;
  /**
   * Sequence number in the run, from 1. Parts that a late reader receives again repeat the number
   * of the latest part.
   */
  readonly seq: number;
} & StreamPartBody;

export type StreamPartSource = Pick<
  StreamPart,
  "runId" | "agentId" | "agentPath" | "stepId" | "stepNumber"
>;
export type ResetReason = Extract<StreamPartBody, { readonly type: "reset" }>["reason"];

/** Reports that a call has its result. */
export type ResultBody = Extract<StreamPartBody, { readonly type: "result" }>;

export function createResultBody({
  call: { callId, toolName },
  type,
  text,
}: Pick<ToolExecution, "call" | "type" | "text">): ResultBody {
  return { type: "result", callId, toolName, text, isError: type !== "succeeded" };
}
