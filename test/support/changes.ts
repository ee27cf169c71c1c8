// Changes and states of one agent for tests: each change once, each state of the life cycle once.

import {
  createPendingState,
  type AgentState,
  type Conversation,
  type Deferral,
  type FiredParts,
  type MadeSection,
  type SettledState,
  type StepReply,
  type Subtask,
} from "../../src/agent/agent-state.ts";
import { sha256 } from "../../src/kernel/crypto.ts";
import * as transitions from "../../src/agent/transition.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  createQuestionId,
  createStepId,
  type AgentId,
} from "../../src/protocol/ids.ts";
import type { Message, ToolCall } from "../../src/protocol/message.ts";
import { computeArgumentsHash, computeCallHash } from "../../src/protocol/question.ts";
import type { StepTiming } from "../../src/protocol/step-timing.ts";
import type {
  ErrorRecord,
  StopReason,
  StopSignal,
  TerminalStatus,
} from "../../src/protocol/stop.ts";
import type { ToolExecution } from "../../src/protocol/tool-outcome.ts";
import type { Usage } from "../../src/protocol/usage.ts";
import { callUsage } from "./ledger-fixture.ts";
import { contextOf, PARTS, TIMING } from "./step-context.ts";

export const AGENT_ID = AgentIdSchema().parse("agent_1");
export const EXECUTION_ID = ExecutionIdSchema().parse("execution_1");
export const STEP_ID = createStepId(EXECUTION_ID, 1);

/** The history that an agent starts with. */
export function opening(): readonly Message[] {
  return [
    { role: "system", text: "Work.", origin: "instructions" },
    { role: "user", text: "Do it.", origin: "task" },
  ];
}

