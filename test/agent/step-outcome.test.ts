// Goal: a completed step has one explicit outcome, which states the next action and its cause.
// Method: every outcome from the facts that cause it; then the table of finish reasons × calls ×
// text × typed result × work.

import { expect, test } from "vitest";

import { getOpenStep, createPendingState, type ExecutionLog } from "../../src/agent/agent-state.ts";
import { FINISH_TOOL_NAME } from "../../src/protocol/tool-rule.ts";
import {
  decideStepOutcome,
  type StepFacts,
  type StepOutcome,
} from "../../src/agent/step-outcome.ts";
import { FinishReasonSchema, type FinishReason } from "../../src/protocol/finish-reason.ts";
import { createStepId } from "../../src/protocol/ids.ts";
import type { ToolCall } from "../../src/protocol/message.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";
import { changes, EXECUTION_ID, executionOf, states, toolCall } from "../support/changes.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import { contextOf } from "../support/step-context.ts";

const FACTS: StepFacts = {
  roleName: "lead",
  modelId: "scripted",
  maxOutputTokens: 8_192,
  hasOutput: false,
  describeMiss: () => ({
    way: "call Finish",
    problems: ["a: expected b, got c", "d", "e", "f"],
  }),
  hasMessages: false,
  mustAwait: false,
};
const NOTHING_DONE = createPendingState({
  messages: [],
  prefix: { messageCount: 0, tokens: 0 },
}).log;
const SUBTASKS: ExecutionLog["subtasks"] = [{ request: { role: "helper", task: "Look." } }];

interface Said {
  readonly finishReason?: FinishReason;
  readonly text?: string;
  readonly calls?: readonly ToolCall[];
  readonly refusal?: string;
  /** The type of all executions of the calls. */
  readonly type?: "succeeded" | "failed";
}

function step({
  finishReason = "stop",
  text = "",
  calls = [],
  refusal,
  type = "succeeded",
}: Said = {}): StepRecord {
  return {
    stepId: createStepId(EXECUTION_ID, 1),
    number: 1,
    context: contextOf(1),
    io: { messageCount: 2, text, finishReason, ...(refusal === undefined ? {} : { refusal }) },
    tools: { calls, executions: calls.map((call) => ({ ...executionOf(call), type })) },
    telemetry: { usage: NO_USAGE, startedAtMs: 2, endedAtMs: 5, elapsedMs: 5, timing: NO_TIMING },
  };
}

/** Decides the outcome of a log whose last step is the given one. */
function judged(
  said: Said,
  log: Partial<ExecutionLog> = {},
  facts: Partial<StepFacts> = {},
): StepOutcome {
  return decideStepOutcome(
    { ...NOTHING_DONE, steps: [step(said)], ...log },
    { ...FACTS, ...facts },
  );
}

/** Returns an outcome as text for a table. The switch does not compile if a case is missing. */
function summary(outcome: StepOutcome): string {
  switch (outcome.type) {
    case "continue":
    case "retry":
      return `${outcome.type} ${outcome.work.join("+")}`;
    case "compact":
      return "compact";
    case "stop":
      return `stop ${outcome.signal?.reason.code ?? "as signalled"}`;
    case "fail":
      return `fail ${outcome.error.code}`;
  }
}

proves(["R15"], "a step with answered calls continues", () => {
  expect(judged({ calls: [toolCall("call_1")], text: "Let me see." })).toEqual({
    type: "continue",
    work: ["tool_calls"],
  });
});

proves(["R15"], "a step that continues lists all its work in one order", () => {
  const calls = [toolCall("call_1")];
  expect(judged({ calls }, { subtasks: SUBTASKS }, { hasMessages: true })).toEqual({
    type: "continue",
    work: ["tool_calls", "subtasks", "messages"],
  });
});

const COMPLETED: StepOutcome = {
  type: "stop",
  signal: {
    source: "loop",
    reason: { code: "completed", message: "The agent gave its answer.", data: {} },
  },
};

