// The state of one agent: a frozen value that only the functions of transition.ts change. It does
// not contain configuration, which belongs to the role.

import { EspalierError } from "../kernel/error.ts";
import type { AgentIdentity, EffectPosition, EventPosition } from "./agent-identity.ts";
import { deepFreeze } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import type { MeasuredPrefix } from "../model/count-tokens.ts";
import { FinishReasonSchema, type FinishReason } from "../protocol/finish-reason.ts";
import { HistoryChangeSchema, type TaggedHistory } from "./message-tags.ts";
import { FailureCountsSchema, NO_FAILURES } from "../policies/failure-counts.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  createStepId,
  StepIdSchema,
  type AgentId,
  type ExecutionId,
} from "../protocol/ids.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { CountSchema, lazyObject, lazySchema, lazyUnion, z } from "../protocol/lazy-schema.ts";
import {
  AssistantMessageSchema,
  MessageSchema,
  MessageTagSchema,
  type AssistantMessage,
} from "../protocol/message.ts";
import { QuestionSchema, type Question } from "../protocol/question.ts";
import { StepContextSchema } from "../protocol/step-context.ts";
import { StepRecordSchema, type StepRecord } from "../protocol/step-record.ts";
import { StepTimingSchema } from "../protocol/step-timing.ts";
import {
  ErrorRecordSchema,
  StopReasonSchema,
  StopSignalSchema,
  type StopReason,
  type TerminalStatus,
} from "../protocol/stop.ts";
import { SpawnRequestSchema } from "../protocol/subagent.ts";
import { ToolExecutionSchema } from "../protocol/tool-outcome.ts";
import { NO_USAGE, UsageSchema } from "../protocol/usage.ts";

export const ConversationSchema = lazyObject(() => ({
  messages: z.array(MessageSchema()).readonly(),
  prefix: z.strictObject({ messageCount: CountSchema(), tokens: CountSchema() }),
  tags: z.array(MessageTagSchema()).readonly(),
  dropped: z
    .array(z.strictObject({ message: MessageSchema(), tag: MessageTagSchema() }))
    .readonly(),
  added: CountSchema(),
}));

/** The conversation of an agent, which lasts from execution to execution. */
export interface Conversation extends TaggedHistory {
  /** The prefix whose token count the provider has reported. */
  readonly prefix: MeasuredPrefix;
}

const SubtaskSchema = lazyObject(() => ({
  request: SpawnRequestSchema(),
  /** The paused subagent that works on the subtask. */
  childId: AgentIdSchema().optional(),
  /** The result, as the agent will read it. */
  text: z.string().optional(),
}));
/** A delegation that a tool queued. Removed once its result is in the history. */
export type Subtask = Readonly<z.infer<ReturnType<typeof SubtaskSchema>>>;

const MadeSectionSchema = lazyObject(() => ({
  name: z.string(),
  /** Absent if the section has no text, or if its text is in the history. */
  text: z.string().exactOptional(),
}));
/** A section that was created once for an execution. */
export type MadeSection = Readonly<z.infer<ReturnType<typeof MadeSectionSchema>>>;

export const ExecutionLogSchema = lazyObject(() => ({
  steps: z.array(StepRecordSchema()).readonly(),
  /**
   * Compactions of the history in this execution, oldest first. The removed messages are not lost.
   */
  compactions: z.array(HistoryChangeSchema()).readonly(),
  signals: z.array(StopSignalSchema()).readonly(),
  errors: z.array(ErrorRecordSchema()).readonly(),
  /** The typed result, once the model has given a valid one. */
  output: JsonValueSchema().optional(),
  /**
   * How the result was parsed, to check it against the schema of its role in a later process: the
   * hash of the schema, and the result before parsing if it differs.
   */
  outputParse: z
    .strictObject({ schemaHash: z.string(), written: JsonValueSchema().exactOptional() })
    .exactOptional(),
  /**
   * True once the task is in the history or was dropped. A refused task, or one whose hooks failed,
   * is not in the history.
   */
  isTaskHandled: z.boolean(),
  /** Consecutive replies with neither text nor calls. */
  uselessReplies: CountSchema(),
  /** Consecutive requests that the model refused as too long. */
  overflows: CountSchema(),
  /** Failed tool calls, counted against the error budget. */
  failures: FailureCountsSchema(),
  /** Times that a stop hook made the agent continue. */
  vetoes: CountSchema(),
  /**
   * Text replies given while waiting for background subagents. They do not count as a missing typed
   * result. Absent for zero.
   */
  waits: CountSchema().exactOptional(),
  /** Delegations that tools queued, in order. They run before the next model call. */
  subtasks: z.array(SubtaskSchema()).readonly(),
  /** Background subagents whose results are not in the history yet, in the order of their start. */
  background: z.array(AgentIdSchema()).readonly(),
  /** True while the agent has answered and waits for its background subagents. */
  isAwaiting: z.boolean(),
  /** Sections created for this execution. Absent before the first. */
  sections: z.array(MadeSectionSchema()).readonly().exactOptional(),
  /**
   * The last reasons of each fired part of `allOf`, by its position: `0.1` is the second part of
   * the first condition.
   */
  fired: z.record(z.string(), z.array(StopReasonSchema()).readonly()).readonly().exactOptional(),
}));
/** The steps and decisions of an execution. */
export type ExecutionLog = Readonly<z.infer<ReturnType<typeof ExecutionLogSchema>>>;
export type OutputParse = NonNullable<ExecutionLog["outputParse"]>;
export type FiredParts = NonNullable<ExecutionLog["fired"]>;

