// Forks a session: creates a session that begins with a part of another session's history. Pure,
// except for the given ids and time.
//
// A fork has its own ids and zero usage, and does not change its origin. A call is never separated
// from its results.

import { mismatch } from "../../kernel/argument-checks.ts";
import type { EspalierError } from "../../kernel/error.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { deepFreeze } from "../../kernel/json.ts";
import {
  AgentIdSchema,
  ExecutionIdSchema,
  createMessageId,
  createStepId,
  type AgentId,
  type ExecutionId,
  type SessionId,
} from "../../protocol/ids.ts";
import type { StoredMessage } from "../../protocol/message.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import { createUnknownExecutionError } from "./session-changes.ts";
import {
  createEmptyRecord,
  getGreatestNumber,
  parseMessageNumber,
  parseMessageStepNumber,
  type SessionExecution,
  type SessionRecord,
} from "./session-record.ts";

/** Position at which a fork begins. */
export interface ForkPoint {
  /** Id of the fork. */
  readonly sessionId: SessionId;
  /**
   * Execution in or after which the fork begins. Default: the last one whose messages are in the
   * history.
   */
  readonly executionId?: string | undefined;
  /** Last step of the execution, from 1, that the fork contains. Default: the last one. */
  readonly atStep?: number | undefined;
}

/**
 * Returns the session up to this point, under new ids. Throws `invalid_argument` if the execution or
 * step does not exist or its messages are gone.
 */
export function forkSession(
  record: SessionRecord,
  { sessionId, executionId, atStep }: ForkPoint,
  { ids, nowMs }: { readonly ids: IdSource; readonly nowMs: number },
): SessionRecord {
  const last = findLastExecution(record, executionId);
  if (last === undefined && atStep !== undefined)
    throw createForkStepError(atStep, "left out, since the session has no executions");
  const upTo = last ? record.executions.slice(0, record.executions.indexOf(last) + 1) : [];
  const known = new Set([record.importId, ...upTo.map((execution) => execution.executionId)]);
  const messages = last
    ? adoptSummaries(cutAfter(record, last, atStep), known, last)
    : record.messages.filter((message) => message.executionId === record.importId);
  const speaking = new Set(messages.map((message) => message.executionId));
  const executions = upTo.filter((execution) => speaking.has(execution.executionId));
  const names: Names = {
    execution: createNaming(() => ExecutionIdSchema().parse(ids.next("execution"))),
    agent: createNaming(() => AgentIdSchema().parse(ids.next("agent"))),
  };
  return deepFreeze({
    ...createEmptyRecord(sessionId, nowMs),
    messages: messages.map((message) => renameMessage(message, names)),
    executions: executions.map((execution) =>
      copyExecution(
        record.sessionId,
        execution === last ? cutExecution(execution, atStep) : execution,
        names,
      ),
    ),
    executionCount: executions.length,
    ...(record.importId && { importId: names.execution(record.importId) }),
    ...(last && {
      forkedFrom: {
        sessionId: record.sessionId,
        executionId: last.executionId,
        stepNumber: atStep ?? last.stepCount,
        usage: record.usage,
      },
    }),
  });
}

function findLastExecution(
  { messages, executions }: SessionRecord,
  executionId: string | undefined,
): SessionExecution | undefined {
  const exchanged = messages.filter(({ note }) => note === undefined);
  const speaking = new Set(exchanged.map((message) => message.executionId));
  const candidates = executions.filter((execution) => speaking.has(execution.executionId));
  if (executionId === undefined) return candidates.at(-1);
  const selected = candidates.find((candidate) => candidate.executionId === executionId);
  if (selected !== undefined) return selected;
  throw createUnknownExecutionError("fork options.executionId", candidates, executionId);
}