proves(["R15"], "a text without further work stops with `completed`", () => {
  expect(judged({ text: "This is it." })).toEqual(COMPLETED);
});

proves(["R15"], "a typed result of any value stops with `completed`", () => {
  const calls = [toolCall("call_1", FINISH_TOOL_NAME), toolCall("call_2")];
  for (const output of [{ answer: 42 }, null, false, 0, ""])
    expect(judged({ calls }, { output }, { hasOutput: true })).toEqual(COMPLETED);
});

proves(["R15"], "a typed result waits for subtasks and messages, and not for calls", () => {
  const calls = [toolCall("call_1", FINISH_TOOL_NAME)];
  const log = { output: { answer: 42 }, subtasks: SUBTASKS };
  expect(judged({ calls }, log, { hasOutput: true, hasMessages: true })).toEqual({
    type: "continue",
    work: ["subtasks", "messages"],
  });
});

test("a typed result remains accepted despite earlier misses and any finish reason", () => {
  const output = { answer: 42 };
  const facts = { hasOutput: true };
  const log = { output, steps: [1, 2, 3, 4].map(() => step({ text: "42" })) };
  expect(judged({}, log, facts)).toEqual(COMPLETED);
  for (const finishReason of FinishReasonSchema().options)
    expect(judged({ finishReason, text: "Done." }, { output }, facts)).toEqual(COMPLETED);
  expect(judged({}, { output, uselessReplies: 2 }, facts)).toEqual(COMPLETED);
});

proves(["R15"], "a raised signal stops before any other outcome", () => {
  const { signal } = changes().addSignal;
  const said: readonly Said[] = [{ text: "This is it." }, { calls: [toolCall("call_1")] }, {}];
  const logs = [{}, { output: 1 }, { overflows: 1 }, { uselessReplies: 2 }];
  for (const one of said) {
    for (const log of logs) {
      expect(judged(one, { ...log, signals: [signal] }, { hasMessages: true })).toEqual({
        type: "stop",
        signal: undefined,
      });
    }
  }
});

proves(["R15"], "a useless reply is retried once, and the second one fails", () => {
  expect(judged({}, { uselessReplies: 1 })).toEqual({ type: "retry", work: ["missing_reply"] });
  const outcome = judged({}, { uselessReplies: 2 });
  expect(
    outcome.type === "fail" && [outcome.error.code, outcome.error.message, outcome.error.data],
  ).toEqual([
    "model_invalid_reply",
    "Expected scripted to reply with text or tool calls, but 2 replies in a row were unusable. Use another model.",
    { role: "lead", uselessReplies: 2 },
  ]);
});

proves(["D308"], "a useless reply waits while subagents work", () => {
  const facts = { mustAwait: true };
  const outcomes = [1, 2].map((uselessReplies) => judged({}, { uselessReplies }, facts));
  expect(outcomes.map(summary)).toEqual(["continue subagents", "continue subagents"]);
});

proves(["R15"], "a text instead of a typed result is retried", () => {
  expect(judged({ text: "42" }, {}, { hasOutput: true })).toEqual({
    type: "retry",
    work: ["missing_output"],
  });
});

proves(["R15"], "an overflow compacts the history", () => {
  expect(judged({ finishReason: "error" }, { overflows: 1 })).toEqual({ type: "compact" });
});

proves(["R15"], "a third missing or invalid typed result fails", () => {
  const misfit = step({ calls: [toolCall("call_1", FINISH_TOOL_NAME)], type: "failed" });
  const miss = step({ text: "42" });
  const facts = { ...FACTS, hasOutput: true };
  const after = (...steps: readonly StepRecord[]): string =>
    summary(decideStepOutcome({ ...NOTHING_DONE, steps }, facts));
  expect([after(miss), after(misfit, miss), after(miss, misfit)]).toEqual([
    "retry missing_output",
    "retry missing_output",
    "continue tool_calls",
  ]);
  const over = [after(miss, misfit, miss), after(misfit, misfit, misfit), after(miss, miss, miss)];
  expect(over).toEqual(Array.from({ length: 3 }, () => "fail model_invalid_reply"));
  const outcome = decideStepOutcome({ ...NOTHING_DONE, steps: [miss, miss, misfit] }, facts);
  expect(outcome.type === "fail" && [outcome.error.message, outcome.error.data]).toEqual([
    "Expected scripted to call Finish with a result that fits its schema, but it failed 3 times. Last problems: a: expected b, got c; d; e. Simplify the output schema, or use a stronger model.",
    { role: "lead", missed: 3, problems: ["a: expected b, got c", "d", "e", "f"] },
  ]);
});

