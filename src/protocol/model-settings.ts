// How a model is asked to answer, in one vocabulary for all providers. What is left out is the provider's default.

import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/** How a model is to answer. What the model cannot do it refuses, or reports in `ModelReply.warnings`. */
export interface ModelSettings {
  /** How it thinks before it answers. */
  readonly reasoning?: {
    /** How much. Default: the model's. */
    readonly effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
    /** How its reasoning is summarised, where the provider gives a summary only. */
    readonly summary?: "auto" | "concise" | "detailed";
  };
  /** How much it writes. Default: the model's. */
  readonly verbosity?: "low" | "medium" | "high";
  /** A whole number: the same one asks for the same reply, as far as the provider can. */
  readonly seed?: number;
  /** The model stops where it would write one of these; at most 4. */
  readonly stopSequences?: readonly string[];
  /** Over 0, up to 1. */
  readonly topP?: number;
  /** Whether it may call several tools in one reply. */
  readonly parallelToolCalls?: boolean;
}

/** Whether a model may call tools: as it likes, none, one at least, this one, or one of these at least. */
export type ToolChoice =
  | "auto"
  | "none"
  | "required"
  | { readonly toolName: string }
  | { readonly toolNames: readonly string[] };

const MOST_STOPS = 4;

const ReasoningSettingsSchema = lazyObject(() => ({
  effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]).exactOptional(),
  summary: z.enum(["auto", "concise", "detailed"]).exactOptional(),
}));

export const ModelSettingsSchema = lazyObject(() => ({
  reasoning: ReasoningSettingsSchema().readonly().exactOptional(),
  verbosity: z.enum(["low", "medium", "high"]).exactOptional(),
  seed: z.int().exactOptional(),
  stopSequences: z.array(z.string().min(1)).min(1).max(MOST_STOPS).readonly().exactOptional(),
  topP: z.number().positive().max(1).exactOptional(),
  parallelToolCalls: z.boolean().exactOptional(),
})) satisfies () => z.ZodType<ModelSettings>;

export const ToolChoiceSchema = lazySchema(
  () =>
    z.union([
      z.enum(["auto", "none", "required"]),
      z.strictObject({ toolName: z.string() }).readonly(),
      z.strictObject({ toolNames: z.array(z.string()).min(1).readonly() }).readonly(),
    ]) satisfies z.ZodType<ToolChoice>,
);
