// Expected decisions after a step, as a check of any implementation.

import { expect } from "vitest";

import { createPendingState, NO_PREFIX, type ExecutionLog } from "../../src/agent/agent-state.ts";
import type { StepFacts, decideStepOutcome } from "../../src/agent/step-outcome.ts";
import type { FinishReason } from "../../src/protocol/finish-reason.ts";
import { ExecutionIdSchema, createStepId } from "../../src/protocol/ids.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { executionOf, toolCall } from "./changes.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import { contextOf } from "./step-context.ts";

export const FACTS: StepFacts = {
  roleName: "solo",
  modelId: "scripted",
  maxOutputTokens: 8_192,
  hasOutput: false,
  describeMiss: () => ({ way: "call Finish", problems: [] }),
  hasMessages: false,
  mustAwait: false,
};

interface StepParts {
  readonly text?: string;
  readonly calls?: number;
  readonly finishReason?: FinishReason;
  readonly refusal?: string;
  readonly tool?: string;
}

export function stepWith({ text = "", calls = 0, tool = "work", ...more }: StepParts): StepRecord {
  const { finishReason = calls > 0 ? "tool_calls" : "stop", refusal } = more;
  const made = Array.from({ length: calls }, (_value, index) => toolCall(`call_${index}`, tool));
  return {
    stepId: createStepId(ExecutionIdSchema().parse("execution_1"), 1),
    number: 1,
    context: contextOf(1),
    io: { messageCount: 2, text, finishReason, ...(refusal === undefined ? {} : { refusal }) },
    tools: { calls: made, executions: made.map(executionOf) },
    telemetry: { usage: NO_USAGE, startedAtMs: 0, endedAtMs: 0, elapsedMs: 0, timing: NO_TIMING },
  };
}

export function logOf(parts: Partial<ExecutionLog>): ExecutionLog {
  return {
    ...createPendingState({ messages: [], prefix: NO_PREFIX }).log,
    isTaskHandled: true,
    ...parts,
  };
}

interface Case {
  readonly log: Partial<ExecutionLog>;
  readonly facts?: Partial<StepFacts>;
  readonly outcome: object;
}

const SIGNAL = {
  source: "caller",
  reason: { code: "stop_requested", message: "Enough.", data: {} },
} as const;
const CALLS = [stepWith({ calls: 2 })];
const ANSWER = [stepWith({ text: "done" })];
const SUBTASKS = [{ request: { role: "helper", task: "Look." } }];
const COMPLETED = stopFor("loop", "completed");
const misbehaved: unknown = expect.objectContaining({ code: "model_invalid_reply" });
const FAILED = { type: "fail", error: misbehaved };
const misfit = stepWith({ calls: 1, tool: "Finish" });
const MISFIT: StepRecord = {
  ...misfit,
  tools: {
    ...misfit.tools,
    executions: misfit.tools.executions.map((one) => ({ ...one, type: "failed" as const })),
  },
};

function stopFor(source: string, code: string, data: object = {}): object {
  const message: unknown = expect.any(String);
  const reason = { code, message, data };
  return { type: "stop", signal: { source, reason } };
}

const STOPPED = { type: "stop", signal: undefined };

/** Each outcome, and the precedence among them. */
const CASES: Readonly<Record<string, Case>> = {
  "calls ask for more": { log: { steps: CALLS }, outcome: work("tool_calls") },
  "work is listed whole": {
    log: { steps: CALLS, subtasks: SUBTASKS },
    facts: { hasMessages: true },
    outcome: work("tool_calls", "subtasks", "messages"),
  },
  "a message keeps an answer from being the last": {
    log: { steps: ANSWER },
    facts: { hasMessages: true },
    outcome: work("messages"),
  },
  "an answer ends": { log: { steps: ANSWER }, outcome: COMPLETED },
  "a typed result ends, although there are calls": {
    log: { steps: CALLS, output: { count: 3 } },
    facts: { hasOutput: true },
    outcome: COMPLETED,
  },
  "an output may be null": {
    log: { steps: CALLS, output: null },
    facts: { hasOutput: true },
    outcome: COMPLETED,
  },
  "a text instead of a typed result": {
    log: { steps: ANSWER },
    facts: { hasOutput: true },
    outcome: { type: "retry", work: ["missing_output"] },
  },
  "a typed result missed twice": {
    log: { steps: [...ANSWER, MISFIT] },
    facts: { hasOutput: true },
    outcome: work("tool_calls"),
  },
  "a typed result missed three times": {
    log: { steps: [...ANSWER, MISFIT, ...ANSWER] },
    facts: { hasOutput: true },
    outcome: FAILED,
  },
  "one useless reply": {
    log: { steps: [stepWith({})], uselessReplies: 1 },
    outcome: { type: "retry", work: ["missing_reply"] },
  },
  "two useless replies": { log: { steps: [stepWith({})], uselessReplies: 2 }, outcome: FAILED },
  "a history that is too long": {
    log: { steps: [stepWith({})], overflows: 1 },
    outcome: { type: "compact" },
  },
  "a text cut off": {
    log: { steps: [stepWith({ text: "ha", finishReason: "length" })] },
    outcome: stopFor("model", "finish_reason", {
      finishReason: "length",
      maxOutputTokens: 8_192,
      limitedBy: "maxOutputTokens",
    }),
  },
  "a text filtered, though a message came": {
    log: { steps: [stepWith({ text: "ha", finishReason: "content_filter" })] },
    facts: { hasMessages: true },
    outcome: stopFor("model", "finish_reason", { finishReason: "content_filter" }),
  },
  "an answer declined": {
    log: { steps: [stepWith({ refusal: "No." })] },
    outcome: stopFor("model", "finish_reason", { finishReason: "refusal", refusal: "No." }),
  },
  "a text that broke off": {
    log: { steps: [stepWith({ text: "ha", finishReason: "error" })] },
    outcome: FAILED,
  },
  "a signal beats calls": { log: { steps: CALLS, signals: [SIGNAL] }, outcome: STOPPED },
  "a signal beats an overflow": {
    log: { steps: [stepWith({})], overflows: 1, signals: [SIGNAL] },
    outcome: STOPPED,
  },
  "a signal beats what is missing": {
    log: { steps: [stepWith({})], uselessReplies: 2, signals: [SIGNAL] },
    outcome: STOPPED,
  },
  "a signal beats an answer": { log: { steps: ANSWER, signals: [SIGNAL] }, outcome: STOPPED },
};

function work(...types: readonly string[]): object {
  return { type: "continue", work: types };
}

/** Throws unless the decision is the right one in each case. */
export function checkContinuation(judge: typeof decideStepOutcome): void {
  for (const [what, { log, facts, outcome }] of Object.entries(CASES))
    expect(judge(logOf(log), { ...FACTS, ...facts }), what).toEqual(outcome);
}