proves(
  ["D303"],
  "a text with which the agent waits for its subagents is not a missing result",
  () => {
    const text = step({ text: "I wait." });
    const misfit = step({ calls: [toolCall("call_1", FINISH_TOOL_NAME)], type: "failed" });
    const other = step({ calls: [toolCall("call_1")] });
    const facts = { ...FACTS, hasOutput: true };
    const after = (waits: number, mustAwait: boolean, ...steps: readonly StepRecord[]): string =>
      summary(decideStepOutcome({ ...NOTHING_DONE, steps, waits }, { ...facts, mustAwait }));
    expect([
      after(2, true, text, text, text),
      after(3, false, text, text, text, other),
      after(3, false, text, text, text, text),
      after(1, true, text, misfit, misfit, text),
      after(1, true, text, misfit, misfit, misfit),
      after(3, false, text, text, text, text, text, text),
    ]).toEqual([
      "continue subagents",
      "continue tool_calls",
      "retry missing_output",
      "continue subagents",
      "fail model_invalid_reply",
      "fail model_invalid_reply",
    ]);
  },
);

test("failed calls of other tools and texts beside calls are not missing results", () => {
  const calls = [toolCall("call_1")];
  const failed = step({ calls, text: "Hm.", type: "failed" });
  const steps = [failed, failed, failed, step({ text: "42" })];
  const log = { ...NOTHING_DONE, steps };
  expect(summary(decideStepOutcome(log, { ...FACTS, hasOutput: true }))).toBe(
    "retry missing_output",
  );
  const texts = { ...NOTHING_DONE, steps: [1, 2, 3, 4].map(() => step({ text: "42" })) };
  expect(summary(decideStepOutcome(texts, FACTS))).toBe("stop completed");
});

proves(["R15"], "a reply that ended with an error fails", () => {
  const outcome = judged({ finishReason: "error", text: "This is" });
  expect(
    outcome.type === "fail" && [outcome.error.code, outcome.error.message, outcome.error.data],
  ).toEqual([
    "model_invalid_reply",
    "Expected scripted to finish its reply, but the reply ended with an error.",
    { role: "lead", finishReason: "error" },
  ]);
});

test("a log without steps stops without a signal", () => {
  expect(decideStepOutcome(NOTHING_DONE, FACTS)).toEqual({ type: "stop", signal: undefined });
});

// The log of a real run, not one that this file builds.
test("steps that `transition()` recorded have the same outcomes", () => {
  const { stepped, spoken } = states();
  expect(summary(decideStepOutcome({ ...stepped.log, signals: [] }, FACTS))).toBe(
    "continue tool_calls",
  );
  const { text } = getOpenStep(spoken).reply?.message ?? { text: "" };
  expect(summary(judged({ text }))).toBe("stop completed");
});

/**
 * The outcome of a reply without calls by its finish reason: alone, with a typed result due, and
 * with messages waiting.
 */
const WITHOUT_CALLS: Readonly<Record<FinishReason, readonly [string, string, string]>> = {
  stop: ["stop completed", "retry missing_output", "continue messages"],
  tool_calls: ["stop completed", "retry missing_output", "continue messages"],
  length: ["stop finish_reason", "stop finish_reason", "stop finish_reason"],
  content_filter: ["stop finish_reason", "stop finish_reason", "stop finish_reason"],
  other: ["stop completed", "retry missing_output", "continue messages"],
  unknown: ["stop completed", "retry missing_output", "continue messages"],
  error: ["fail model_invalid_reply", "fail model_invalid_reply", "fail model_invalid_reply"],
  paused: ["continue paused_reply", "continue paused_reply", "continue messages+paused_reply"],
};

