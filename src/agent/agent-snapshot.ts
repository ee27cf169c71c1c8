// The state of an agent at rest, as plain JSON and back. Stable: its keys are part of the version of a paused run (R47). What is
// transient, such as the error of an open step, is not in it.

import { deepFreeze, defined } from "../kernel/json.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { AgentIdSchema, CallIdSchema, ExecutionIdSchema, StepIdSchema } from "../protocol/ids.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { z } from "../protocol/late-zod.ts";
import {
  AssistantMessageSchema,
  MessageSchema,
  MessageTagSchema,
  type Message,
} from "../protocol/message.ts";
import { QuestionSchema } from "../protocol/question.ts";
import { StepContextSchema } from "../protocol/step-context.ts";
import { StepRecordSchema } from "../protocol/step-record.ts";
import { StepTimingSchema } from "../protocol/step-timing.ts";
import {
  ErrorRecordSchema,
  StopReasonSchema,
  StopSignalSchema,
  TerminalStatusSchema,
} from "../protocol/stop.ts";
import { SpawnRequestSchema } from "../protocol/subagent.ts";
import { ToolExecutionSchema } from "../protocol/tool-outcome.ts";
import { UsageSchema } from "../protocol/usage.ts";
import type { AgentState, OpenStep, SettledState } from "./agent-state.ts";
import { HistoryChangeSchema } from "./history-change.ts";

const count = z.int().nonnegative();

const ConversationSchema = z.strictObject({
  messages: z.array(MessageSchema).readonly(),
  prefix: z.strictObject({ messageCount: count, tokens: count }),
  tags: z.array(MessageTagSchema).readonly(),
  leftOut: z.array(z.strictObject({ message: MessageSchema, tag: MessageTagSchema })).readonly(),
  added: count,
});

const RunLogSchema = z.strictObject({
  steps: z.array(StepRecordSchema).readonly(),
  compactions: z.array(HistoryChangeSchema).readonly(),
  signals: z.array(StopSignalSchema).readonly(),
  errors: z.array(ErrorRecordSchema).readonly(),
  output: JsonValueSchema.optional(),
  outputParse: z
    .strictObject({ schemaHash: z.string(), written: JsonValueSchema.exactOptional() })
    .exactOptional(),
  isBriefed: z.boolean(),
  uselessReplies: count,
  overflows: count,
  failures: z.strictObject({
    toolErrors: count,
    consecutiveErrors: count,
    retryErrors: count,
    retriesByTool: z.record(z.string(), count).readonly(),
  }),
  vetoes: count,
  waits: count.exactOptional(),
  subtasks: z
    .array(
      z.strictObject({
        request: SpawnRequestSchema,
        childId: AgentIdSchema.optional(),
        text: z.string().optional(),
      }),
    )
    .readonly(),
  background: z.array(AgentIdSchema).readonly(),
  isAwaiting: z.boolean(),
  sections: z
    .array(z.strictObject({ name: z.string(), text: z.string().exactOptional() }))
    .readonly()
    .exactOptional(),
  fired: z.record(z.string(), z.array(StopReasonSchema).readonly()).readonly().exactOptional(),
});

const RunTelemetrySchema = z.strictObject({
  usage: UsageSchema,
  startedAtMs: z.number().optional(),
  endedAtMs: z.number().optional(),
  waitedMs: z.number(),
});

export const DeferralSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("question"),
    callId: CallIdSchema,
    question: QuestionSchema,
    argumentsText: z.string(),
    callHash: z.string(),
    schemaHash: z.string(),
    fingerprint: z.string().exactOptional(),
    isUnverified: z.literal(true).exactOptional(),
  }),
  z.strictObject({
    type: z.literal("subagent"),
    callId: CallIdSchema,
    childId: AgentIdSchema,
    argumentsText: z.string(),
    parsedArguments: JsonValueSchema.exactOptional(),
    subtasks: z.array(SpawnRequestSchema).readonly().exactOptional(),
    startedIds: z.array(AgentIdSchema).readonly().exactOptional(),
  }),
]);

