// The only way an agent's state moves. Pure and total: every change on every state gives a new frozen state or a coded error.
//
//   pending ──markStarted──▶ running ──end──▶ completed | stopped | failed | cancelled ──nextExecution──▶ pending

import { assertNever } from "../kernel/assert.ts";
import { EspalierError } from "../kernel/error.ts";
import { deepFreeze, type JsonValue } from "../kernel/json.ts";
import type { MeasuredPrefix } from "../model/count-tokens.ts";
import type { ExecutionId, StepId } from "../protocol/ids.ts";
import type { Message, ToolMessage } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { ErrorRecord, StopReason, StopSignal, TerminalStatus } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { addUsage, NO_USAGE, type Usage } from "../protocol/usage.ts";
import {
  pendingState,
  type AgentState,
  type EndedState,
  type OpenStep,
  type RunningState,
  type StepReply,
} from "./agent-state.ts";

/** What may happen to a state. */
export type Change =
  | { readonly type: "markStarted"; readonly executionId: ExecutionId; readonly atMs: number }
  | {
      readonly type: "openStep";
      readonly stepId: StepId;
      readonly number: number;
      readonly atMs: number;
    }
  | { readonly type: "addUsage"; readonly usage: Usage }
  | { readonly type: "recordReply"; readonly reply: StepReply; readonly prefix: MeasuredPrefix }
  | { readonly type: "discardReply"; readonly reply: StepReply }
  | { readonly type: "recordExecutions"; readonly executions: readonly ToolExecution[] }
  | { readonly type: "recordOutput"; readonly output: JsonValue }
  | { readonly type: "recordStep"; readonly atMs: number }
  | { readonly type: "addMessage"; readonly message: Message }
  | { readonly type: "addSignal"; readonly signal: StopSignal }
  | { readonly type: "addTime"; readonly waitedMs: number }
  | { readonly type: "failWith"; readonly error: ErrorRecord }
  | {
      readonly type: "end";
      readonly status: TerminalStatus;
      readonly reason: StopReason;
      readonly atMs: number;
    }
  | { readonly type: "nextExecution"; readonly message: Message };

/** Moves a state. Throws `illegal_transition` where the change is not allowed in the state; the given state is never changed. */
export function transition(state: AgentState, change: Change): AgentState {
  switch (state.status) {
    case "pending":
      if (change.type === "markStarted") return deepFreeze(markStarted(state, change));
      throw illegal(state, change);
    case "running":
      return deepFreeze(moveRunning(state, change));
    case "completed":
    case "stopped":
    case "failed":
    case "cancelled":
      if (change.type === "nextExecution") return nextExecution(state, change.message);
      throw illegal(state, change);
    default:
      return assertNever(state, "agent state");
  }
}

type Of<T extends Change["type"]> = Extract<Change, { readonly type: T }>;

function moveRunning(state: RunningState, change: Change): AgentState {
  switch (change.type) {
    case "openStep":
      if (state.step !== undefined) throw illegal(state, change);
      return { ...state, step: openStep(state, change) };
    case "addUsage":
      return withUsage(state, needStep(state, change), change.usage);
    case "recordReply":
      return recordReply(state, needStep(state, change), change);
    case "discardReply":
      return discardReply(state, needStep(state, change), change);
    case "recordExecutions":
      return recordExecutions(state, needStep(state, change), change);
    case "recordOutput":
      return { ...state, log: { ...state.log, output: change.output } };
    case "recordStep":
      return recordStep(state, needStep(state, change), change.atMs);
    case "addMessage":
      return withMessages(state, [change.message]);
    case "addSignal":
      return { ...state, log: { ...state.log, signals: [...state.log.signals, change.signal] } };
    case "addTime":
      return {
        ...state,
        telemetry: { ...state.telemetry, waitedMs: state.telemetry.waitedMs + change.waitedMs },
      };
    case "failWith":
      return failWith(state, change.error);
    case "end":
      if (state.step !== undefined) throw illegal(state, change);
      return end(state, change);
    case "markStarted":
    case "nextExecution":
      throw illegal(state, change);
    default:
      return assertNever(change, "change");
  }
}

function markStarted(state: AgentState, change: Of<"markStarted">): RunningState {
  const telemetry = { ...state.telemetry, startedAtMs: change.atMs };
  const { conversation, log } = state;
  return {
    status: "running",
    executionId: change.executionId,
    conversation,
    log,
    telemetry,
    step: undefined,
  };
}

