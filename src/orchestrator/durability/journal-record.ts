// The records of a journal. A journal is an ordered stream of records of one run. Each prefix that
// ends between two batches is a state that the run was in.

import { getErrorMessage } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import type { JsonDelta } from "../../kernel/json-delta.ts";
import { AccountSchema } from "../../protocol/account.ts";
import { EVENT_SCHEMAS } from "../../protocol/event-schemas.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  LeaseIdSchema,
  RunIdSchema,
  StepIdSchema,
} from "../../protocol/ids.ts";
import { MessageContentSchema } from "../../protocol/message-content.ts";
import { lazyObject, lazySchema, z } from "../../protocol/lazy-schema.ts";
import { AnswerSchema } from "../../protocol/question.ts";
import { ErrorRecordSchema, StopSignalSchema } from "../../protocol/stop.ts";
import { RemovedToolSchema } from "../../protocol/tool-rule.ts";
import { LedgerOperationSchema } from "../../budget/ledger-operation.ts";
import { PriceUsedSchema } from "../../budget/prices-used.ts";
import { SessionOutcomeSchema } from "../sessions/session-outcome.ts";
import { SessionRefSchema } from "../sessions/session-ref.ts";
import { CreatedAgentSchema, TreeLimitsSchema } from "./paused-run.ts";

/** Version of the records and their lines. A journal of another version cannot be read. */
export const JOURNAL_VERSION = 1;

const agentId = lazySchema(() => AgentIdSchema());
const count = lazySchema(() => z.int().nonnegative());

/** Index of the delegation within its call, from 0; for a subtask, its place in the queue. */
const nth = lazySchema(() => count());

/** Tool call with which an agent operates on its subagent. */
const BySchema = lazyObject(() => ({ agentId: agentId(), callId: CallIdSchema() }));

/**
 * Marks an external request, or the end of a time limit, that arrived while nothing else was in
 * progress. For replays.
 */
const isApart = lazySchema(() => z.literal(true).exactOptional());

const DeltaSchema = lazySchema(() => z.custom<JsonDelta>(isRecord));

