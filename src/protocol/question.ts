// Questions of a run that are answered from outside, and their answers. Each concerns a single call
// with exact arguments.

import { checkFields, checkObject, checkText } from "../kernel/argument-checks.ts";
import { sha256 } from "../kernel/crypto.ts";
import { stringifyCanonical, type JsonObject, type JsonValue } from "../kernel/json.ts";
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

/**
 * Question that blocks a run: a tool call needs an approval, or a result from outside the run.
 *
 * @example
 * ```ts
 * for (const question of result.questions)
 *   console.log(question.kind, question.toolName, question.arguments, question.reason);
 * ```
 */
export interface Question {
  /** Id of the question. */
  readonly questionId: QuestionId;
  /**
   * Kind of the answer that the question needs.
   *
   * - `approval`: permission for the call. Answer with `approve` or `deny`.
   * - `external`: the result of an external tool, or a value that a running tool asks for. Answer
   *   with `provideResult` or `provideError`.
   */
  readonly kind: "approval" | "external";
  /** Id of the agent that asks. */
  readonly agentId: AgentId;
  /** Path of the agent that asks, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Id of the tool call. */
  readonly callId: CallId;
  /** Tool of the call. */
  readonly toolName: string;
  /**
   * Arguments that the tool receives, after the defaults and transforms of its schema. For a value
   * that a running tool asks for: the arguments of that request.
   */
  readonly arguments: JsonObject;
  /**
   * Arguments before the schema parsed them: as the model wrote them, or as hooks changed them.
   * `approve` with `arguments` replaces these. Absent if they equal `arguments`.
   */
  readonly writtenArguments?: JsonObject;
  /**
   * True if the parsed arguments contain a value that JSON cannot represent, such as a `Date`, or
   * are not an object. `arguments` then contains the arguments before parsing.
   */
  readonly unparsed?: true;
  /**
   * Hash of the tool and the arguments. The answer carries the hash, so that it applies to this
   * call only.
   */
  readonly argumentsHash: string;
  /** Reason for the question. */
  readonly reason: string;
  /** Time of the question, in milliseconds since the epoch. */
  readonly askedAtMs: number;
  /**
   * Deadline in milliseconds since the epoch. `null` without a deadline. After it an approval
   * counts as denied, an external call as failed.
   */
  readonly deadlineAtMs: number | null;
}

/**
 * Part of a question that identifies it in an answer. Any `Question` is accepted.
 *
 * @example
 * ```ts
 * const form = { questionId: question.questionId, argumentsHash: question.argumentsHash };
 * const reference: QuestionRef = form; // Send it to a web page, and back with the decision.
 * await orchestrator.answer("run_x7Gq", [approve(reference)]);
 * ```
 */
export type QuestionRef = Pick<Question, "questionId" | "argumentsHash">;

/**
 * Answer to one question. Create it with `approve`, `deny`, `provideResult` or `provideError`.
 *
 * - `approved`: permits the call. `arguments` replaces the arguments of the model; the tool's schema
 *   parses them.
 * - `denied`: forbids the call. The model reads `reason`.
 * - `result`: provides the result of the call.
 * - `failure`: reports that the call failed. The model reads `message`.
 *
 * `by` names the person or system that decided, such as `ada@example.com`. The event
 * `question.answered` contains the name, which is not verified. Absent if it is unknown.
 *
 * @example
 * ```ts
 * const answers: readonly Answer[] = result.questions.map((question) =>
 *   question.kind === "approval" ? approve(question) : provideError(question, "Not available."),
 * );
 * ```
 */
export type Answer = QuestionRef & { readonly by?: string | undefined } & (
    | { readonly type: "approved"; readonly arguments?: JsonObject | undefined }
    | { readonly type: "denied"; readonly reason: string }
    | { readonly type: "result"; readonly result: JsonValue }
    | { readonly type: "failure"; readonly message: string }
  );

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
  arguments: JsonObjectSchema(),
  writtenArguments: JsonObjectSchema().exactOptional(),
  unparsed: z.literal(true).exactOptional(),
  argumentsHash: z.string(),
  reason: z.string(),
  askedAtMs: z.number(),
  deadlineAtMs: z.number().nullable(),
})) satisfies () => z.ZodType<Question>;

const EventQuestionSchema = lazySchema(() => QuestionSchema().strip());

/** Returns the question of an event, without the fields that only the event has. */
export function toQuestion(event: object): Question {
  return EventQuestionSchema().parse(event);
}