for (const finishReason of FinishReasonSchema().options) {
  const [alone, due, waiting] = WITHOUT_CALLS[finishReason];

  test(`a text that ends with ${finishReason} has the outcome: ${alone}`, () => {
    const said = { finishReason, text: "This is it." };
    expect(summary(judged(said))).toBe(alone);
    expect(summary(judged(said, {}, { hasOutput: true }))).toBe(due);
    expect(summary(judged(said, {}, { hasMessages: true }))).toBe(waiting);
    const subtasks = waiting.replace("messages", "subtasks");
    expect(summary(judged(said, { subtasks: SUBTASKS }))).toBe(subtasks);
    const both = waiting.replace("messages", "subtasks+messages");
    expect(summary(judged(said, { subtasks: SUBTASKS }, { hasMessages: true }))).toBe(both);
  });

  test(`a reply with calls that ends with ${finishReason} continues`, () => {
    const calls = [toolCall("call_1")];
    for (const text of ["", "Let me see."]) {
      for (const hasOutput of [false, true]) {
        const outcome = judged({ finishReason, calls, text }, {}, { hasOutput });
        expect(summary(outcome)).toBe("continue tool_calls");
      }
    }
    const outcome = judged({ finishReason, calls }, { subtasks: SUBTASKS }, { hasMessages: true });
    expect(summary(outcome)).toBe("continue tool_calls+subtasks+messages");
  });

  test(`an empty reply that ends with ${finishReason} stops if it was cut off, and is retried otherwise`, () => {
    const isCutOff = finishReason === "length" || finishReason === "content_filter";
    for (const hasOutput of [false, true]) {
      const [first, second] = [1, 2].map((uselessReplies) =>
        summary(judged({ finishReason }, { uselessReplies }, { hasOutput, hasMessages: true })),
      );
      expect([first, second]).toEqual(
        isCutOff
          ? ["stop finish_reason", "stop finish_reason"]
          : ["retry missing_reply", "fail model_invalid_reply"],
      );
    }
  });
}

function signalUnderCap(maxOutputTokens: number): unknown {
  const outcome = judged({ finishReason: "length", text: "This is" }, {}, { maxOutputTokens });
  return outcome.type === "stop" ? outcome.signal : outcome;
}

function cutOffAt(cause: string, limitedBy: string): object {
  return {
    source: "model",
    reason: {
      code: "finish_reason",
      message: `The model's reply was cut off at 8192 output tokens: ${cause}.`,
      data: { finishReason: "length", maxOutputTokens: 8_192, limitedBy },
    },
  };
}

proves(["S7.13"], "the signal of a reply that was cut off names the limit", () => {
  expect([signalUnderCap(8_192), signalUnderCap(8_193)]).toEqual([
    cutOffAt("maxOutputTokens of lead", "maxOutputTokens"),
    cutOffAt("the budget had no more left to reserve (maxOutputTokens of lead is 8193)", "lease"),
  ]);
});

test("the signal of a reply that was filtered names the filter", () => {
  expect(judged({ finishReason: "content_filter", text: "This is" })).toEqual({
    type: "stop",
    signal: {
      source: "model",
      reason: {
        code: "finish_reason",
        message: "The model's reply ended early: content_filter.",
        data: { finishReason: "content_filter" },
      },
    },
  });
});

test("a refusal stops with the model's own text, whatever the finish reason and the work", () => {
  for (const finishReason of FinishReasonSchema().options) {
    expect(judged({ finishReason, refusal: "Never." }, {}, { hasMessages: true })).toEqual({
      type: "stop",
      signal: {
        source: "model",
        reason: {
          code: "finish_reason",
          message: "The model declined to answer.",
          data: { finishReason: "refusal", refusal: "Never." },
        },
      },
    });
  }
});
