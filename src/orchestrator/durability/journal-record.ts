// The records of a journal. A journal is one ordered stream of records of one run. Each beginning of
// it that ends between two batches is a state that the run was in.

import { messageOf } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import type { JsonDelta } from "../../kernel/json-delta.ts";
import { AccountSchema } from "../../protocol/account.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  LeaseIdSchema,
  RunIdSchema,
  StepIdSchema,
} from "../../protocol/ids.ts";
import { MessageContentSchema } from "../../protocol/message-content.ts";
import { z } from "../../protocol/late-zod.ts";
import { AnswerSchema } from "../../protocol/question.ts";
import { ErrorRecordSchema, StopSignalSchema } from "../../protocol/stop.ts";
import { RemovedToolSchema } from "../../protocol/tool-rule.ts";
import { LedgerOperationSchema } from "../../budget/ledger-operation.ts";
import { PriceUsedSchema } from "../../budget/prices-used.ts";
import { SessionOutcomeSchema } from "../sessions/session-outcome.ts";
import { SessionRefSchema } from "../sessions/session-ref.ts";
import { CreatedAgentSchema, TreeLimitsSchema } from "./paused-run.ts";

/** Version of the records and of their lines. A journal of another version cannot be read (D3). */
export const JOURNAL_VERSION = 1;

const agentId = AgentIdSchema;
const count = z.int().nonnegative();

/** Which of the delegations of its call it is, from 0; of a subtask: its place in the queue. */
const nth = count;

/** The tool call by which an agent acts upon a subagent of its own. */
const BySchema = z.strictObject({ agentId, callId: CallIdSchema });

/** A request from outside, or the end of a time, that came by itself: all that had happened before was settled. For replays. */
const isApart = z.literal(true).exactOptional();

const DeltaSchema = z.custom<JsonDelta>(isRecord);

/** By the kind of the record: a reader builds the schemas of the kinds that it meets, and no others (`late-zod.ts`). */
const RECORDS = {
  /** The first record. Once more where a paused run continues: what stands before it does not matter any more. */
  run: z.strictObject({
    type: z.literal("run"),
    version: z.literal(JOURNAL_VERSION),
    runId: RunIdSchema,
    limits: TreeLimitsSchema,
    session: SessionRefSchema.exactOptional(),
    /** The span of the caller, until the event that says so is kept. */
    traceparent: z.string().exactOptional(),
  }),
  /** The paused run that it continues from. */
  restored: z.strictObject({ type: z.literal("restored"), run: z.unknown() }),
  /** Another process continues the run from here, after a crash or a pause. For replays. */
  recovered: z.strictObject({
    type: z.literal("recovered"),
    /** Why the run only continues to fail. */
    failure: ErrorRecordSchema.exactOptional(),
  }),
  agent: z.strictObject({
    type: z.literal("agent"),
    agent: CreatedAgentSchema,
    isBackground: z.boolean(),
    nth,
    account: AccountSchema,
  }),
  /** An agent that had ended begins a further execution. */
  execution: z.strictObject({
    type: z.literal("execution"),
    agentId,
    executionId: ExecutionIdSchema,
    execution: z.int().positive(),
    task: MessageContentSchema,
    spawnCallId: CallIdSchema.nullable(),
    spawnStepId: StepIdSchema.nullable(),
    isBackground: z.boolean(),
    nth,
  }),
  /** What changed in an agent's state by the end of a phase. */
  state: z.strictObject({
    type: z.literal("state"),
    agentId,
    phase: z.string(),
    delta: DeltaSchema,
  }),
  /** What an effect came to (D1). */
  effect: z.strictObject({
    type: z.literal("effect"),
    agentId,
    name: z.string(),
    outcome: z.unknown(),
    /** The lease of a model call. */
    leaseId: LeaseIdSchema.exactOptional(),
  }),
  /** A call that must not be repeated is about to begin. */
  begun: z.strictObject({ type: z.literal("begun"), agentId, name: z.string() }),
  ledger: z.strictObject({ type: z.literal("ledger"), done: LedgerOperationSchema, isApart }),
  event: z.strictObject({
    type: z.literal("event"),
    event: z.looseObject({ seq: count, type: z.string(), atMs: z.number() }),
  }),
  /** A message to an agent (X10, X23). */
  letter: z.strictObject({
    type: z.literal("letter"),
    agentId,
    text: MessageContentSchema,
    by: BySchema.exactOptional(),
    isApart,
  }),
  /** How many of its messages are in its history. */
  read: z.strictObject({ type: z.literal("read"), agentId, letters: count }),
  /** A stop request. */
  signal: z.strictObject({ type: z.literal("signal"), agentId, signal: StopSignalSchema }),
  cancel: z.strictObject({
    type: z.literal("cancel"),
    agentId,
    message: z.string(),
    by: BySchema.exactOptional(),
    isApart,
  }),
  /** The time of an agent was over. */
  deadline: z.strictObject({
    type: z.literal("deadline"),
    agentId,
    deadlineAtMs: z.number(),
    isApart,
  }),
  /** The whole tree was asked to pause. */
  pause: z.strictObject({ type: z.literal("pause"), isApart }),
  /** The calls of the root's open step, or of its next one, are to be left out. */
  skip: z.strictObject({ type: z.literal("skip"), message: z.string(), isApart }),
  /** The whole tree was asked to stop. */
  stop: z.strictObject({ type: z.literal("stop"), signal: StopSignalSchema, isApart }),
  /** The run has ended, or is paused: the part of its result that no other record has. */
  result: z.strictObject({
    type: z.literal("result"),
    atMs: z.number(),
    models: z.array(z.strictObject({ model: z.string(), agentIds: z.array(agentId) })),
    removedTools: z.array(
      z.strictObject({ agentId, removed: z.array(RemovedToolSchema).readonly() }),
    ),
    prices: z.array(PriceUsedSchema).readonly(),
    session: SessionOutcomeSchema.exactOptional(),
  }),
  /** A text that steps refer to (C28). */
  definition: z.strictObject({ type: z.literal("definition"), hash: z.string(), text: z.string() }),
  /** A post of the mailbox of the run was handled. `problem`: why it had no effect. */
  post: z.strictObject({
    type: z.literal("post"),
    number: z.int().positive(),
    problem: z.string().exactOptional(),
  }),
  /** The answers with which the run continues after a pause. */
  answers: z.strictObject({
    type: z.literal("answers"),
    answers: z.array(AnswerSchema).readonly(),
  }),
};
type Records = typeof RECORDS;
/** One record of a journal. */
export type JournalRecord = { [Kind in keyof Records]: z.infer<Records[Kind]> }[keyof Records];
/** The record of one kind. */
export type RecordOf<T extends JournalRecord["type"]> = Extract<JournalRecord, { type: T }>;

/** The record that a value is. Throws for what is none; `problemOf` says why. */
export function recordFrom(value: unknown): JournalRecord {
  const kind = isRecord(value) ? value["type"] : undefined;
  if (isKind(kind)) return RECORDS[kind].parse(value);
  const kinds = Object.keys(RECORDS).join(", ");
  throw new TypeError(`type: expected one of ${kinds}, got ${JSON.stringify(kind)}`);
}

function isKind(kind: unknown): kind is keyof Records {
  return typeof kind === "string" && Object.hasOwn(RECORDS, kind);
}

/** What is wrong with a record that cannot be read, in one line. */
export function problemOf(cause: unknown): string {
  const [issue] = cause instanceof z.ZodError ? cause.issues : [];
  if (issue === undefined) return messageOf(cause);
  return [...(issue.path.length === 0 ? [] : [issue.path.join(".")]), issue.message].join(": ");
}
