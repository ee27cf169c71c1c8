import { z } from "./late-zod.ts";

/** Why the model stopped writing, in one vocabulary for all providers. */
export type FinishReason =
  | "stop"
  | "tool_calls"
  | "length"
  | "content_filter"
  | "error"
  | "other"
  | "unknown";

export const FinishReasonSchema = z.enum([
  "stop",
  "tool_calls",
  "length",
  "content_filter",
  "error",
  "other",
  "unknown",
] as const satisfies readonly FinishReason[]);