/** The usage and times of one execution. */
export const ExecutionTelemetrySchema = lazyObject(() => ({
  usage: UsageSchema(),
  /** `undefined` before the start. */
  startedAtMs: z.number().optional(),
  endedAtMs: z.number().optional(),
  /**
   * Milliseconds for which the account's clock was paused before the start. `undefined` for zero.
   */
  pausedBeforeMs: z.number().nonnegative().optional(),
  /** Time spent waiting for a lease. */
  budgetWaitMs: z.number(),
}));

const waitingCall = lazySchema(() => ({
  callId: CallIdSchema(),
  /** The arguments before parsing, as JSON, after hooks and coercion. */
  argumentsText: z.string(),
}));
export const DeferralSchema = lazyUnion("type", () => [
  z.strictObject({
    type: z.literal("question"),
    ...waitingCall(),
    /** The question, which contains the parsed arguments. */
    question: QuestionSchema(),
    /** Hash of the call as the model wrote it, before hooks. */
    callHash: z.string(),
    /** Hash of the JSON Schema that parsed the arguments. */
    schemaHash: z.string(),
    /**
     * Hash of a parsed value that is not JSON. Absent for JSON, and for values that cannot be
     * hashed.
     */
    fingerprint: z.string().exactOptional(),
    /**
     * True if the paused run was passed in unsigned, and the tool's schema does not produce the
     * stored value from the arguments in the model's message. Such a call does not run even if it
     * is approved.
     */
    isUnverified: z.literal(true).exactOptional(),
  }),
  z.strictObject({
    type: z.literal("subagent"),
    ...waitingCall(),
    childId: AgentIdSchema(),
    /** The parsed arguments. Absent if they equal those before parsing. */
    parsedArguments: JsonValueSchema().exactOptional(),
    /** Subtasks that the call had queued before. Absent for an empty list. */
    subtasks: z.array(SpawnRequestSchema()).readonly().exactOptional(),
    /** Background subagents that the call had started. Absent for an empty list. */
    startedAgentIds: z.array(AgentIdSchema()).readonly().exactOptional(),
  }),
]);
/** A call without a result, because a question about it is open or its subagent is paused. */
export type Deferral = Readonly<z.infer<ReturnType<typeof DeferralSchema>>>;

export const OpenStepSchema = lazyObject(() => ({
  stepId: StepIdSchema(),
  /** The number of the step in its execution, counted from 1. */
  number: z.int().positive(),
  startedAtMs: z.number(),
  /** The context at the start of the step. */
  context: StepContextSchema(),
  /** Number of messages in the request. `context` lists them. */
  messageCount: CountSchema(),
  /** Tools of the role that were hidden from the model. */
  hiddenTools: z.array(z.strictObject({ toolName: z.string(), filter: z.string() })).readonly(),
  /** `undefined` until the model has replied. */
  reply: z
    .strictObject({ message: AssistantMessageSchema(), finishReason: FinishReasonSchema() })
    .optional(),
  /** Results of the calls that have ended, in call order. */
  executions: z.array(ToolExecutionSchema()).readonly(),
  /** Calls that wait for an answer from outside or for a paused subagent, in call order. */
  deferrals: z.array(DeferralSchema()).readonly(),
  /**
   * The signal of the limit that refused a call. Raised once all calls of the step have results.
   */
  limit: StopSignalSchema().optional(),
  /**
   * True if evaluate accepted the calls and a pause was requested before they began. Absent
   * otherwise.
   */
  isEvaluated: z.literal(true).exactOptional(),
  /** True once the results are in the history. */
  hasAppliedResults: z.boolean(),
  /** Set if the request announced that no step can follow. */
  lastStep: z.strictObject({ accountPath: z.string(), maximum: CountSchema() }).optional(),
  usage: UsageSchema(),
  timing: StepTimingSchema(),
  /**
   * The error that ended the step early. Transient: absent from the state of a paused or ended
   * agent.
   */
  error: ErrorRecordSchema().optional(),
}));
/** The open step. It is replaced by its record when it completes. */
export type OpenStep = Readonly<z.infer<ReturnType<typeof OpenStepSchema>>>;