/** Schemas by kind, built lazily: a reader builds only the schemas of the kinds that it meets. */
const RECORDS = {
  /**
   * First record. A paused run that continues has another one, which replaces everything before it.
   */
  run: lazyObject(() => ({
    type: z.literal("run"),
    version: z.literal(JOURNAL_VERSION),
    runId: RunIdSchema(),
    limits: TreeLimitsSchema(),
    session: SessionRefSchema().exactOptional(),
    /** Span of the caller and origin of a fork, until the event that contains them is persisted. */
    traceparent: z.string().exactOptional(),
    forkedFrom: EVENT_SCHEMAS["run.started"]().forkedFrom,
  })),
  /** The paused run from which this run continues. */
  restored: lazyObject(() => ({ type: z.literal("restored"), run: z.unknown() })),
  /** Another process continues the run from here, after a crash or a pause. For replays. */
  recovered: lazyObject(() => ({
    type: z.literal("recovered"),
    /** Error with which the run only continues to fail. */
    failure: ErrorRecordSchema().exactOptional(),
  })),
  agent: lazyObject(() => ({
    type: z.literal("agent"),
    agent: CreatedAgentSchema(),
    isBackground: z.boolean(),
    nth: nth(),
    account: AccountSchema(),
  })),
  /** An agent that had ended begins a further execution. */
  execution: lazyObject(() => ({
    type: z.literal("execution"),
    agentId: agentId(),
    executionId: ExecutionIdSchema(),
    execution: z.int().positive(),
    task: MessageContentSchema(),
    spawnCallId: CallIdSchema().nullable(),
    spawnStepId: StepIdSchema().nullable(),
    isBackground: z.boolean(),
    nth: nth(),
  })),
  /** The changes of an agent's state by the end of a phase. */
  state: lazyObject(() => ({
    type: z.literal("state"),
    agentId: agentId(),
    phase: z.string(),
    delta: DeltaSchema(),
  })),
  /** Outcome of an effect. */
  effect: lazyObject(() => ({
    type: z.literal("effect"),
    agentId: agentId(),
    name: z.string(),
    outcome: z.unknown(),
    /** Lease of a model call. */
    leaseId: LeaseIdSchema().exactOptional(),
  })),
  /** A call that must not be repeated is about to begin. */
  begun: lazyObject(() => ({ type: z.literal("begun"), agentId: agentId(), name: z.string() })),
  ledger: lazyObject(() => ({
    type: z.literal("ledger"),
    done: LedgerOperationSchema(),
    isApart: isApart(),
  })),
  event: lazyObject(() => ({
    type: z.literal("event"),
    event: z.looseObject({ seq: count(), type: z.string(), atMs: z.number() }),
  })),
  /** A message to an agent. */
  letter: lazyObject(() => ({
    type: z.literal("letter"),
    agentId: agentId(),
    text: MessageContentSchema(),
    by: BySchema().exactOptional(),
    isApart: isApart(),
  })),
  /** Number of the agent's messages that are in its history. */
  read: lazyObject(() => ({ type: z.literal("read"), agentId: agentId(), letters: count() })),
  /** Stop request to an agent. */
  signal: lazyObject(() => ({
    type: z.literal("signal"),
    agentId: agentId(),
    signal: StopSignalSchema(),
  })),
  cancel: lazyObject(() => ({
    type: z.literal("cancel"),
    agentId: agentId(),
    message: z.string(),
    by: BySchema().exactOptional(),
    isApart: isApart(),
  })),
  /** An agent reached its time limit. */
  deadline: lazyObject(() => ({
    type: z.literal("deadline"),
    agentId: agentId(),
    deadlineAtMs: z.number(),
    isApart: isApart(),
  })),
  /** The whole tree was asked to pause. */
  pause: lazyObject(() => ({ type: z.literal("pause"), isApart: isApart() })),
  /** The calls of the root's open or next step are to be skipped. */
  skip: lazyObject(() => ({ type: z.literal("skip"), message: z.string(), isApart: isApart() })),
  /** The whole tree was asked to stop. */
  stop: lazyObject(() => ({
    type: z.literal("stop"),
    signal: StopSignalSchema(),
    isApart: isApart(),
  })),
  /** The run has ended or is paused: the part of its result that no other record contains. */
  result: lazyObject(() => ({
    type: z.literal("result"),
    atMs: z.number(),
    models: z.array(z.strictObject({ model: z.string(), agentIds: z.array(agentId()) })),
    removedTools: z.array(
      z.strictObject({ agentId: agentId(), removed: z.array(RemovedToolSchema()).readonly() }),
    ),
    prices: z.array(PriceUsedSchema()).readonly(),
    session: SessionOutcomeSchema().exactOptional(),
  })),
  /** Text that steps refer to. */
  definition: lazyObject(() => ({
    type: z.literal("definition"),
    hash: z.string(),
    text: z.string(),
  })),
  /** Mail of the run was handled. `problem` is present if the mail had no effect. */
  post: lazyObject(() => ({
    type: z.literal("post"),
    number: z.int().positive(),
    problem: z.string().exactOptional(),
  })),
  /** Answers with which the run continues after a pause. */
  answers: lazyObject(() => ({
    type: z.literal("answers"),
    answers: z.array(AnswerSchema()).readonly(),
  })),
};
type Records = typeof RECORDS;
/** Record of a journal. */
export type JournalRecord = {
  [Kind in keyof Records]: z.infer<ReturnType<Records[Kind]>>;
}[keyof Records];
/** A record of kind `T`. */
export type RecordOf<T extends JournalRecord["type"]> = Extract<JournalRecord, { type: T }>;

/** Parses a record. Throws for an invalid value; `describeInvalidRecord` returns the reason. */
export function parseRecord(value: unknown): JournalRecord {
  const kind = isRecord(value) ? value["type"] : undefined;
  if (isKind(kind)) return RECORDS[kind]().parse(value);
  const kinds = Object.keys(RECORDS).join(", ");
  throw new TypeError(`type: expected one of ${kinds}, got ${JSON.stringify(kind)}`);
}

function isKind(kind: unknown): kind is keyof Records {
  return typeof kind === "string" && Object.hasOwn(RECORDS, kind);
}

/** Describes the problem of an invalid record in one line. */
export function describeInvalidRecord(cause: unknown): string {
  const [issue] = cause instanceof z.ZodError ? cause.issues : [];
  if (issue === undefined) return getErrorMessage(cause);
  return [...(issue.path.length === 0 ? [] : [issue.path.join(".")]), issue.message].join(": ");
}
