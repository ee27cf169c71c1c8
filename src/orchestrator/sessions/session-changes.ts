// Changes of a session record: adds or removes an execution. Also builds the history of the next
// execution. Pure: a record is never mutated.

import { mismatch } from "../../kernel/argument-checks.ts";
import type { EspalierError } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { ExecutionId, MessageId } from "../../protocol/ids.ts";
import type { Message, MessageTag, StoredMessage } from "../../protocol/message.ts";
import {
  addUsage,
  subtractUsage,
  toAmounts,
  toUsage,
  UsageSchema,
  type Usage,
} from "../../protocol/usage.ts";
import { removeMessages } from "../../policies/message-groups.ts";
import {
  getGreatestNumber,
  parseMessageNumber,
  parseMessageStepNumber,
  type SessionExecution,
  type SessionRecord,
} from "./session-record.ts";

/** Maximum number of stored records of executions without messages. */
const KEPT_RECORDS = 100;

/** Returns true if the execution is recorded. */
export function hasExecution({ executions }: SessionRecord, executionId: ExecutionId): boolean {
  return executions.some((execution) => execution.executionId === executionId);
}

/**
 * Returns the session with one more execution. `messages` is the history at its end, without
 * instructions and boundaries. `execution.usage` is the usage of its whole run so far.
 */
export function addExecution(
  record: SessionRecord,
  execution: SessionExecution,
  messages: readonly StoredMessage[],
): SessionRecord {
  const usage = ownUsage(record, execution);
  const remaining = execution.isRemoved
    ? removeMessages(messages, execution.executionId)
    : messages;
  return deepFreeze({
    ...record,
    messages: remaining,
    executions: selectRecords([...record.executions, { ...execution, usage }], remaining),
    executionCount: record.executionCount + 1,
    usage: addUsage(record.usage, usage),
  });
}

/**
 * Returns the session with the messages of an execution appended. Returns the same object if the
 * session already has the execution.
 */
export function mergeExecution(
  record: SessionRecord,
  execution: SessionExecution,
  added: readonly StoredMessage[],
): SessionRecord {
  const { executionId } = execution;
  if (hasExecution(record, executionId)) return record;
  const ofExecution = added.filter((message) => message.executionId === executionId);
  return addExecution(record, execution, [...record.messages, ...ofExecution]);
}

/**
 * Returns the usage without that of earlier executions of the same run: a stopped run may continue
 * with a grant.
 */
function ownUsage({ executions }: SessionRecord, { runId, usage }: SessionExecution): Usage {
  return executions
    .filter((execution) => execution.runId === runId)
    .reduce((rest, earlier) => subtractEarlier(rest, earlier.usage), usage);
}

function subtractEarlier(usage: Usage, earlier: Usage): Usage {
  const rest = Object.entries(toAmounts(subtractUsage(usage, earlier)));
  const amounts = Object.fromEntries(rest.map(([name, left]) => [name, Math.max(0, left)]));
  return toUsage(UsageSchema().parse(amounts));
}

function selectRecords(
  executions: readonly SessionExecution[],
  messages: readonly StoredMessage[],
): readonly SessionExecution[] {
  const speaking = new Set(messages.map(({ executionId }) => executionId));
  const firstRecent = executions.length - KEPT_RECORDS;
  return executions.filter(
    ({ executionId }, index) => index >= firstRecent || speaking.has(executionId),
  );
}

/**
 * Returns the session without the messages of an execution, whose record stays. Throws
 * `invalid_argument` for an unknown execution.
 */
export function removeExecution(record: SessionRecord, executionId: string): SessionRecord {
  const execution = record.executions.find((candidate) => candidate.executionId === executionId);
  if (execution === undefined)
    throw createUnknownExecutionError("executionId", record.executions, executionId);
  return deepFreeze({
    ...record,
    messages: removeMessages(record.messages, execution.executionId),
    executions: record.executions.map((candidate) =>
      candidate === execution ? { ...candidate, isRemoved: true } : candidate,
    ),
  });
}

/** Returns the error for an unknown execution. */
export function createUnknownExecutionError(
  field: string,
  executions: readonly SessionExecution[],
  got: unknown,
): EspalierError {
  const ids = executions.map(({ executionId }) => executionId).join(", ");
  const expected =
    ids === "" ? "left out, since there is none" : `an execution of the session (${ids})`;
  return mismatch(field, expected, got, "See session.executions.");
}

/** Returns the session without its history. Its usage stays. */
export function clearHistory(record: SessionRecord): SessionRecord {
  return deepFreeze({ ...record, messages: [], executions: [] });
}

/**
 * Boundary in the history of a session: one execution ended, and the next one began.
 *
 * @example
 * ```ts
 * const session = await orchestrator.openSession("customer-42");
 * for (const { execution, afterMessageId } of session.boundaries)
 *   console.log(`${execution.role} ended with ${execution.status} after ${afterMessageId}`);
 * ```
 */
export interface ExecutionBoundary {
  /** Execution that ended here. */
  readonly execution: SessionExecution;
  /** Id of the last message of the execution. */
  readonly afterMessageId: MessageId;
}

/** Returns the ends of the executions that have messages in the history, oldest first. */
export function collectBoundaries(record: SessionRecord): readonly ExecutionBoundary[] {
  const { messages, executions } = record;
  const ends = new Map(
    messages
      .filter(({ note }) => note === undefined)
      .map(({ executionId, messageId }) => [executionId, messageId]),
  );
  return executions.flatMap((execution) => {
    const afterMessageId = ends.get(execution.executionId);
    return afterMessageId === undefined ? [] : [{ execution, afterMessageId }];
  });
}

/** History of a session, with which its next execution begins. */
export interface SessionHistory {
  readonly messages: readonly Message[];
  readonly tags: readonly MessageTag[];
}

/**
 * Returns the history for the next execution. With `showBoundaries`, notices mark the ends of
 * executions.
 */
export function buildSessionHistory(
  record: SessionRecord,
  showBoundaries: boolean,
): SessionHistory {
  const ends = new Map(
    (showBoundaries ? collectBoundaries(record) : []).map(({ execution, afterMessageId }) => [
      afterMessageId,
      execution,
    ]),
  );
  const entries = record.messages.flatMap((stored) => {
    const { messageId, agentId, executionId, stepId: _step, note, ...message } = stored;
    const place = {
      executionId,
      stepNumber: parseMessageStepNumber(stored),
      number: parseMessageNumber(stored),
    };
    const tag = { ...place, agentId, ...(note === undefined ? {} : { note }) };
    const ended = ends.get(messageId);
    const entry = { message, tag };
    return ended === undefined ? [entry] : [entry, findBoundary(tag, ended, record)];
  });
  return {
    messages: entries.map(({ message }) => message),
    tags: entries.map(({ tag }) => tag),
  };
}

function findBoundary(
  tag: MessageTag,
  { executionId, role, status, endedAtMs }: SessionExecution,
  { messages }: SessionRecord,
): { readonly message: Message; readonly tag: MessageTag } {
  const at = new Date(endedAtMs).toISOString();
  const text = `[Execution ${executionId} of ${role} ended here: ${status}, ${at}]`;
  const ofExecution = messages.filter((message) => message.executionId === executionId);
  const number = getGreatestNumber(ofExecution) + 1;
  return {
    message: { role: "user", text, origin: "notice" },
    tag: { ...tag, number, note: "boundary" },
  };
}
