// The state of one agent: a frozen value, moved by transition() alone. Configuration (the role) is not in it.

import { EspalierError } from "../kernel/error.ts";
import { deepFreeze, type JsonValue } from "../kernel/json.ts";
import type { MeasuredPrefix } from "../model/count-tokens.ts";
import type { FinishReason } from "../model/model.ts";
import type { ExecutionId, StepId } from "../protocol/ids.ts";
import type { AssistantMessage, Message } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { NO_USAGE, type Usage } from "../protocol/usage.ts";

/** What was said. Kept from execution to execution. */
export interface Conversation {
  readonly messages: readonly Message[];
  /** The part whose length the provider has told us. */
  readonly prefix: MeasuredPrefix;
}

/** What was done and decided in this execution. */
export interface RunLog {
  readonly steps: readonly StepRecord[];
  readonly signals: readonly StopSignal[];
  readonly errors: readonly ErrorRecord[];
  /** The typed result, once the model has given one that fits. */
  readonly output: JsonValue | undefined;
  /** Replies in a row with neither text nor calls. */
  readonly emptyReplies: number;
}

/** What this execution consumed. */
export interface RunTelemetry {
  readonly usage: Usage;
  /** Undefined: not started, and the zero usage says nothing yet. */
  readonly startedAtMs: number | undefined;
  readonly endedAtMs: number | undefined;
  /** Time spent waiting for a lease. */
  readonly waitedMs: number;
}

/** The one transient holder: what the open step has gathered so far. Gone when the step is recorded. */
export interface OpenStep {
  readonly stepId: StepId;
  readonly number: number;
  readonly messageCount: number;
  readonly startedAtMs: number;
  readonly reply: StepReply | undefined;
  readonly executions: readonly ToolExecution[];
  readonly usage: Usage;
  readonly error: ErrorRecord | undefined;
}

export interface StepReply {
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason;
}

interface Parts {
  readonly conversation: Conversation;
  readonly log: RunLog;
  readonly telemetry: RunTelemetry;
}

/** Before the first step of an execution. */
export interface PendingState extends Parts {
  readonly status: "pending";
}
export interface RunningState extends Parts {
  readonly status: "running";
  readonly executionId: ExecutionId;
  readonly step: OpenStep | undefined;
}
export interface EndedState extends Parts {
  readonly status: TerminalStatus;
  readonly executionId: ExecutionId;
  readonly reason: StopReason;
}
export type AgentState = PendingState | RunningState | EndedState;

const NOTHING_DONE: RunLog = deepFreeze({
  steps: [],
  signals: [],
  errors: [],
  output: undefined,
  emptyReplies: 0,
});
const NOT_STARTED: RunTelemetry = deepFreeze({
  usage: NO_USAGE,
  startedAtMs: undefined,
  endedAtMs: undefined,
  waitedMs: 0,
});

/** A state before anything happened. */
export function pendingState(conversation: Conversation): PendingState {
  return deepFreeze({ status: "pending", conversation, log: NOTHING_DONE, telemetry: NOT_STARTED });
}

/** The open step. Throws `invalid_state` where there is none: nothing is made up by looking (R37, R38). */
export function openStepOf(state: AgentState): OpenStep {
  if (state.status === "running" && state.step !== undefined) return state.step;
  throw new EspalierError({
    code: "invalid_state",
    message: `Expected an open step, got a ${state.status} execution without one. Read steps after openStep and before recordStep.`,
    data: { status: state.status },
  });
}

/** True while there is an open step to which the model has replied. */
export function hasReply(state: AgentState): boolean {
  return state.status === "running" && state.step?.reply !== undefined;
}

/** Calls of the open step's reply that have no result yet, in call order. */
export function pendingCallsOf(state: AgentState): AssistantMessage["toolCalls"] {
  if (state.status !== "running" || state.step?.reply === undefined) return [];
  const answered = new Set(state.step.executions.map((execution) => execution.call.callId));
  return state.step.reply.message.toolCalls.filter((call) => !answered.has(call.callId));
}

/** The last text that the model wrote in this execution, the open step included; empty if it wrote none. */
export function lastTextOf(state: AgentState): string {
  const open = state.status === "running" ? state.step?.reply?.message.text : undefined;
  if (open !== undefined && open !== "") return open;
  return state.log.steps.findLast((step) => step.io.text !== "")?.io.text ?? "";
}