/** A call with an open question. */
export type QuestionDeferral = Extract<Deferral, { readonly type: "question" }>;

/** The model's reply in a step. */
export interface StepReply {
  /** The text of the reply, with its tool calls. */
  readonly message: AssistantMessage;
  /** The reason for which the reply ended. */
  readonly finishReason: FinishReason;
}

interface StateParts {
  readonly conversation: Conversation;
  readonly log: ExecutionLog;
  readonly telemetry: z.infer<ReturnType<typeof ExecutionTelemetrySchema>>;
}

/** The state before the execution begins. */
export interface PendingState extends StateParts {
  readonly status: "pending";
  readonly step?: undefined;
}
export interface RunningState extends StateParts {
  readonly status: "running";
  readonly executionId: ExecutionId;
  readonly step?: OpenStep | undefined;
}
/** The state of a paused execution. Another process may resume it. */
export interface PausedState extends StateParts {
  readonly status: "paused";
  readonly executionId: ExecutionId;
  readonly reason: StopReason;
  readonly step?: OpenStep | undefined;
}
export interface EndedState extends StateParts {
  readonly status: TerminalStatus;
  readonly executionId: ExecutionId;
  readonly reason: StopReason;
  readonly step?: undefined;
}
export type AgentState = PendingState | RunningState | PausedState | EndedState;
/** A state in which the loop leaves an execution. */
export type SettledState = PausedState | EndedState;

/** The prefix of a history that has not been measured yet. */
export const NO_PREFIX: MeasuredPrefix = Object.freeze({ messageCount: 0, tokens: 0 });

const EMPTY_LOG: ExecutionLog = deepFreeze({
  steps: [],
  compactions: [],
  signals: [],
  errors: [],
  output: undefined,
  isTaskHandled: false,
  uselessReplies: 0,
  overflows: 0,
  failures: NO_FAILURES,
  vetoes: 0,
  subtasks: [],
  background: [],
  isAwaiting: false,
});
const UNSTARTED = deepFreeze<StateParts["telemetry"]>({
  usage: NO_USAGE,
  startedAtMs: undefined,
  endedAtMs: undefined,
  budgetWaitMs: 0,
});

const NONE: readonly never[] = Object.freeze([]);

/**
 * Returns the first state of an execution. Untagged messages get their tags when the execution
 * starts. Phase prepare adds the task.
 */
export function createPendingState(
  opening: Pick<Conversation, "messages" | "prefix"> & Partial<TaggedHistory>,
): PendingState {
  const { messages, prefix, tags = NONE, dropped = NONE, added = 0 } = opening;
  const conversation = { messages, prefix, tags, dropped, added };
  return freezeInTests({ status: "pending", conversation, log: EMPTY_LOG, telemetry: UNSTARTED });
}

/** True if the model ended the reply by itself, so that its text is complete. */
export function isWholeReply({ reply }: Partial<Pick<OpenStep, "reply">>): boolean {
  return reply?.finishReason === "tool_calls" || reply?.finishReason === "stop";
}

/** Returns the open step. Throws `invalid_state` if no step is open. */
export function getOpenStep(state: AgentState): OpenStep {
  const { step } = state;
  if (step !== undefined) return step;
  throw new EspalierError({
    code: "invalid_state",
    message: `Cannot read the open step: the ${state.status} execution has none. Read it after openStep and before recordStep.`,
    data: { status: state.status },
  });
}

/**
 * True if the request of the open step was refused as too long, the history has not been shortened
 * since, and no stop was requested. `decide` then shortens the history.
 */
export function isRequestTooLong({ log: { overflows, signals }, step }: AgentState): boolean {
  return overflows > 0 && signals.length === 0 && step?.error !== undefined;
}

/** True while an open step has no reply yet and its first request was refused as too long. */
export function isRetryAfterOverflow(state: AgentState): boolean {
  const { step, log } = state;
  return step !== undefined && step.reply === undefined && log.overflows > 0;
}

/**
 * True if calls of the open step are deferred, or subtasks are queued. Only then may a subagent of
 * theirs be paused.
 */