function openStep(state: RunningState, change: Of<"openStep">): OpenStep {
  return {
    stepId: change.stepId,
    number: change.number,
    messageCount: state.conversation.messages.length,
    startedAtMs: change.atMs,
    reply: undefined,
    executions: [],
    usage: NO_USAGE,
    error: undefined,
  };
}

function withUsage(state: RunningState, step: OpenStep, usage: Usage): RunningState {
  return { ...state, step: { ...step, usage: addUsage(step.usage, usage) } };
}

function recordReply(state: RunningState, step: OpenStep, change: Of<"recordReply">): RunningState {
  if (step.reply !== undefined) throw illegal(state, change);
  const messages = [...state.conversation.messages, change.reply.message];
  return {
    ...state,
    conversation: { messages, prefix: change.prefix },
    log: { ...state.log, emptyReplies: 0 },
    step: { ...step, reply: change.reply },
  };
}

/** A reply that says nothing is paid for and counted, and stays out of the history. */
function discardReply(
  state: RunningState,
  step: OpenStep,
  change: Of<"discardReply">,
): RunningState {
  if (step.reply !== undefined) throw illegal(state, change);
  const log = { ...state.log, emptyReplies: state.log.emptyReplies + 1 };
  return { ...state, log, step: { ...step, reply: change.reply } };
}

function recordExecutions(
  state: RunningState,
  step: OpenStep,
  change: Of<"recordExecutions">,
): RunningState {
  const grown = withMessages(state, change.executions.map(toolMessage));
  return { ...grown, step: { ...step, executions: [...step.executions, ...change.executions] } };
}

function recordStep(state: RunningState, step: OpenStep, atMs: number): RunningState {
  const record = stepRecord(step, atMs);
  const usage = addUsage(state.telemetry.usage, record.telemetry.usage);
  return {
    ...state,
    log: { ...state.log, steps: [...state.log.steps, record] },
    telemetry: { ...state.telemetry, usage },
    step: undefined,
  };
}

function failWith(state: RunningState, error: ErrorRecord): RunningState {
  const reason: StopReason = { code: "error", message: error.message, data: { error: error.code } };
  const log = {
    ...state.log,
    errors: [...state.log.errors, error],
    signals: [...state.log.signals, { reason, source: "loop" as const }],
  };
  return { ...state, log, step: state.step === undefined ? undefined : { ...state.step, error } };
}

function end(state: RunningState, change: Of<"end">): EndedState {
  return {
    status: change.status,
    reason: change.reason,
    executionId: state.executionId,
    conversation: state.conversation,
    log: state.log,
    telemetry: { ...state.telemetry, endedAtMs: change.atMs },
  };
}

/** History stays; steps, signals, errors, counters and usage begin anew (R40, R158). */
function nextExecution(state: EndedState, message: Message): AgentState {
  const { messages, prefix } = state.conversation;
  return pendingState({ messages: [...messages, message], prefix });
}

function stepRecord(step: OpenStep, atMs: number): StepRecord {
  const { reply } = step;
  const refusal = reply?.message.refusal;
  return {
    stepId: step.stepId,
    number: step.number,
    io: {
      messageCount: step.messageCount,
      text: reply?.message.text ?? "",
      ...(refusal === undefined ? {} : { refusal }),
      finishReason: reply?.finishReason ?? "error",
    },
    tools: { calls: reply?.message.toolCalls ?? [], executions: step.executions },
    telemetry: { usage: step.usage, startedAtMs: step.startedAtMs, endedAtMs: atMs },
    ...(step.error === undefined ? {} : { error: step.error }),
  };
}

function withMessages(state: RunningState, added: readonly Message[]): RunningState {
  const { messages, prefix } = state.conversation;
  return { ...state, conversation: { messages: [...messages, ...added], prefix } };
}

function toolMessage(execution: ToolExecution): ToolMessage {
  const { callId, toolName } = execution.call;
  return { role: "tool", callId, toolName, text: execution.text };
}

function needStep(state: RunningState, change: Change): OpenStep {
  if (state.step === undefined) throw illegal(state, change);
  return state.step;
}

function illegal(state: AgentState, change: Change): EspalierError {
  const step = state.status === "running" && state.step !== undefined ? " with an open step" : "";
  return new EspalierError({
    code: "illegal_transition",
    message: `Expected a change that a ${state.status} execution${step} allows, got ${change.type}. See the table in transition.ts.`,
    data: { status: state.status, change: change.type },
  });
}