const about = lazySchema(() => ({
  questionId: QuestionIdSchema(),
  argumentsHash: z.string(),
  by: z.string().min(1).optional(),
}));

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

/** Returns the kind of question that this type of answer belongs to. */
export function getAnsweredKind(type: AnswerType): Question["kind"] {
  return type === "approved" || type === "denied" ? "approval" : "external";
}

/**
 * Creates an answer that permits the call with the arguments that the question contains. For a
 * question of kind `approval`; for kind `external` use `provideResult`.
 *
 * `options.arguments` replaces the arguments that the model wrote. The tool's schema parses them,
 * and they must be valid. `options.by` names the person who approves.
 *
 * @throws EspalierError `invalid_argument` if `options` has any other field.
 *
 * @example
 * ```ts
 * const answer = approve(question, { arguments: { path: "/tmp/report.md" }, by: "Ada" });
 * if (result.status === "paused") orchestrator.resume(result.pausedRun, { answers: [answer] });
 * ```
 */
export function approve(
  question: QuestionRef,
  options: { readonly arguments?: JsonObject; readonly by?: string } = {},
): Answer {
  checkFields("approve options", options, { arguments: checkArgumentObject, by: checkText });
  return { type: "approved", ...toReference(question), ...options };
}

/**
 * Creates an answer that forbids the call. The model reads the reason and continues. For a question
 * of kind `approval`; for kind `external` use `provideError`. `options.by` names the person who
 * denies it.
 *
 * @example
 * ```ts
 * const answers = result.questions.map((question) =>
 *   question.kind === "approval"
 *     ? deny(question, "Not on Friday.", { by: "ada@example.com" })
 *     : provideError(question, "No."),
 * );
 * ```
 */
export function deny(
  question: QuestionRef,
  reason = "The call was not approved.",
  options: { readonly by?: string } = {},
): Answer {
  checkFields("deny options", options, { by: checkText });
  return { type: "denied", ...toReference(question), reason, ...options };
}

/**
 * Creates an answer with the result of a call that was executed outside the run. For a question of
 * kind `external`; for kind `approval` use `approve`. `options.by` names the person who answers.
 *
 * @example
 * ```ts
 * const answer = provideResult(question, { temperature: 21, unit: "celsius" });
 * await orchestrator.answer(result.runId, [answer]);
 * ```
 */
export function provideResult(
  question: QuestionRef,
  result: JsonValue,
  options: { readonly by?: string } = {},
): Answer {
  checkFields("provideResult options", options, { by: checkText });
  return { type: "result", ...toReference(question), result, ...options };
}

/**
 * Creates an answer that reports a failed call. The model reads the message and continues. For a
 * question of kind `external`; for kind `approval` use `deny`. `options.by` names the person who
 * answers.
 *
 * @example
 * ```ts
 * const answer = provideError(question, "The weather service is down. Try again later.");
 * await orchestrator.answer(result.runId, [answer]);
 * ```
 */
export function provideError(
  question: QuestionRef,
  message: string,
  options: { readonly by?: string } = {},
): Answer {
  checkFields("provideError options", options, { by: checkText });
  return { type: "failure", ...toReference(question), message, ...options };
}

/**
 * Returns the fingerprint of a call: the same for equal tools and arguments, regardless of the
 * order of keys.
 */
export function computeArgumentsHash(toolName: string, input: JsonValue): string {
  return sha256(stringifyCanonical([toolName, input]));
}

/** Returns the fingerprint of a call as the model wrote it. */
export function computeCallHash({
  toolName,
  argumentsText,
}: Pick<ToolCall, "toolName" | "argumentsText">): string {
  return computeArgumentsHash(toolName, argumentsText);
}

function checkArgumentObject(field: string, value: unknown): void {
  checkObject(field, value, "Leave it out to run the call as it was asked.");
}

function toReference(question: QuestionRef): QuestionRef {
  checkObject("question", question, "Pass a question of result.questions.");
  const { questionId, argumentsHash } = question;
  checkText("question.questionId", questionId);
  checkText("question.argumentsHash", argumentsHash);
  return { questionId, argumentsHash };
}

/**
 * Returns true if the deadline of a question has passed. The question then has its outcome and
 * accepts no answer.
 */
export function isOverdue({ deadlineAtMs }: Question, nowMs: number): boolean {
  return deadlineAtMs !== null && nowMs >= deadlineAtMs;
}
