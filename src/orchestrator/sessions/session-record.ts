// Stored form of a session: its history and its executions, as one JSON text. Versioned; an invalid
// record is rejected as a whole.

import { describeReceived } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import {
  AgentIdSchema,
  ExecutionIdSchema,
  createMessageId,
  RunIdSchema,
  SessionIdSchema,
  createStepId,
  type AgentId,
  type ExecutionId,
  type RunId,
  type SessionId,
} from "../../protocol/ids.ts";
import { lazyObject, lazySchema, z } from "../../protocol/lazy-schema.ts";
import { StoredMessageSchema, type StoredMessage } from "../../protocol/message.ts";
import {
  StopReasonSchema,
  TerminalStatusSchema,
  type StopReason,
  type TerminalStatus,
} from "../../protocol/stop.ts";
import { NO_USAGE, UsageSchema, type Usage } from "../../protocol/usage.ts";
import { repairMessages } from "../../policies/message-repair.ts";

/** Version of the fields of a stored session. */
const SESSION_VERSION = 1;

/**
 * Record of a root execution of a session, created when the execution ends.
 *
 * @example
 * ```ts
 * const session = await orchestrator.openSession("customer-42");
 * const [latest] = session.executions.slice(-1);
 * if (latest !== undefined) console.log((await orchestrator.getResult(latest.runId)).text);
 * ```
 */
export interface SessionExecution {
  /** Id of the execution. */
  readonly executionId: ExecutionId;
  /** Id of the root agent of the run. */
  readonly agentId: AgentId;
  /** Id of the run. */
  readonly runId: RunId;
  /** Name of the root's role. */
  readonly role: string;
  /** How the execution ended. */
  readonly status: TerminalStatus;
  /** Reason of the end. */
  readonly reason: StopReason;
  /** Start time in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** End time in milliseconds since the epoch. */
  readonly endedAtMs: number;
  /** Number of steps. */
  readonly stepCount: number;
  /** Numbers of the steps whose replies were added to the history. */
  readonly repliedSteps: readonly number[];
  /** Usage of the execution, including all subagents. Zero in a fork. */
  readonly usage: Usage;
  /** `true` if the messages of the execution were removed from the session. */
  readonly isRemoved: boolean;
  /** Execution of another session of which this one is a copy. Absent outside forks. */
  readonly forkedFrom?: { readonly sessionId: SessionId; readonly executionId: ExecutionId };
}

/**
 * Origin of a forked session.
 *
 * @example
 * ```ts
 * const session = await orchestrator.openSession("customer-42-retry");
 * if (session.forkedFrom !== undefined)
 *   console.log(`Forked after step ${session.forkedFrom.stepNumber}.`);
 * ```
 */
export interface SessionFork {
  /** Session that was forked. */
  readonly sessionId: SessionId;
  /** Execution of the original session in which the fork begins. */
  readonly executionId: ExecutionId;
  /** Last step of the execution that the fork contains. */
  readonly stepNumber: number;
  /** Usage of the original session up to the fork. It does not count for the fork. */
  readonly usage: Usage;
}

const count = lazySchema(() => z.int().nonnegative());

export const SessionExecutionSchema = lazyObject(() => ({
  executionId: ExecutionIdSchema(),
  agentId: AgentIdSchema(),
  runId: RunIdSchema(),
  role: z.string(),
  status: TerminalStatusSchema(),
  reason: StopReasonSchema(),
  startedAtMs: z.number(),
  endedAtMs: z.number(),
  stepCount: count(),
  repliedSteps: z.array(z.int().positive()).readonly(),
  usage: UsageSchema(),
  isRemoved: z.boolean(),
  forkedFrom: z
    .strictObject({ sessionId: SessionIdSchema(), executionId: ExecutionIdSchema() })
    .exactOptional(),
})) satisfies () => z.ZodType<SessionExecution>;

const SessionForkSchema = lazyObject(() => ({
  sessionId: SessionIdSchema(),
  executionId: ExecutionIdSchema(),
  stepNumber: count(),
  usage: UsageSchema(),
})) satisfies () => z.ZodType<SessionFork>;

const SessionRecordSchema = lazyObject(() => ({
  version: z.literal(SESSION_VERSION),
  sessionId: SessionIdSchema(),
  createdAtMs: z.number(),
  /** Without instructions, since each execution has those of its role. */
  messages: z.array(StoredMessageSchema()).readonly(),
  /** Oldest first. Contains only the latest executions without messages. */
  executions: z.array(SessionExecutionSchema()).readonly(),
  /** Number of all executions. */
  executionCount: count(),
  /** Usage of all executions. */
  usage: UsageSchema(),
  forkedFrom: SessionForkSchema().exactOptional(),
  /** Id in place of an execution, which imported messages have. */
  importId: ExecutionIdSchema().exactOptional(),
}));
/** Session as it is stored. */
export type SessionRecord = Readonly<z.infer<ReturnType<typeof SessionRecordSchema>>>;

