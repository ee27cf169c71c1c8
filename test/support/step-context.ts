// What steps begin with, what their time went into, and what compactions take away, for tests that make states by hand.

import type { HistoryChange } from "../../src/agent/history-change.ts";
import { textHash } from "../../src/protocol/definition.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { StepContext } from "../../src/protocol/step-context.ts";
import type { StepTiming } from "../../src/protocol/step-timing.ts";

/** What a step of a role without tools begins with; `shown` has every kind of part. */
export function contextOf(number: number, more: Partial<StepContext> = {}): StepContext {
  return {
    number,
    model: { provider: "scripted", id: "scripted" },
    toolNames: ["look"],
    promptHash: textHash("Work."),
    toolsHash: textHash("[]"),
    budget: { steps: 9 },
    parameters: { maxOutputTokens: 8_192, temperature: 0.5 },
    ...more,
  };
}

/** One part of each kind. */
export const PARTS: NonNullable<StepContext["shown"]> = [
  { type: "history", from: 0, to: 1 },
  { type: "earlier", from: 1, to: 2 },
  {
    type: "message",
    message: { role: "user", origin: "notice" },
    textHash: textHash("Finish."),
  },
];

export const TIMING: StepTiming = {
  inferenceMs: 1,
  toolsMs: 2,
  toolsSumMs: 3,
  hooksMs: 4,
  formattingMs: 5,
};

const callId = CallIdSchema.parse("call_0");

/** A change of the history, with a message of each kind that it took away for good. */
export const COMPACTION: HistoryChange = {
  afterStep: 1,
  before: [
    { type: "kept", from: 0, to: 1 },
    {
      type: "dropped",
      messages: [
        { role: "user", text: "Do it.", origin: "inherited" },
        {
          role: "assistant",
          text: "Hm.",
          toolCalls: [{ callId, toolName: "search", argumentsText: "{}" }],
          refusal: "Never.",
        },
        { role: "tool", callId, toolName: "search", text: "Oak." },
      ],
    },
  ],
};

/** The keys of a context, and of a timing. */
export const CONTEXT_KEYS = [
  "number model.provider model.id toolNames[] promptHash toolsHash budget",
  "parameters.maxOutputTokens parameters.temperature",
  "shown[].type shown[].from shown[].to shown[].message shown[].textHash",
].join(" ");
export const TIMING_KEYS = "inferenceMs toolsMs toolsSumMs hooksMs formattingMs";
