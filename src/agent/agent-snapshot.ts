// The state of an agent at rest, as plain JSON and back. Stable: its keys are part of the version of a paused run (R47). What is
// transient, such as the messages that a hook changed for one request, is not in it.

import { deepFreeze } from "../kernel/json.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";
import { AgentIdSchema, CallIdSchema, ExecutionIdSchema, StepIdSchema } from "../protocol/ids.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { z } from "../protocol/late-zod.ts";
import { AssistantMessageSchema, MessageSchema, MessageTagSchema } from "../protocol/message.ts";
import { QuestionSchema } from "../protocol/question.ts";
import { StepContextSchema } from "../protocol/step-context.ts";
import { StepRecordSchema } from "../protocol/step-record.ts";
import { StepTimingSchema } from "../protocol/step-timing.ts";
import {
  ErrorRecordSchema,
  StopReasonSchema,
  StopSignalSchema,
  TerminalStatusSchema,
  type ErrorRecord,
} from "../protocol/stop.ts";
import { SpawnRequestSchema } from "../protocol/subagent.ts";
import { ToolExecutionSchema } from "../protocol/tool-outcome.ts";
import { UsageSchema } from "../protocol/usage.ts";
import type { OpenStep, PendingState, SettledState } from "./agent-state.ts";
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
    callHash: z.string().exactOptional(),
  }),
  z.strictObject({
    type: z.literal("subagent"),
    callId: CallIdSchema,
    childId: AgentIdSchema,
    argumentsText: z.string(),
    subtasks: z.array(SpawnRequestSchema).readonly().exactOptional(),
    startedIds: z.array(AgentIdSchema).readonly().exactOptional(),
  }),
]);

export const StepSnapshotSchema = z.strictObject({
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
export const STATE_PARTS = {
  conversation: ConversationSchema,
  log: RunLogSchema,
  telemetry: RunTelemetrySchema,
};
const parts = { executionId: ExecutionIdSchema, reason: StopReasonSchema, ...STATE_PARTS };

export const AgentSnapshotSchema = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("paused"), ...parts, step: StepSnapshotSchema.optional() }),
  z.strictObject({ status: TerminalStatusSchema, ...parts }),
]);
/** An agent's state at rest, as JSON. */
export type AgentSnapshot = z.infer<typeof AgentSnapshotSchema>;

/** The state as plain JSON, frozen: no key that is undefined, nothing transient. */
export function snapshotOf(state: SettledState): AgentSnapshot {
  const { conversation, executionId, reason, log, telemetry } = state;
  const shared = {
    executionId,
    reason,
    conversation,
    log: defined({ ...log, subtasks: log.subtasks.map(defined) }),
    telemetry: defined(telemetry),
  };
  if (state.status !== "paused")
    return frozenCopy(AgentSnapshotSchema.parse({ status: state.status, ...shared }));
  const step = state.step === undefined ? {} : { step: stepSnapshot(state.step) };
  return frozenCopy(AgentSnapshotSchema.parse({ status: "paused", ...shared, ...step }));
}

/** Schemas freeze lists, and not what is in them: what they give is not frozen whole, though it may look so. */
function frozenCopy(snapshot: AgentSnapshot): AgentSnapshot {
  return deepFreeze(structuredClone(snapshot));
}

function stepSnapshot({ input: _transient, error: _none, ...step }: OpenStep): object {
  return defined(step);
}

/** The state behind a snapshot, frozen. */
export function stateOf(stored: AgentSnapshot): SettledState {
  const snapshot = frozenCopy(stored);
  const { executionId, reason } = snapshot;
  const shared = { executionId, reason, ...snapshotPartsOf(snapshot) };
  if (snapshot.status !== "paused") return deepFreeze({ status: snapshot.status, ...shared });
  return deepFreeze({ status: "paused", ...shared, step: restoredStep(snapshot.step) });
}

type StoredParts = Pick<AgentSnapshot, keyof typeof STATE_PARTS>;

/** What every state has, with the keys that JSON leaves out. */
export function snapshotPartsOf({
  conversation,
  log,
  telemetry,
}: StoredParts): Pick<PendingState, keyof StoredParts> {
  return {
    conversation,
    log: {
      ...log,
      output: log.output,
      subtasks: log.subtasks.map(({ request, childId, text }) => ({ request, childId, text })),
    },
    telemetry: {
      ...telemetry,
      startedAtMs: telemetry.startedAtMs,
      endedAtMs: telemetry.endedAtMs,
    },
  };
}

/** The open step, without what is transient. */
export function restoredStep(
  step: z.infer<typeof StepSnapshotSchema> | undefined,
  error?: ErrorRecord,
): OpenStep | undefined {
  if (step === undefined) return undefined;
  const { reply, lastStep, limit } = step;
  return { ...step, reply, lastStep, limit, input: [], error };
}

/** The value without the keys that hold undefined, which JSON does not know. */
function defined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined));
}
