// Provider-independent settings of a model call. Absent settings use the provider's default.

import { lazyObject, lazySchema, z } from "./lazy-schema.ts";

/**
 * Provider-independent settings of model calls. Absent settings use the provider's default.
 *
 * A model rejects settings that it does not support, or reports them in `ModelReply.warnings`.
 *
 * @example
 * ```ts
 * const careful = defineAgent({
 *   name: "reviewer",
 *   instructions: "Review the patch.",
 *   model,
 *   modelSettings: { reasoning: { effort: "high" }, verbosity: "low", seed: 7 },
 * });
 * ```
 */
export interface ModelSettings {
  /** Reasoning before the answer. */
  readonly reasoning?: {
    /**
     * Amount of reasoning.
     *
     * @default the model's
     */
    readonly effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
    /**
     * Detail of the reasoning summary, for providers that return only a summary.
     *
     * @default the provider's
     */
    readonly summary?: "auto" | "concise" | "detailed";
  };
  /**
   * Length of the reply.
   *
   * @default the model's
   */
  readonly verbosity?: "low" | "medium" | "high";
  /** Seed for reproducible replies, a whole number. Providers support it on a best-effort basis. */
  readonly seed?: number;
  /** Texts at which the model stops writing. At most 4. */
  readonly stopSequences?: readonly string[];
  /** Nucleus sampling probability, above 0 and at most 1. */
  readonly topP?: number;
  /**
   * True if the model may call several tools in one reply.
   *
   * @default the provider's
   */
  readonly parallelToolCalls?: boolean;
}

/**
 * Tool choice of a request.
 *
 * - `auto`: the model decides.
 * - `none`: no tool calls.
 * - `required`: at least one tool call.
 * - `{ toolName }`: this tool.
 * - `{ toolNames }`: at least one of these tools.
 *
 * @example
 * ```ts
 * const forced: ToolChoice = { toolName: "search" };
 * const asker = defineAgent({
 *   name: "asker",
 *   instructions: "Search first.",
 *   model,
 *   tools: [search],
 *   modelSettings: { toolChoice: forced },
 * });
 * ```
 */
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
