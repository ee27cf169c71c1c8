// Context at the start of a step, and the messages of its request that are not part of the history.

import { BudgetAmountsSchema, type AccountGrant } from "./account.ts";
import { AttachmentKindSchema, type AttachmentKind } from "./attachment.ts";
import { HashSchema } from "./definition.ts";
import type { JsonObject } from "../kernel/json.ts";
import { JsonObjectSchema } from "./json-value.ts";
import { CountSchema, lazyObject, lazySchema, lazyUnion, z } from "./lazy-schema.ts";
import {
  ModelSettingsSchema,
  ToolChoiceSchema,
  type ModelSettings,
  type ToolChoice,
} from "./model-settings.ts";

/**
 * Model, tools, prompt and parameters of a step. Long texts are stored once per run, under their
 * hash.
 *
 * @example
 * ```ts
 * for (const { context } of result.steps)
 *   console.log(context.model.id, context.toolNames, result.definitions[context.promptHash]);
 * ```
 */
export interface StepContext {
  /** Number of the step in its execution, from 1. */
  readonly number: number;
  /** Model of the step. */
  readonly model: {
    /** Provider of the model. */
    readonly provider: string;
    /** Id of the model. */
    readonly id: string;
    /** `replayKey` of the model. Absent if the model has none. */
    readonly replayKey?: string;
    /** `replayKey` of each model of a fallback. Absent without a fallback. */
    readonly replayKeys?: readonly string[];
    /** Attachment kinds that the model accepts. Absent if the model accepts only text. */
    readonly inputModalities?: readonly AttachmentKind[];
  };
  /** Names of the tools offered to the model, in request order. */
  readonly toolNames: readonly string[];
  /** Hash of the instructions: the leading system messages, joined by an empty line. */
  readonly promptHash: string;
  /** Hash of the tool definitions as a JSON list. */
  readonly toolsHash: string;
  /**
   * Hash of the output schema as JSON (`ModelRequest.output`). Absent if the reply is free text.
   */
  readonly outputHash?: string;
  /**
   * Remaining budget of the agent before the step by axis, in the units of `Budget`. Contains
   * limited axes only.
   */
  readonly budget: AccountGrant["budget"];
  /** Parameters of the request. */
  readonly parameters: {
    /** Maximum output tokens of the reply. */
    readonly maxOutputTokens: number;
    /** Sampling temperature. Absent for the provider's default. */
    readonly temperature?: number;
    /** Model settings. Absent for the model's own. */
    readonly settings?: ModelSettings;
    /** Tool choice. Absent for `auto`. */
    readonly toolChoice?: ToolChoice;
  };
  /**
   * Messages of the request, if they differ from the history. Absent if the request is the history.
   *
   * - `history`: messages `from` (inclusive, counted from 0) to `to` (exclusive) of the history
   *   when the step began.
   * - `earlier`: messages `from` to `to` of the previous step's request.
   * - `message`: a message that is in neither.
   */
  readonly shown?: readonly (
    | { readonly type: "history"; readonly from: number; readonly to: number }
    | { readonly type: "earlier"; readonly from: number; readonly to: number }
    | {
        readonly type: "message";
        /** Message without its text. */
        readonly message: JsonObject;
        /** Hash of the message's text. */
        readonly textHash: string;
      }
  )[];
}

export type ShownPart = NonNullable<StepContext["shown"]>[number];

const range = lazySchema(() => ({ from: CountSchema(), to: CountSchema() }));

export const ShownPartSchema = lazyUnion("type", () => [
  z.strictObject({ type: z.literal("history"), ...range() }),
  z.strictObject({ type: z.literal("earlier"), ...range() }),
  z.strictObject({
    type: z.literal("message"),
    message: JsonObjectSchema(),
    textHash: HashSchema(),
  }),
]) satisfies () => z.ZodType<ShownPart>;

export const RequestParametersSchema = lazyObject(() => ({
  maxOutputTokens: CountSchema(),
  temperature: z.number().exactOptional(),
  settings: ModelSettingsSchema().readonly().exactOptional(),
  toolChoice: ToolChoiceSchema().exactOptional(),
})) satisfies () => z.ZodType<StepContext["parameters"]>;

export const StepContextSchema = lazyObject(() => ({
  number: z.int().positive(),
  model: z.strictObject({
    provider: z.string(),
    id: z.string(),
    replayKey: z.string().exactOptional(),
    replayKeys: z.array(z.string()).readonly().exactOptional(),
    inputModalities: z.array(AttachmentKindSchema()).readonly().exactOptional(),
  }),
  toolNames: z.array(z.string()).readonly(),
  promptHash: HashSchema(),
  toolsHash: HashSchema(),
  outputHash: HashSchema().exactOptional(),
  budget: BudgetAmountsSchema(),
  parameters: RequestParametersSchema().readonly(),
  shown: z.array(ShownPartSchema()).readonly().exactOptional(),
})) satisfies () => z.ZodType<StepContext>;
