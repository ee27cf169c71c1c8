// The effects that an agent waits for, and their outcomes: a lease, a model call, a tool call and
// user code. Each is a promise that never rejects, because failures are data. In a persisted run
// each effect is named by its position, and its outcome is found by that name (in-flight-work.ts).

import { AssistantMessageSchema, type Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import { TimeSpanSchema } from "../protocol/step-timing.ts";
import { ErrorRecordSchema, type ErrorRecord } from "../protocol/stop.ts";
import { ToolExecutionSchema } from "../protocol/tool-outcome.ts";
import { ModelUsageSchema, UsageSchema } from "../protocol/usage.ts";
import { DeferralSchema } from "./agent-state.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { RefusalSchema } from "../protocol/account.ts";
import { CountSchema, lazyObject, lazySchema, lazyUnion, z } from "../protocol/lazy-schema.ts";

/** The history of an agent so far. Its subagents inherit a part. */
export interface ParentHistory {
  readonly messages: readonly Message[];
  /** The completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
}

/** How the time of an effect was spent. Absent if it took no time, or only waited. */
const spans = lazySchema(() => z.array(TimeSpanSchema()).readonly().exactOptional());
/** The part of the usage that fallback models consumed. */
const otherModels = lazySchema(() =>
  z.array(ModelUsageSchema().readonly()).readonly().exactOptional(),
);
const spent = lazySchema(() => ({
  usage: UsageSchema(),
  otherModels: otherModels(),
  spans: spans(),
}));
const TokenUsageSchema = lazyObject(() => ({
  inputTokens: CountSchema(),
  cachedInputTokens: CountSchema(),
  cacheWriteInputTokens: CountSchema().optional(),
  outputTokens: CountSchema(),
  reasoningTokens: CountSchema(),
  reportedCostUsd: z.number().nonnegative().optional(),
  serviceTier: z.string().optional(),
  hasServerTools: z.literal(true).optional(),
}));

export const InferOutcomeSchema = lazyUnion("type", () => [
  z.strictObject({
    type: z.literal("replied"),
    reply: z.strictObject({
      message: AssistantMessageSchema(),
      finishReason: FinishReasonSchema(),
      rawFinishReason: z.string().exactOptional(),
      usage: TokenUsageSchema().exactOptional(),
      responseId: z.string().exactOptional(),
      responseModel: z.string().exactOptional(),
    }),
    ...spent(),
  }),
  z.strictObject({
    type: z.literal("failed"),
    error: ErrorRecordSchema(),
    isRetryable: z.boolean(),
    ...spent(),
  }),
  // A further attempt was refused, because a limit on the path has no budget left.
  z.strictObject({ type: z.literal("refused"), refusal: RefusalSchema(), ...spent() }),
  // The agent was cancelled or asked to stop.
  z.strictObject({ type: z.literal("cancelled"), ...spent() }),
]);

/** The outcome of a model call, and the usage it has consumed. */
export type InferOutcome = Readonly<z.infer<ReturnType<typeof InferOutcomeSchema>>>;

/**
 * Returns the persisted outcome of a model call. The copy can be deeply frozen. Parsing alone
 * freezes only the top level of lists.
 */
export function readInferOutcome(stored: unknown): InferOutcome {
  return structuredClone(InferOutcomeSchema().parse(stored));
}

export const CallEndSchema = lazyUnion("type", () => [
  z.strictObject({
    type: z.literal("executed"),
    execution: ToolExecutionSchema(),
    /** True if its result was cut and a summary is to replace it. */
    isToSummarize: z.boolean(),
    /** Set if a hook after the call broke, or if its error ends the agent. The execution fails. */
    failure: ErrorRecordSchema().exactOptional(),
    spans: spans(),
  }),
  z.strictObject({ type: z.literal("deferred"), deferral: DeferralSchema(), spans: spans() }),
]);
/** A call with its result, or a call that waits for an answer from outside. */
export type CallEnd = Readonly<z.infer<ReturnType<typeof CallEndSchema>>>;
/** A call with its result. */
export type ExecutedCall = Extract<CallEnd, { readonly type: "executed" }>;

/**
 * The outcome of user code. `failed` if it threw, rejected or exceeded its time limit. `cancelled`
 * if it did so because the agent had to end.
 */
export type Consulted<T> =
  | { readonly type: "returned"; readonly value: T }
  | { readonly type: "cancelled" }
  | { readonly type: "failed"; readonly error: ErrorRecord };