export function hasDeferredWork({ step, log }: AgentState): boolean {
  return (step !== undefined && step.deferrals.length > 0) || log.subtasks.length > 0;
}

/** True while there is an open step with a reply. */
export function hasReply(state: AgentState): boolean {
  return state.step?.reply !== undefined;
}

/**
 * True for a reply without text, calls or refusal. A paused reply only needs parts, which the next
 * request sends back.
 */
export function isUseless({ message, finishReason }: StepReply): boolean {
  const { text, toolCalls, refusal, parts } = message;
  if (finishReason === "paused" && parts !== undefined) return false;
  return toolCalls.length === 0 && refusal === undefined && text.trim() === "";
}

/** Returns the position of the open step, or of the next one. */
export function getStepPosition(
  { identity: { executionId } }: { readonly identity: AgentIdentity },
  state: AgentState,
): EffectPosition {
  const stepNumber = state.log.steps.length + 1;
  const stepId = state.step?.stepId ?? createStepId(executionId, stepNumber);
  return isRetryAfterOverflow(state)
    ? { stepId, stepNumber, isStepCounted: true }
    : { stepId, stepNumber };
}

/** Returns the position for an event about the state: the open step, or the last completed one. */
export function getEventPosition(state: AgentState): EventPosition {
  const step = state.step ?? state.log.steps.at(-1);
  return step === undefined ? {} : { stepId: step.stepId };
}

/** Returns the calls of the open step's reply that have no result yet, in call order. */
export function getPendingCalls(state: AgentState): AssistantMessage["toolCalls"] {
  const { step } = state;
  if (step?.reply === undefined) return NONE;
  const { toolCalls } = step.reply.message;
  if (step.executions.length === 0) return toolCalls;
  if (step.executions.length === toolCalls.length) return NONE;
  const ended = new Set(step.executions.map((execution) => execution.call.callId));
  return toolCalls.filter((call) => !ended.has(call.callId));
}

/**
 * True if every call of the open step has its result, and the results are not in the history yet.
 */
export function hasAllResults(state: AgentState): boolean {
  if (state.status !== "running" || state.step?.reply === undefined) return false;
  const { reply, executions, hasAppliedResults } = state.step;
  const { length } = reply.message.toolCalls;
  return length > 0 && executions.length === length && !hasAppliedResults;
}

/** Returns the questions that the agent itself waits for, in call order. */
export function findAskedQuestions(state: AgentState): readonly Question[] {
  const deferrals = state.step?.deferrals ?? NONE;
  if (deferrals.length === 0) return NONE;
  return deferrals.flatMap((deferral) => (deferral.type === "question" ? [deferral.question] : []));
}

/** Returns the paused subagents that the agent waits for. */
export function getPausedChildren(state: AgentState): readonly AgentId[] {
  const deferrals = state.step?.deferrals ?? NONE;
  if (deferrals.length === 0 && state.log.subtasks.length === 0) return NONE;
  const delegated = deferrals.flatMap((deferral) =>
    deferral.type === "subagent" ? [deferral.childId] : [],
  );
  return [...delegated, ...state.log.subtasks.flatMap(({ childId }) => childId ?? [])];
}

/**
 * Returns the background subagents whose results are not in the history yet, including those that
 * calls of the open step started.
 */
export function getBackgroundChildren(state: AgentState): readonly AgentId[] {
  const { background } = state.log;
  const { step } = state;
  if (step === undefined || step.hasAppliedResults) return background;
  const started = [...step.executions, ...step.deferrals].flatMap((call) =>
    "startedAgentIds" in call ? (call.startedAgentIds ?? NONE) : NONE,
  );
  const reported = new Set(step.executions.flatMap(({ reportedAgentIds: ids }) => ids ?? NONE));
  return started.length + reported.size === 0
    ? background
    : [...background, ...started].filter((id) => !reported.has(id));
}

/**
 * Returns the last text that the model wrote in this execution, including the open step, or an
 * empty text. The texts of a turn that the provider paused are joined.
 */
export function getLastText(state: AgentState): string {
  const { steps } = state.log;
  const open = state.step?.reply?.message.text ?? "";
  const last = open === "" ? steps.findLastIndex((step) => step.io.text !== "") : steps.length;
  let text = open === "" ? (steps[last]?.io.text ?? "") : open;
  for (let at = last - 1; hasPausedTurn(steps[at]); at -= 1)
    text = `${steps[at]?.io.text ?? ""}${text}`;
  return text;
}

/** True for a step whose reply is continued by the next step. A reply with calls ends its turn. */
function hasPausedTurn(step: StepRecord | undefined): boolean {
  return step?.io.finishReason === "paused" && step.tools.calls.length === 0;
}
