import { lazySchema, z } from "./lazy-schema.ts";

/** Why the model stopped writing, in one vocabulary for all providers. */
export type FinishReason =
  | "stop"
  | "tool_calls"
  | "length"
  | "content_filter"
  /** The provider paused the turn: it continues once its content is sent back. */
  | "paused"
  | "error"
  | "other"
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