export function toolCall(id: string, toolName = "search"): ToolCall {
  return { callId: CallIdSchema().parse(id), toolName, argumentsText: "{}" };
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
    callHash: computeCallHash(call),
    schemaHash: "0123456789abcdef",
    question: {
      questionId: createQuestionId(stepId, index),
      kind: "approval",
      agentId: AGENT_ID,
      agentPath: "lead",
      callId,
      toolName,
      arguments: {},
      argumentsHash: computeArgumentsHash(toolName, {}),
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
  const question = {
    ...deferral.question,
    writtenArguments: { amount: 1 },
    unparsed: true,
  } as const;
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
  const childId = AgentIdSchema().parse(`agent_of_${callId}`);
  return { type: "subagent", callId, argumentsText, parsedArguments: 1, childId };
}

/** The two calls that the model makes in `changes().recordReply`. */
export function twoCalls(): readonly [ToolCall, ToolCall] {
  return [toolCall("call_1"), toolCall("call_2", "read")];
}

function notice(text: string): Message {
  return { role: "user", text, origin: "notice" };
}

/** The arguments of a change beside the state, by the type of the change. */
interface ChangeArguments {
  markStarted: Parameters<typeof transitions.markStarted>[1];
  brief: { readonly messages: readonly Message[] };
  openStep: Parameters<typeof transitions.openStep>[1];
  addUsage: { readonly usage: Usage; readonly timing?: StepTiming };
  recordReply: { readonly reply: StepReply; readonly prefix: Conversation["prefix"] };
  discardReply: { readonly reply: StepReply };
  recordOverflow: { readonly error: ErrorRecord };
  recordEvaluation: unknown;
  recordExecutions: Parameters<typeof transitions.recordExecutions>[1];
  applyToolResults: unknown;
  recordOutput: Parameters<typeof transitions.recordOutput>[1];
  recordStep: Parameters<typeof transitions.recordStep>[1];
  recordVeto: { readonly message: Message };
  recordWait: unknown;
  recordSubtasks: { readonly subtasks: readonly Subtask[] };
  addMessages: {
    readonly messages: readonly Message[];
    readonly reportedAgentIds?: readonly AgentId[];
  };
  awaitSubagents: unknown;
  dropSubagents: { readonly unread: readonly AgentId[] };
  compact: { readonly messages: readonly Message[]; readonly usage?: Usage };
  recordSections: {
    readonly sections: readonly MadeSection[];
    readonly messages: readonly Message[];
  };
  recordFired: { readonly fired: FiredParts };
  addSignal: { readonly signal: StopSignal };
  addTime: { readonly waitedMs: number };
  failWith: { readonly error: ErrorRecord };
  pause: { readonly reason: StopReason };
  resume: unknown;
  end: Parameters<typeof transitions.endExecution>[1];
  nextExecution: Parameters<typeof transitions.continueExecution>[1];
}

/** A change of a state, as a value: a function of transition.ts with its arguments. */
export type Change = {
  [T in keyof ChangeArguments]: { readonly type: T } & ChangeArguments[T];
}[keyof ChangeArguments];

/** Moves a state by the function of a change. */
export function transition(state: AgentState, change: Change): AgentState {
  switch (change.type) {
    case "markStarted":
      return transitions.markStarted(state, change);
    case "brief":
      return transitions.recordTask(state, change.messages);
    case "openStep":
      return transitions.openStep(state, withoutType(change));
    case "addUsage":
      return transitions.recordUsage(state, change.usage, change.timing);
    case "recordReply":
      return transitions.recordReply(state, change.reply, change.prefix);
    case "discardReply":
      return transitions.discardReply(state, change.reply);
    case "recordOverflow":
      return transitions.recordOverflow(state, change.error);
    case "recordEvaluation":
      return transitions.recordEvaluation(state);
    case "recordExecutions":
      return transitions.recordExecutions(state, change);
    case "applyToolResults":
      return transitions.recordResults(state);
    case "recordOutput":
      return transitions.recordOutput(state, change);
    case "recordStep":
      return transitions.recordStep(state, change);
    case "recordVeto":
      return transitions.recordVeto(state, change.message);
    case "recordWait":
      return transitions.recordWait(state);
    case "recordSubtasks":
      return transitions.recordSubtasks(state, change.subtasks);
    case "addMessages":
      return transitions.addMessages(state, change.messages, change.reportedAgentIds);
    case "awaitSubagents":
      return transitions.awaitSubagents(state);
    case "dropSubagents":
      return transitions.dropSubagents(state, change.unread);
    case "compact":
      return transitions.replaceHistory(state, change.messages, change.usage);
    case "recordSections":
      return transitions.recordSections(state, change.sections, change.messages);
    case "recordFired":
      return transitions.recordFired(state, change.fired);
    case "addSignal":
      return transitions.recordSignal(state, change.signal);
    case "addTime":
      return transitions.addWaitedTime(state, change.waitedMs);
    case "failWith":
      return transitions.recordError(state, change.error);
    case "pause":
      return transitions.pauseExecution(state, change.reason);
    case "resume":
      return transitions.resumeExecution(state);
    case "end":
      return transitions.endExecution(state, change);
    case "nextExecution":
      return transitions.continueExecution(state, change);
  }
}

function withoutType<T extends { readonly type: string }>({ type: _type, ...rest }: T) {
  return rest;
}

/** The function of a change, as an error names it. */
export function functionOf({ type }: Change): string {
  const renamed: Partial<Record<Change["type"], string>> = {
    brief: "recordTask",
    addUsage: "recordUsage",
    applyToolResults: "recordResults",
    compact: "replaceHistory",
    addSignal: "recordSignal",
    addTime: "addWaitedTime",
    failWith: "recordError",
    pause: "pauseExecution",
    resume: "resumeExecution",
    end: "endExecution",
    nextExecution: "continueExecution",
  };
  return renamed[type] ?? type;
}

/** Returns one change of each kind. They are created at each call, so that tests share nothing. */
export function changes(): {
  readonly [T in Change["type"]]: Extract<Change, { readonly type: T }>;
} {
  const calls = twoCalls();
  const reason = { code: "tool_called", message: "Enough.", data: { step: 1 } };
  return {
    markStarted: { type: "markStarted", executionId: EXECUTION_ID, atMs: 1, pausedMs: 3 },
    brief: { type: "brief", messages: [{ role: "user", text: "Be brief.", origin: "task" }] },
    openStep: {
      type: "openStep",
      stepId: STEP_ID,
      number: 1,
      context: contextOf(1, { shown: PARTS }),
      messageCount: opening().length,
      hiddenTools: [{ toolName: "write", filter: "read-only" }],
      lastStep: { accountPath: "lead", maximum: 3 },
      startedAtMs: 2,
    },
    addUsage: {
      type: "addUsage",
      usage: callUsage(10, 5, { costUsd: 0.000007 }),
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
    recordEvaluation: { type: "recordEvaluation" },
    recordExecutions: {
      type: "recordExecutions",
      executions: calls.map(executionOf),
      deferrals: [],
    },
    applyToolResults: { type: "applyToolResults" },
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
          childId: AgentIdSchema().parse("agent_2"),
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
        code: "input_required",
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
  const { recordExecutions, applyToolResults, recordStep, addSignal, end } = all;
  const [first, second] = twoCalls();
  const pending: AgentState = createPendingState({
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
  const applied = after(answered, applyToolResults);
  const stepped = after(applied, recordStep, addSignal);
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
    applied,
    stepped,
    rested: after(running, pause),
    waiting: after(deferred, pause),
    completed: ended("completed"),
    stopped: ended("stopped"),
    failed: ended("failed"),
    cancelled: ended("cancelled"),
  };
}
