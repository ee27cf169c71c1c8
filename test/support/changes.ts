// Changes and states of one agent for tests: each change once, each state of the life cycle once.

import {
  pendingState,
  type AgentState,
  type Conversation,
  type Deferral,
  type SettledState,
  type StepReply,
} from "../../src/agent/agent-state.ts";
import { sha256 } from "../../src/kernel/crypto.ts";
import { transition, type Change } from "../../src/agent/transition.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  questionIdOf,
  stepIdOf,
} from "../../src/protocol/ids.ts";
import type { Message, ToolCall } from "../../src/protocol/message.ts";
import { argumentsHashOf, callHashOf } from "../../src/protocol/question.ts";
import type { TerminalStatus } from "../../src/protocol/stop.ts";
import type { ToolExecution } from "../../src/protocol/tool-outcome.ts";
import { callUsage } from "./ledger-fixture.ts";
import { contextOf, PARTS, TIMING } from "./step-context.ts";

export const AGENT_ID = AgentIdSchema.parse("agent_1");
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

/** The call waits until it is approved. */
export function questionAbout(call: ToolCall, stepId = STEP_ID, index = 0): Deferral {
  const { callId, toolName, argumentsText } = call;
  return {
    type: "question",
    callId,
    argumentsText,
    callHash: callHashOf(call),
    schemaHash: "0123456789abcdef",
    question: {
      questionId: questionIdOf(stepId, index),
      kind: "approval",
      agentId: AGENT_ID,
      agentPath: "lead",
      callId,
      toolName,
      arguments: {},
      argumentsHash: argumentsHashOf(toolName, {}),
      reason: "It writes.",
      askedAtMs: 4,
      deadlineAtMs: null,
    },
  };
}

/** A question with every key that one may have. */
export function unparsedQuestion(...about: Parameters<typeof questionAbout>): Deferral {
  const deferral = questionAbout(...about);
  if (deferral.type !== "question") throw new Error("It is a question.");
  const question = { ...deferral.question, writtenArguments: 1, unparsed: true } as const;
  return {
    ...deferral,
    question,
    callHash: "abc",
    schemaHash: "def",
    fingerprint: "abc",
    isUnverified: true,
  };
}

/** The call waits until the subagent that works on it continues. */
export function subagentOn({
  callId,
  argumentsText,
}: ToolCall): Extract<Deferral, { readonly type: "subagent" }> {
  const childId = AgentIdSchema.parse(`agent_of_${callId}`);
  return { type: "subagent", callId, argumentsText, parsedArguments: 1, childId };
}

/** The two calls that the model makes in `changes().recordReply`. */
export function twoCalls(): readonly [ToolCall, ToolCall] {
  return [toolCall("call_1"), toolCall("call_2", "read")];
}

function notice(text: string): Message {
  return { role: "user", text, origin: "notice" };
}