/** Returns the record of a new session. */
export function createEmptyRecord(sessionId: SessionId, createdAtMs: number): SessionRecord {
  return deepFreeze({
    version: SESSION_VERSION,
    sessionId,
    createdAtMs,
    messages: [],
    executions: [],
    executionCount: 0,
    usage: NO_USAGE,
  });
}

/**
 * Parses a stored session.
 *
 * @throws EspalierError `unsupported_version` or `invalid_session`.
 */
export function readSessionRecord(sessionId: SessionId, body: unknown): SessionRecord {
  const value = parseSession(sessionId, body);
  const version = isRecord(value) ? value["version"] : undefined;
  if (typeof version === "number" && version !== SESSION_VERSION)
    throw new EspalierError({
      code: "unsupported_version",
      message: `Expected session ${JSON.stringify(sessionId)} to have format version ${SESSION_VERSION}, got ${version}. Read it with the version of espalier that wrote it.`,
      data: { sessionId, expected: SESSION_VERSION, got: version },
    });
  const result = SessionRecordSchema().safeParse(value);
  if (!result.success) {
    const problem = z.prettifyError(new z.ZodError(result.error.issues.slice(0, MOST_ISSUES)));
    throw createSessionError(sessionId, problem, result.error);
  }
  const problem = findSessionProblem(sessionId, result.data);
  if (problem !== undefined) throw createSessionError(sessionId, problem);
  return deepFreeze(structuredClone(result.data));
}

const MOST_ISSUES = 3;

function parseSession(sessionId: SessionId, body: unknown): unknown {
  if (typeof body !== "string")
    throw createSessionError(sessionId, `its body is ${describeReceived(body)}`);
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw createSessionError(sessionId, "it is not JSON; it may be truncated", cause);
  }
}

/** Returns a contradiction in the record. `undefined` for a consistent record. */
export function findSessionProblem(id: SessionId, record: SessionRecord): string | undefined {
  const { messages, executions, executionCount } = record;
  if (record.sessionId !== id) return `it is the session ${JSON.stringify(record.sessionId)}`;
  const known = new Set(executions.map(({ executionId }) => executionId));
  if (known.size !== executions.length) return "it contains an execution twice";
  if (record.importId !== undefined) known.add(record.importId);
  if (executionCount < executions.length) return "it has more executions than were ever recorded";
  const isRepaired = repairMessages(messages).repairs.some(({ type }) => type !== "added_notice");
  if (messages.length > 0 && isRepaired) return "its calls and results do not match";
  const seen = new Set<string>();
  for (const message of messages) {
    const { messageId } = message;
    if (seen.has(messageId)) return `it contains ${messageId} twice`;
    if (!known.has(message.executionId)) return `${messageId} belongs to an unknown execution`;
    if (message.role === "system" || message.note === "boundary")
      return `${messageId} does not belong to its history`;
    if (createMessageId(message.executionId, parseMessageNumber(message)) !== messageId)
      return `${messageId} is already the id of another message`;
    const { stepId } = message;
    if (
      stepId !== undefined &&
      createStepId(message.executionId, parseMessageStepNumber(message)) !== stepId
    )
      return `${messageId} belongs to a step of another execution`;
    seen.add(messageId);
  }
  return undefined;
}

/** Returns the number in the id of a message. */
export function parseMessageNumber({ messageId, executionId }: StoredMessage): number {
  return parseCount(messageId.slice(executionId.length + ".m".length));
}

/** Returns the greatest number of these messages, or 0 without messages. */
export function getGreatestNumber(messages: readonly StoredMessage[]): number {
  return messages.reduce((greatest, message) => Math.max(greatest, parseMessageNumber(message)), 0);
}

/** Returns the step number of a message, or 0 if it belongs to no step. */
export function parseMessageStepNumber({ stepId, executionId }: StoredMessage): number {
  return stepId === undefined ? 0 : parseCount(stepId.slice(executionId.length + ".".length));
}

function parseCount(text: string): number {
  const number = Number(text);
  return Number.isSafeInteger(number) && number > 0 ? number : 0;
}

function createSessionError(sessionId: SessionId, problem: string, cause?: unknown): EspalierError {
  return new EspalierError({
    code: "invalid_session",
    message: `Cannot read session ${JSON.stringify(sessionId)}: ${problem}. Restore it from a copy, or remove it from the store.`,
    data: { sessionId, problem },
    ...(cause === undefined ? {} : { cause }),
  });
}