/** Returns the history up to the end of the step or of the execution. */
function cutAfter(
  { messages }: SessionRecord,
  { executionId, stepCount, repliedSteps }: SessionExecution,
  atStep: number | undefined,
): readonly StoredMessage[] {
  const isOf = (message: StoredMessage): boolean =>
    message.executionId === executionId && message.note === undefined;
  if (atStep === undefined) return messages.slice(0, messages.findLastIndex(isOf) + 1);
  if (atStep < 1 || atStep > stepCount)
    throw createForkStepError(atStep, `a step of ${executionId} (1 to ${stepCount})`);
  const late = messages.findIndex(
    (message) => isOf(message) && parseMessageStepNumber(message) > atStep,
  );
  const end = late === -1 ? messages.findLastIndex(isOf) + 1 : late;
  // Messages after the results of the step belong to later steps.
  const last = messages
    .slice(0, end)
    .findLastIndex(({ role, stepId }) => role !== "user" || stepId === undefined);
  const earlier = messages.slice(0, last + 1);
  const replied = repliedSteps.findLast((number) => number <= atStep);
  const isReply = (message: StoredMessage): boolean =>
    isOf(message) && message.role === "assistant" && parseMessageStepNumber(message) === replied;
  if (replied === undefined || earlier.some(isReply)) return earlier;
  throw createForkStepError(atStep, `a step of ${executionId} whose history is complete`);
}

/**
 * Assigns a summary that an unknown, later execution made of earlier messages to the last execution
 * of the fork.
 */
function adoptSummaries(
  messages: readonly StoredMessage[],
  known: ReadonlySet<ExecutionId | undefined>,
  { executionId, agentId }: SessionExecution,
): readonly StoredMessage[] {
  let number = getGreatestNumber(messages);
  return messages.map((message) => {
    if (known.has(message.executionId)) return message;
    number += 1;
    const { stepId: _none, ...rest } = message;
    return { ...rest, executionId, agentId, messageId: createMessageId(executionId, number) };
  });
}

function createForkStepError(got: unknown, expected: string): EspalierError {
  return mismatch(
    "fork options.atStep",
    expected,
    got,
    "Correct it, or leave it out to fork at the end.",
  );
}

/** Returns the last execution of a fork, up to the step. */
function cutExecution(execution: SessionExecution, atStep: number | undefined): SessionExecution {
  const { stepCount, repliedSteps } = execution;
  if (atStep === undefined || atStep === stepCount) return execution;
  const message = "The session was forked here.";
  return {
    ...execution,
    status: "stopped",
    reason: { code: "forked", message, data: { stepNumber: atStep } },
    stepCount: atStep,
    repliedSteps: repliedSteps.filter((number) => number <= atStep),
  };
}

/** New ids by ids of the origin. */
interface Names {
  readonly execution: (id: ExecutionId) => ExecutionId;
  readonly agent: (id: AgentId) => AgentId;
}

/** Returns a function that returns the same new name for an id each time. */
function createNaming<Id>(newName: () => Id): (id: Id) => Id {
  const names = new Map<Id, Id>();
  return (id) => {
    const name = names.get(id) ?? newName();
    names.set(id, name);
    return name;
  };
}

function renameMessage(message: StoredMessage, names: Names): StoredMessage {
  const executionId = names.execution(message.executionId);
  const stepNumber = parseMessageStepNumber(message);
  return {
    ...message,
    executionId,
    agentId: names.agent(message.agentId),
    messageId: createMessageId(executionId, parseMessageNumber(message)),
    ...(stepNumber === 0 ? {} : { stepId: createStepId(executionId, stepNumber) }),
  };
}

function copyExecution(
  sessionId: SessionId,
  { forkedFrom: _earlier, ...execution }: SessionExecution,
  names: Names,
): SessionExecution {
  const { executionId, agentId } = execution;
  return {
    ...execution,
    executionId: names.execution(executionId),
    agentId: names.agent(agentId),
    usage: NO_USAGE,
    forkedFrom: { sessionId, executionId },
  };
}
