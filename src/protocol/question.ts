// Questions of a run that are answered from outside, and the answers to them. Each is about one exact call with exact arguments (X17).

import { createHash } from "node:crypto";

import { z } from "zod";

import { checkKeys } from "../kernel/check.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../kernel/json.ts";
import { AgentIdSchema, CallIdSchema, QuestionIdSchema } from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import type { ToolCall } from "./message.ts";

const QuestionKindSchema = z.enum(["approval", "external"]);
/** `approval`: may this call run? `external`: it runs elsewhere; what is its result? */
export type QuestionKind = z.infer<typeof QuestionKindSchema>;

export const QuestionSchema = z.strictObject({
  questionId: QuestionIdSchema,
  kind: QuestionKindSchema,
  agentId: AgentIdSchema,
  /** Who asks, as a place in the tree: `lead/researcher#2`. */
  agentPath: z.string(),
  callId: CallIdSchema,
  toolName: z.string(),
  /** The arguments, which fit the tool's schema. */
  arguments: JsonValueSchema,
  /** Fingerprint of tool and arguments: an answer carries it back, so that it can only be about this very call. */
  argumentsHash: z.string(),
  /** Why it is asked. */
  reason: z.string(),
  askedAtMs: z.number(),
  /** After this time an approval counts as denied, an external call as failed; null: no deadline. */
  deadlineAtMs: z.number().nullable(),
});
/** Something that a run cannot continue without: one exact call that needs an approval, or that is executed elsewhere (R27, R29). */
export type Question = Readonly<z.infer<typeof QuestionSchema>>;

const about = { questionId: QuestionIdSchema, argumentsHash: z.string() };

export const AnswerSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("approved"),
    ...about,
    /** Run it with these arguments instead; checked against the tool's schema. */
    arguments: JsonObjectSchema.optional(),
  }),
  z.strictObject({ type: z.literal("denied"), ...about, reason: z.string() }),
  z.strictObject({ type: z.literal("result"), ...about, result: JsonValueSchema }),
  z.strictObject({ type: z.literal("failure"), ...about, message: z.string() }),
]);
/** The answer to one question. Make it with `approve`, `deny`, `giveResult` or `reportFailure`. */
export type Answer = Readonly<z.infer<typeof AnswerSchema>>;

export const AnswerTypeSchema = z.enum(["approved", "denied", "result", "failure"]);
/** The kinds of answers. */
export type AnswerType = z.infer<typeof AnswerTypeSchema>;

/** The kind of question that such an answer is given to. */
export function kindAnsweredBy(type: AnswerType): QuestionKind {
  return type === "approved" || type === "denied" ? "approval" : "external";
}

type About = Pick<Question, "questionId" | "argumentsHash">;

/**
 * Lets the call run; with `arguments`, run with these instead of its own. They must fit the tool's schema.
 *
 * @throws EspalierError `invalid_option` for anything else in `change`.
 */
export function approve(question: About, change: { readonly arguments?: JsonObject } = {}): Answer {
  checkKeys("approve change", change, ["arguments"]);
  return { type: "approved", ...aboutOf(question), ...change };
}

/** Forbids the call. The model reads the reason and continues. */
export function deny(question: About, reason = "The call was not approved."): Answer {
  return { type: "denied", ...aboutOf(question), reason };
}

/** Gives what came of a call that was executed elsewhere. */
export function giveResult(question: About, result: JsonValue): Answer {
  return { type: "result", ...aboutOf(question), result };
}

/** Reports that a call that was to be executed elsewhere failed. The model reads the message. */
export function reportFailure(question: About, message: string): Answer {
  return { type: "failure", ...aboutOf(question), message };
}

/** The fingerprint of a call: equal for equal tools and arguments, whatever the order of their keys. */
export function argumentsHashOf(toolName: string, input: JsonValue): string {
  return createHash("sha256")
    .update(canonicalJson([toolName, input]))
    .digest("hex");
}

/** The fingerprint of a call as the model wrote it. */
export function callHashOf({
  toolName,
  argumentsText,
}: Pick<ToolCall, "toolName" | "argumentsText">): string {
  return argumentsHashOf(toolName, argumentsText);
}

function aboutOf({ questionId, argumentsHash }: About): About {
  return { questionId, argumentsHash };
}