const StepSnapshotSchema = z.strictObject({
  stepId: StepIdSchema,
  number: z.int().positive(),
  startedAtMs: z.number(),
  context: StepContextSchema,
  messageCount: count,
  hiddenTools: z.array(z.strictObject({ toolName: z.string(), filter: z.string() })).readonly(),
  reply: z
    .strictObject({ message: AssistantMessageSchema, finishReason: FinishReasonSchema })
    .optional(),
  executions: z.array(ToolExecutionSchema).readonly(),
  deferrals: z.array(DeferralSchema).readonly(),
  limit: StopSignalSchema.optional(),
  isIncorporated: z.boolean(),
  lastStep: z.strictObject({ accountPath: z.string(), maximum: count }).optional(),
  usage: UsageSchema,
  timing: StepTimingSchema,
});

/** What every state has. */
const parts = {
  conversation: ConversationSchema,
  log: RunLogSchema,
  telemetry: RunTelemetrySchema,
};
const settled = { executionId: ExecutionIdSchema, reason: StopReasonSchema, ...parts };
const EndedSchema = z.strictObject({ status: TerminalStatusSchema, ...settled });

export const AgentSnapshotSchema = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("paused"), ...settled, step: StepSnapshotSchema.optional() }),
  EndedSchema,
]);
/** An agent's state at rest, as JSON. */
export type AgentSnapshot = z.infer<typeof AgentSnapshotSchema>;

/** The state as plain JSON, frozen: no key that is undefined, nothing transient. */
export function snapshotOf(state: SettledState): AgentSnapshot {
  const { status, conversation, executionId, reason, step } = state;
  const log = defined(state.log);
  const telemetry = defined(state.telemetry);
  const open = step && defined({ ...step, error: undefined });
  const plain = { status, executionId, reason, conversation, log, telemetry, step: open };
  return frozenCopy(AgentSnapshotSchema.parse(defined(plain)));
}

/** Schemas freeze lists, and not what is in them: what they give is not frozen whole, though it may look so. */
function frozenCopy<Snapshot>(snapshot: Snapshot): Snapshot {
  return deepFreeze(structuredClone(snapshot));
}

// The state of an agent at any phase, as a journal keeps it: shared parts stay shared, so that only what is new is written.

const PersistedStepSchema = StepSnapshotSchema.extend({ error: ErrorRecordSchema.exactOptional() });
const step = PersistedStepSchema.optional();
const { executionId } = settled;

const PersistedStateSchema = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("pending"), ...parts }),
  z.strictObject({ status: z.literal("running"), executionId, ...parts, step }),
  z.strictObject({ status: z.literal("paused"), ...settled, step }),
  EndedSchema,
]);

/** How one state is checked alone: to compile the check takes longer, and holds others up. It pays for thousands. */
export const UNCOMPILED = { jitless: true } as const;

/** The state that was kept, frozen. Throws a `ZodError` for what is none. */
export function stateFromPersisted(value: unknown, how?: typeof UNCOMPILED): AgentState {
  return stateOf(PersistedStateSchema.parse(value, how));
}

/** The history of one such state. Throws the same. */
export function historyFromPersisted(value: unknown): readonly Message[] {
  return HistorySchema.parse(value, UNCOMPILED).conversation.messages;
}

const HistorySchema = z.object({ conversation: ConversationSchema });

/** The state behind what was kept of it, frozen, with the keys that JSON leaves out. */
export function stateOf(stored: AgentSnapshot): SettledState;
export function stateOf(stored: z.infer<typeof PersistedStateSchema>): AgentState;
export function stateOf(stored: z.infer<typeof PersistedStateSchema>): AgentState {
  const kept = frozenCopy(stored);
  const { conversation, log, telemetry } = kept;
  const shared = {
    conversation,
    log: { ...log, output: log.output },
    telemetry: {
      ...telemetry,
      startedAtMs: telemetry.startedAtMs,
      endedAtMs: telemetry.endedAtMs,
    },
  };
  return kept.status === "running" || kept.status === "paused"
    ? deepFreeze({ ...kept, ...shared, step: restoredStep(kept.step) })
    : deepFreeze({ ...kept, ...shared });
}

function restoredStep(step: z.infer<typeof PersistedStepSchema> | undefined): OpenStep | undefined {
  if (step === undefined) return undefined;
  const { reply, lastStep, limit, error } = step;
  return { ...step, reply, lastStep, limit, error };
}
