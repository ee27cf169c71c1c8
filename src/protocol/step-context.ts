// What a step began with (R172), and what its model was shown, as far as that was not the history (R173).

import { AttachmentKindSchema, type AttachmentKind } from "./attachment.ts";
import { HashSchema } from "./definition.ts";
import type { JsonObject } from "../kernel/json.ts";
import { JsonObjectSchema } from "./json-value.ts";
import { lazyObject, lazySchema, lazyUnion, z } from "./lazy-schema.ts";
import {
  ModelSettingsSchema,
  ToolChoiceSchema,
  type ModelSettings,
  type ToolChoice,
} from "./model-settings.ts";

/** What a step began with. Texts are in the table of the run, under their hashes. */
export interface StepContext {
  /** Of the step, from 1. */
  readonly number: number;
  /** The model that was asked. */
  readonly model: {
    /** Its provider. */
    readonly provider: string;
    /** Its id. */
    readonly id: string;
    /** Of the model, if it reports one of its own. */
    readonly replayKey?: string;
    /** Of the models of a fallback. */
    readonly replayKeys?: readonly string[];
    /** What it takes besides text, if anything. */
    readonly inputModalities?: readonly AttachmentKind[];
  };
  /** The tools that the model was offered, in their order. */
  readonly toolNames: readonly string[];
  /** Of the instructions that were sent: the system messages at the head, an empty line between them. */
  readonly promptHash: string;
  /** Of the definitions of the tools that were offered, as one JSON list. */
  readonly toolsHash: string;
  /** Of what the model was held to in its text, as JSON: `ModelRequest.output`. Left out: nothing. */
  readonly outputHash?: string;
  /** What the agent could still spend, this step included. Limited axes only. */
  readonly budget: Readonly<Record<string, number>>;
  /** What the request asks of its reply. */
  readonly parameters: {
    /** The cap on the reply. */
    readonly maxOutputTokens: number;
    /** Absent: the provider's default. */
    readonly temperature?: number;
    /** Absent: the model's own. */
    readonly settings?: ModelSettings;
    /** Absent: as the model likes. */
    readonly toolChoice?: ToolChoice;
  };
  /**
   * The parts of what the model was shown. Left out: the history, and nothing else. `history`: messages of the history, as it was when the step began. `earlier`: messages that the step
   * before was shown. Both from number `from`, counted from 0, to before number `to`. `message`: one that is in neither.
   */
  readonly shown?: readonly (
    | { readonly type: "history"; readonly from: number; readonly to: number }
    | { readonly type: "earlier"; readonly from: number; readonly to: number }
    | {
        readonly type: "message";
        /** All of it but its text. */
        readonly message: JsonObject;
        readonly textHash: string;
      }
  )[];
}

export type ShownPart = NonNullable<StepContext["shown"]>[number];

const count = lazySchema(() => z.int().nonnegative());
const range = lazySchema(() => ({ from: count(), to: count() }));

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
  maxOutputTokens: count(),
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
  budget: z.record(z.string(), z.number()).readonly(),
  parameters: RequestParametersSchema().readonly(),
  shown: z.array(ShownPartSchema()).readonly().exactOptional(),
})) satisfies () => z.ZodType<StepContext>;
