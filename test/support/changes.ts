// Changes and states of one agent for tests: each change once, each state of the life cycle once.

import { pendingState, type AgentState, type StepReply } from "../../src/agent/agent-state.ts";
import { transition, type Change } from "../../src/agent/transition.ts";
import { CallIdSchema, ExecutionIdSchema, stepIdOf } from "../../src/protocol/ids.ts";
import type { Message, ToolCall } from "../../src/protocol/message.ts";
import type { TerminalStatus } from "../../src/protocol/stop.ts";
import type { ToolExecution } from "../../src/protocol/tool-outcome.ts";
import { callUsage } from "./ledger-scene.ts";

export const EXECUTION_ID = ExecutionIdSchema.parse("execution_1");
export const STEP_ID = stepIdOf(EXECUTION_ID, 1);

/** The history that an agent starts with. */
export function opening(): readonly Message[] {
  return [
    { role: "system", text: "Work.", origin: "instructions" },
    { role: "user", text: "Do it.", origin: "task" },
  ];
}

export function toolCall(id: string, toolName = "search"): ToolCall {
  return { callId: CallIdSchema.parse(id), toolName, argumentsText: "{}" };
}

export function replyOf(text: string, calls: readonly ToolCall[] = []): StepReply {
  const finishReason = calls.length > 0 ? "tool_calls" : "stop";
  return { message: { role: "assistant", text, toolCalls: calls }, finishReason };
}

export function executionOf(call: ToolCall): ToolExecution {
  return {
    call,
    type: "succeeded",
    text: `result of ${call.callId}`,
    startedAtMs: 3,
    endedAtMs: 4,
  };
}

/** One of each change. Made anew each time, so that nothing is shared. */
export function changes(): {
  readonly [T in Change["type"]]: Extract<Change, { readonly type: T }>;
} {
  const calls = [toolCall("call_1"), toolCall("call_2", "read")];
  const reason = { code: "tool_called", message: "Enough.", data: { step: 1 } };
  return {
    markStarted: { type: "markStarted", executionId: EXECUTION_ID, atMs: 1 },
    openStep: { type: "openStep", stepId: STEP_ID, number: 1, atMs: 2 },
    addUsage: { type: "addUsage", usage: callUsage(10, 5, { costMicroUsd: 7 }) },
    recordReply: {
      type: "recordReply",
      reply: replyOf("Let me see.", calls),
      prefix: { messageCount: 3, tokens: 15 },
    },
    discardReply: { type: "discardReply", reply: replyOf("") },
    recordExecutions: { type: "recordExecutions", executions: calls.map(executionOf) },
    recordOutput: { type: "recordOutput", output: { answer: [42] } },
    recordStep: { type: "recordStep", atMs: 5 },
    addMessage: { type: "addMessage", message: { role: "user", text: "Go on.", origin: "notice" } },
    addSignal: { type: "addSignal", signal: { source: "stop_condition", reason } },
    addTime: { type: "addTime", waitedMs: 9 },
    failWith: {
      type: "failWith",
      error: { code: "model_timeout", message: "Too slow.", data: { attempts: 3 } },
    },
    end: { type: "end", status: "stopped", reason, atMs: 6 },
    nextExecution: {
      type: "nextExecution",
      message: { role: "user", text: "And now?", origin: "task" },
    },
  };
}

/** Moves a state by several changes. */
export function after(state: AgentState, ...list: readonly Change[]): AgentState {
  return list.reduce((current, change) => transition(current, change), state);
}

/** A state in each part of the life cycle. */
export function states() {
  const {
    markStarted,
    openStep,
    addUsage,
    recordReply,
    recordExecutions,
    recordStep,
    addSignal,
    end,
  } = changes();
  const pending: AgentState = pendingState({
    messages: opening(),
    prefix: { messageCount: 0, tokens: 0 },
  });
  const running = after(pending, markStarted);
  const open = after(running, openStep);
  const replied = after(open, addUsage, recordReply);
  const answered = after(replied, recordExecutions);
  const stepped = after(answered, recordStep, addSignal);
  const ended = (status: TerminalStatus): AgentState => after(stepped, { ...end, status });
  return {
    pending,
    running,
    open,
    replied,
    answered,
    stepped,
    completed: ended("completed"),
    stopped: ended("stopped"),
    failed: ended("failed"),
    cancelled: ended("cancelled"),
  };
}
