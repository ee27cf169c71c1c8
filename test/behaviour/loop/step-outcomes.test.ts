// Goal: a completed step has exactly one outcome, and a model needs only its required method.
// Method: handwritten logs for each outcome and each precedence; a minimal model.

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { decideStepOutcome, type StepOutcome } from "../../../src/agent/step-outcome.ts";
import type { Model, ModelReply } from "../../../src/model/model.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { checkContinuation, FACTS, logOf, stepWith } from "../../support/golden-continuation.ts";
import { texts } from "../../support/texts.ts";

proves(["R15"], "each completed step continues, stops, compacts or retries", () => {
  checkContinuation(decideStepOutcome);
});

/** Names an outcome; the compiler checks that all types are handled. */
function named(outcome: StepOutcome): string {
  switch (outcome.type) {
    case "continue":
      return outcome.work.join(" ");
    case "retry":
      return outcome.work[0];
    case "compact":
      return "compact";
    case "stop":
      return outcome.signal?.reason.code ?? "signals";
    case "fail":
      return outcome.error.code;
  }
}

test("an outcome contains its reason", () => {
  const said = [
    logOf({ steps: [stepWith({ calls: 1 })] }),
    logOf({ steps: [stepWith({})], uselessReplies: 1 }),
    logOf({ steps: [stepWith({})], overflows: 1 }),
    logOf({ steps: [stepWith({ text: "done" })] }),
    logOf({ steps: [stepWith({ text: "ha", finishReason: "error" })] }),
    logOf({}),
  ].map((log) => named(decideStepOutcome(log, FACTS)));
  expect(said).toEqual([
    "tool_calls",
    "missing_reply",
    "compact",
    "completed",
    "model_invalid_reply",
    "signals",
  ]);
});

test("an outcome depends only on its arguments, and does not change them", () => {
  const log = logOf({ steps: [stepWith({ calls: 1 })] });
  const before = structuredClone(log);
  expect(decideStepOutcome(log, FACTS)).toEqual(decideStepOutcome(log, FACTS));
  expect(log).toEqual(before);
});

/** A model with the required members of the interface only. */
function bareModel(
  replies: readonly ModelReply[],
): Model & { readonly asked: readonly string[][] } {
  const asked: string[][] = [];
  return {
    provider: "own",
    id: "bare",
    asked,
    generate: (_request, options) => {
      asked.push(Object.keys(options));
      const reply = replies[asked.length - 1];
      if (reply === undefined) throw new Error("asked too often");
      return Promise.resolve(reply);
    },
  };
}

const callId = CallIdSchema().parse("call_1");
const REPLIES: readonly ModelReply[] = [
  {
    message: {
      role: "assistant",
      text: "",
      toolCalls: [{ callId, toolName: "work", argumentsText: "{}" }],
    },
    finishReason: "tool_calls",
  },
  { message: { role: "assistant", text: "done", toolCalls: [] }, finishReason: "stop" },
];

proves(
  ["R49"],
  "a model without streaming, counting, price and readiness works under limits and with a listener",
  async () => {
    const model = bareModel(REPLIES);
    const role = defineAgent({
      name: "solo",
      instructions: "Work.",
      model,
      tools: [spyTool("work")],
      compaction: { maxInputTokens: 9_000 },
    });
    const fixture = newFixture();
    const heard: string[] = [];
    const run = fixture.start(role, "Do it.", {
      budget: { totalTokens: 50_000, steps: 3 },
      onStreamPart: texts((text) => heard.push(text)),
    });
    const result = await fixture.outcome(run);
    expect([result.status, result.text, heard]).toEqual(["completed", "done", ["done"]]);
    expect([result.usage.total.modelCalls, result.usage.total.estimatedCalls]).toEqual([2, 2]);
    expect(result.usage.total.inputTokens).toBeGreaterThan(0);
    expect(model.asked.map((keys) => keys.toSorted())).toEqual([
      ["cacheKey", "onDelta", "signal"],
      ["cacheKey", "onDelta", "signal"],
    ]);
  },
);

test("an optional member of a model with the wrong type is rejected", () => {
  for (const [ability, value] of [
    ["countTokens", "yes"],
    ["assertReady", "yes"],
    ["checkSettings", "yes"],
    ["replayKey", 7],
    ["minOutputTokens", Number.NaN],
  ] as const) {
    const model = { ...bareModel([]), [ability]: value };
    const define = (): unknown =>
      Reflect.apply(defineAgent, undefined, [{ name: "solo", instructions: "Work.", model }]);
    expect(define).toThrow(ability);
  }
});