/** One of each change. Made anew each time, so that nothing is shared. */
export function changes(): {
  readonly [T in Change["type"]]: Extract<Change, { readonly type: T }>;
} {
  const calls = twoCalls();
  const reason = { code: "tool_called", message: "Enough.", data: { step: 1 } };
  return {
    markStarted: { type: "markStarted", executionId: EXECUTION_ID, atMs: 1 },
    brief: { type: "brief", messages: [{ role: "user", text: "Be brief.", origin: "task" }] },
    openStep: {
      type: "openStep",
      stepId: STEP_ID,
      number: 1,
      context: contextOf(1, { shown: PARTS }),
      messageCount: opening().length,
      hiddenTools: [{ toolName: "write", filter: "read-only" }],
      lastStep: { accountPath: "lead", maximum: 3 },
      atMs: 2,
    },
    addUsage: {
      type: "addUsage",
      usage: callUsage(10, 5, { costMicroUsd: 7 }),
      timing: TIMING,
    },
    recordReply: {
      type: "recordReply",
      reply: replyOf("Let me see.", calls),
      prefix: { messageCount: 3, tokens: 15 },
    },
    discardReply: { type: "discardReply", reply: replyOf("") },
    recordOverflow: {
      type: "recordOverflow",
      error: { code: "model_context_overflow", message: "Too long.", data: { tokens: 9 } },
    },
    recordExecutions: {
      type: "recordExecutions",
      executions: calls.map(executionOf),
      deferrals: [],
    },
    incorporate: { type: "incorporate" },
    recordOutput: {
      type: "recordOutput",
      output: { answer: [42] },
      outputParse: { schemaHash: sha256("{}"), written: { answer: ["42"] } },
    },
    recordStep: { type: "recordStep", atMs: 5, elapsedMs: 3 },
    recordVeto: { type: "recordVeto", message: notice("Not yet.") },
    recordWait: { type: "recordWait" },
    recordSubtasks: {
      type: "recordSubtasks",
      subtasks: [
        {
          request: { role: "helper", task: "Look." },
          childId: AgentIdSchema.parse("agent_2"),
        },
        { request: { role: "helper", task: "Look there." }, text: "Nothing." },
      ],
    },
    addMessages: { type: "addMessages", messages: [notice("Go on."), notice("And on.")] },
    awaitSubagents: { type: "awaitSubagents" },
    dropSubagents: { type: "dropSubagents", unread: [] },
    recordSections: {
      type: "recordSections",
      sections: [{ name: "memory", text: "Paris." }, { name: "day" }],
      messages: [notice("It is Monday.")],
    },
    compact: { type: "compact", messages: opening().slice(0, 1) },
    recordFired: { type: "recordFired", fired: { "0.1": [reason] } },
    addSignal: { type: "addSignal", signal: { source: "stop_condition", reason } },
    addTime: { type: "addTime", waitedMs: 9 },
    failWith: {
      type: "failWith",
      error: { code: "model_timeout", message: "Too slow.", data: { attempts: 3 } },
    },
    pause: {
      type: "pause",
      reason: {
        code: "answers_needed",
        message: "Somebody has to answer.",
        data: { questions: 1 },
      },
    },
    resume: { type: "resume" },
    end: { type: "end", status: "stopped", reason, atMs: 6 },
    nextExecution: {
      type: "nextExecution",
      executionId: EXECUTION_ID,
      instructions: "Work.",
      messages: [{ role: "user", text: "And now?", origin: "task" }],
    },
  };
}

/** The conversation with messages added in the step, or after it; 0: before the first. */
export function added(
  conversation: Conversation,
  messages: readonly Message[],
  stepNumber: number,
): Conversation {
  const { added: count } = conversation;
  const tags = messages.map((_message, index) => ({
    executionId: EXECUTION_ID,
    stepNumber,
    number: count + index + 1,
  }));
  return {
    ...conversation,
    messages: [...conversation.messages, ...messages],
    tags: [...conversation.tags, ...tags],
    added: count + messages.length,
  };
}

/** Moves a state by several changes. */
export function after(state: AgentState, ...list: readonly Change[]): AgentState {
  return list.reduce((current, change) => transition(current, change), state);
}

/** The state, which the test knows to be at rest. */
export function settledState(state: AgentState): SettledState {
  if (state.status === "pending" || state.status === "running")
    throw new Error(`The state is ${state.status}.`);
  return state;
}

/** A state in each part of the life cycle. */
export function states() {
  const all = changes();
  const { markStarted, brief, openStep, addUsage, recordReply, discardReply, pause } = all;
  const { recordExecutions, incorporate, recordStep, addSignal, end } = all;
  const [first, second] = twoCalls();
  const pending: AgentState = pendingState({
    messages: opening(),
    prefix: { messageCount: 0, tokens: 0 },
  });
  const running = after(pending, markStarted);
  const open = after(running, openStep);
  const replied = after(open, addUsage, recordReply);
  const deferred = after(replied, {
    type: "recordExecutions",
    executions: [executionOf(second)],
    deferrals: [questionAbout(first)],
  });
  const answered = after(replied, recordExecutions);
  const incorporated = after(answered, incorporate);
  const stepped = after(incorporated, recordStep, addSignal);
  const ended = (status: TerminalStatus): AgentState => after(stepped, { ...end, status });
  return {
    pending,
    running,
    briefed: after(running, brief),
    open,
    spoken: after(open, addUsage, { ...recordReply, reply: replyOf("This is it.") }),
    discarded: after(open, addUsage, discardReply),
    replied,
    deferred,
    answered,
    incorporated,
    stepped,
    rested: after(running, pause),
    waiting: after(deferred, pause),
    completed: ended("completed"),
    stopped: ended("stopped"),
    failed: ended("failed"),
    cancelled: ended("cancelled"),
  };
}
