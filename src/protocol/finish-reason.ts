import { lazySchema, z } from "./lazy-schema.ts";

/**
 * Reason why a model stopped writing, independent of the provider.
 *
 * @example
 * ```ts
 * const reasons: readonly FinishReason[] = ["length", "content_filter"];
 * const cautious = defineAgent({
 *   name: "writer",
 *   instructions: "Write.",
 *   model,
 *   stopWhen: reasons.map((reason) => hasFinishReason(reason)),
 * });
 * ```
 */
export type FinishReason =
  /** The reply is complete. */
  | "stop"
  /** The reply ends with tool calls. */
  | "tool_calls"
  /** The reply reached `maxOutputTokens`. */
  | "length"
  /** The provider filtered the reply. */
  | "content_filter"
  /** The provider paused the reply. It continues when its content is sent back. */
  | "paused"
  /** The provider reported an error within the reply. */
  | "error"
  /** The provider reported a reason without an equivalent here, such as `eos_token`. */
  | "other"
  /** The provider reported no reason. */
  | "unknown";
export const FINISH_REASONS = [
  "stop",
  "tool_calls",
  "length",
  "content_filter",
  "paused",
  "error",
  "other",
  "unknown",
] as const satisfies readonly FinishReason[];

export const FinishReasonSchema = lazySchema(() => z.enum(FINISH_REASONS));
