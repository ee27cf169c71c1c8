// What a step began with (R172), and what its model was shown, as far as that was not the history (R173).

import { z } from "zod";

import { HashSchema } from "./definition.ts";
import { JsonObjectSchema } from "./json-value.ts";
import { ModelSettingsSchema, ToolChoiceSchema } from "./model-settings.ts";

const count = z.int().nonnegative();

/** Messages from number `from`, counted from 0, to before number `to`. */
const range = { from: count, to: count };

export const ShownPartSchema = z.discriminatedUnion("type", [
  /** Messages of the history, as it was when the step began. */
  z.strictObject({ type: z.literal("history"), ...range }),
  /** Messages that the step before was shown. */
  z.strictObject({ type: z.literal("earlier"), ...range }),
  /** A message that is in neither. */
  z.strictObject({
    type: z.literal("message"),
    /** All of it but its text. */
    message: JsonObjectSchema,
    textHash: HashSchema,
  }),
]);
/** A part of what a model was shown. */
export type ShownPart = Readonly<z.infer<typeof ShownPartSchema>>;

/** What a request asks of its reply. */
export const RequestParametersSchema = z.strictObject({
  maxOutputTokens: count,
  temperature: z.number().exactOptional(),
  settings: ModelSettingsSchema.readonly().exactOptional(),
  toolChoice: ToolChoiceSchema.exactOptional(),
});
export type RequestParameters = Readonly<z.infer<typeof RequestParametersSchema>>;

export const StepContextSchema = z.strictObject({
  /** Of the step, from 1. */
  number: z.int().positive(),
  model: z.strictObject({
    provider: z.string(),
    id: z.string(),
    /** Of the model, if it reports one of its own. */
    replayKey: z.string().exactOptional(),
  }),
  /** The tools that the model was offered, in their order. */
  toolNames: z.array(z.string()).readonly(),
  /** Of the instructions that were sent: the system messages at the head, an empty line between them. */
  promptHash: HashSchema,
  /** Of the definitions of the tools that were offered, as one JSON list. */
  toolsHash: HashSchema,
  /** What the agent could still spend, this step included. Limited axes only. */
  budget: z.record(z.string(), z.number()).readonly(),
  parameters: RequestParametersSchema.readonly(),
  /** What the model was shown. Left out: the history, and nothing else. */
  shown: z.array(ShownPartSchema).readonly().exactOptional(),
});
/** What a step began with. Texts are in the table of the run, under their hashes (C28). */
export type StepContext = Readonly<z.infer<typeof StepContextSchema>>;
