// Ids that locate an event in the tree. Branded, so that two kinds cannot be swapped. Parsed and
// created only here.

import { lazySchema, z } from "./lazy-schema.ts";

/**
 * Id of a run: one execution of an agent tree. `toRunId` creates one from a string.
 *
 * @example
 * ```ts
 * const runId: RunId = toRunId("run_x7Gq");
 * ```
 */
export type RunId = string & z.$brand<"RunId">;
/**
 * Id of an agent: one instance of a role in a run.
 *
 * @example
 * ```ts
 * const run = orchestrator.start(role, "Compare three pear markets.");
 * const agentIds = new Set<AgentId>();
 * for await (const { agentId } of run.events()) agentIds.add(agentId);
 * ```
 */
export type AgentId = string & z.$brand<"AgentId">;
/** Id of an execution: one task of an agent, from its start to a terminal status. */
export type ExecutionId = string & z.$brand<"ExecutionId">;
/** Id of a step: `<executionId>.<number>`. */
export type StepId = string & z.$brand<"StepId">;
/** Id of a tool call, as the model or the provider chose it. Unique within its step. */
export type CallId = string & z.$brand<"CallId">;
/** Id of a budget reservation. */
export type LeaseId = string & z.$brand<"LeaseId">;
/** Id of a session: root executions that share a history. */
export type SessionId = string & z.$brand<"SessionId">;
/** Id of a message in a history: `<executionId>.m<number>`. */
export type MessageId = string & z.$brand<"MessageId">;
/** Id of a question about one tool call: `<executionId>.<step>.<index>`. */
export type QuestionId = string & z.$brand<"QuestionId">;

const id = lazySchema(() => z.string().min(1));
export const RunIdSchema = lazySchema(() => id().brand<"RunId">());
export const AgentIdSchema = lazySchema(() => id().brand<"AgentId">());
export const ExecutionIdSchema = lazySchema(() => id().brand<"ExecutionId">());
export const StepIdSchema = lazySchema(() => id().brand<"StepId">());
export const CallIdSchema = lazySchema(() => id().brand<"CallId">());
export const LeaseIdSchema = lazySchema(() => id().brand<"LeaseId">());
export const SessionIdSchema = lazySchema(() => id().brand<"SessionId">());
export const MessageIdSchema = lazySchema(() => id().brand<"MessageId">());
export const QuestionIdSchema = lazySchema(() => id().brand<"QuestionId">());

/**
 * Returns the text as an id. Throws a `TypeError` for an empty text or a non-text value, since ids
 * also come from the `ids` option.
 */
export function parseId<Brand extends string>(text: string): string & z.$brand<Brand> {
  if (isId<Brand>(text)) return text;
  throw new TypeError(`Expected an id, a non-empty string, got ${JSON.stringify(text)}.`);
}

/** Returns true for a text that can be an id. */
export function isId<Brand extends string>(text: unknown): text is string & z.$brand<Brand> {
  return typeof text === "string" && text !== "";
}

/**
 * Returns the id of step `number` (from 1) of an execution. Derived, so that a repeated run gives
 * its steps the same ids.
 */
export function createStepId(executionId: ExecutionId, number: number): StepId {
  return parseId<"StepId">(`${executionId}.${number}`);
}

/**
 * Returns the id of a call without an id, or with a duplicate id, from the model. Derived from the
 * call's position.
 */
export function createCallId(stepId: StepId, index: number): CallId {
  return parseId<"CallId">(`${stepId}.${index}`);
}

/**
 * Returns the id of a question about a call, derived from the call's position. `nth` counts the
 * questions that the running tool asks, from 1.
 */
export function createQuestionId(stepId: StepId, index: number, nth?: number): QuestionId {
  return parseId<"QuestionId">(`${stepId}.${index}${nth === undefined ? "" : `.${nth}`}`);
}

/**
 * Returns the id of a message: derived from the execution that added it, and its number in the
 * history of that agent (from 1).
 */
export function createMessageId(executionId: ExecutionId, number: number): MessageId {
  return parseId<"MessageId">(`${executionId}.m${number}`);
}

/**
 * Returns the key of a call among the open calls of its agent. A model call is found by its step
 * and, if hooks call the model several times, by its number; a tool call by its id. A prefix
 * separates both kinds. `type` is the type of an event about the call, or `model` or `tool`.
 */
export function createCallKey(
  type: string,
  {
    stepId,
    callId,
    modelCallNumber = 1,
  }: {
    readonly stepId: StepId | null;
    readonly callId: CallId | null;
    readonly modelCallNumber?: number;
  },
): string {
  return type.startsWith("model")
    ? `model ${stepId} ${callId} ${modelCallNumber}`
    : `tool ${callId}`;
}
