// Questions of a run that are answered from outside, and the answers to them. Each is about one exact call with exact arguments (X17).

import { checkKeys } from "../kernel/check.ts";
import { sha256 } from "../kernel/crypto.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../kernel/json.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  QuestionIdSchema,
  type AgentId,
  type CallId,
  type QuestionId,
} from "./ids.ts";
import { JsonObjectSchema, JsonValueSchema } from "./json-value.ts";
import { lazyObject, lazySchema, lazyUnion, z } from "./lazy-schema.ts";
import type { ToolCall } from "./message.ts";

/** Something that a run cannot continue without: one exact call that needs an approval, or that is executed elsewhere. */
export interface Question {
  readonly questionId: QuestionId;
  /**
   * `approval`: may the call run? `external`: what is its result? The call runs elsewhere, or its tool asks for a value in the middle of the
   * call.
   */
  readonly kind: "approval" | "external";
  readonly agentId: AgentId;
  /** The agent that asks, as a place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  readonly callId: CallId;
  /** The tool of the call. */
  readonly toolName: string;
  /**
   * The value that the tool gets when the call runs: with the defaults and transforms of its schema.
   * For a question of a tool at work: what the tool asks for.
   */
  readonly arguments: JsonValue;
  /**
   * The arguments before the schema parsed them: as the model wrote them, or as hooks left them.
   * Absent if they are equal to `arguments`. An edit of the arguments replaces these.
   */
  readonly writtenArguments?: JsonValue;
  /**
   * True if the tool gets a value that JSON does not have, such as a `Date`. Then `arguments` holds
   * the arguments before parsing.
   */
  readonly unparsed?: true;
  /** Fingerprint of tool and arguments: an answer carries it back, so that it can only be about this very call. */
  readonly argumentsHash: string;
  /** Why it is asked. */
  readonly reason: string;
  /** When it was asked, in milliseconds since the epoch. */
  readonly askedAtMs: number;
  /** After this time an approval counts as denied, an external call as failed; null: no deadline. */
  readonly deadlineAtMs: number | null;
}

/** What an answer says of its question. */
export type QuestionRef = Pick<Question, "questionId" | "argumentsHash">;

/** The answer to one question. Make it with `approve`, `deny`, `provideResult` or `provideError`. */
export type Answer =
  /** `arguments`: run it with these instead. The tool's schema parses them, like those of a model. */
  | (QuestionRef & { readonly type: "approved"; readonly arguments?: JsonObject | undefined })
  | (QuestionRef & { readonly type: "denied"; readonly reason: string })
  | (QuestionRef & { readonly type: "result"; readonly result: JsonValue })
  | (QuestionRef & { readonly type: "failure"; readonly message: string });

export type AnswerType = Answer["type"];

const QuestionKindSchema = lazySchema(
  () => z.enum(["approval", "external"]) satisfies z.ZodType<Question["kind"]>,
);

export const QuestionSchema = lazyObject(() => ({
  questionId: QuestionIdSchema(),
  kind: QuestionKindSchema(),
  agentId: AgentIdSchema(),
  agentPath: z.string(),
  callId: CallIdSchema(),
  toolName: z.string(),
  arguments: JsonValueSchema(),
  writtenArguments: JsonValueSchema().exactOptional(),
  unparsed: z.literal(true).exactOptional(),
  argumentsHash: z.string(),
  reason: z.string(),
  askedAtMs: z.number(),
  deadlineAtMs: z.number().nullable(),
})) satisfies () => z.ZodType<Question>;

const about = lazySchema(() => ({ questionId: QuestionIdSchema(), argumentsHash: z.string() }));

export const AnswerSchema = lazyUnion("type", () => [
  z.strictObject({
    type: z.literal("approved"),
    ...about(),
    arguments: JsonObjectSchema().optional(),
  }),
  z.strictObject({ type: z.literal("denied"), ...about(), reason: z.string() }),
  z.strictObject({ type: z.literal("result"), ...about(), result: JsonValueSchema() }),
  z.strictObject({ type: z.literal("failure"), ...about(), message: z.string() }),
]) satisfies () => z.ZodType<Answer>;

export const AnswerTypeSchema = lazySchema(() =>
  z.enum(["approved", "denied", "result", "failure"]),
);

/** The kind of question that such an answer is given to. */
export function kindAnsweredBy(type: AnswerType): Question["kind"] {
  return type === "approved" || type === "denied" ? "approval" : "external";
}

/**
 * Lets the call run, with the very value that the question showed. With `arguments`, these take the place
 * of those that the model wrote (`writtenArguments`, if the question has them): the tool's schema parses
 * them once, and they must fit.
 *
 * @throws EspalierError `invalid_option` for anything else in `change`.
 */
export function approve(
  question: QuestionRef,
  change: { readonly arguments?: JsonObject } = {},
): Answer {
  checkKeys("approve change", change, ["arguments"]);
  return { type: "approved", ...toReference(question), ...change };
}

/** Forbids the call. The model reads the reason and continues. */
export function deny(question: QuestionRef, reason = "The call was not approved."): Answer {
  return { type: "denied", ...toReference(question), reason };
}

/** Gives what came of a call that was executed elsewhere. */
export function provideResult(question: QuestionRef, result: JsonValue): Answer {
  return { type: "result", ...toReference(question), result };
}

/** Reports that a call that was to be executed elsewhere failed. The model reads the message. */
export function provideError(question: QuestionRef, message: string): Answer {
  return { type: "failure", ...toReference(question), message };
}

/** The fingerprint of a call: equal for equal tools and arguments, whatever the order of their keys. */
export function argumentsHashOf(toolName: string, input: JsonValue): string {
  return sha256(canonicalJson([toolName, input]));
}

/** The fingerprint of a call as the model wrote it. */
export function callHashOf({
  toolName,
  argumentsText,
}: Pick<ToolCall, "toolName" | "argumentsText">): string {
  return argumentsHashOf(toolName, argumentsText);
}

function toReference({ questionId, argumentsHash }: QuestionRef): QuestionRef {
  return { questionId, argumentsHash };
}

/** True if the deadline of a question has passed: it has its outcome, and takes no answer any more. */
export function isOverdue({ deadlineAtMs }: Question, nowMs: number): boolean {
  return deadlineAtMs !== null && nowMs >= deadlineAtMs;
}
