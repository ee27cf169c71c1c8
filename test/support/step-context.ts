// Contexts, timings and compactions of steps, for tests that create states by hand.

import { hashText } from "../../src/protocol/definition.ts";
import { CallIdSchema, type CallId } from "../../src/protocol/ids.ts";
import type { ContentPart } from "../../src/protocol/message-content.ts";
import type { ReplyPart } from "../../src/protocol/message.ts";
import type { ModelSettings } from "../../src/protocol/model-settings.ts";
import type { StepContext } from "../../src/protocol/step-context.ts";
import type { StepTiming } from "../../src/protocol/step-timing.ts";
import type { HistoryChange } from "../../src/agent/message-tags.ts";

/** Returns the context of a step of a role without tools. `shown` has every kind of part. */
export function contextOf(number: number, more: Partial<StepContext> = {}): StepContext {
  return {
    number,
    model: {
      provider: "scripted",
      id: "scripted",
      replayKey: "scripted/eu",
      replayKeys: ["scripted/eu", "scripted/us"],
      inputModalities: ["image"],
    },
    toolNames: ["look"],
    promptHash: hashText("Work."),
    toolsHash: hashText("[]"),
    outputHash: hashText("{}"),
    budget: { steps: 9 },
    parameters: {
      maxOutputTokens: 8_192,
      temperature: 0.5,
      settings: SETTINGS,
      toolChoice: "auto",
    },
    ...more,
  };
}

const SETTINGS: ModelSettings = {
  reasoning: { effort: "high", summary: "auto" },
  verbosity: "low",
  seed: 7,
  stopSequences: ["END"],
  topP: 0.9,
  parallelToolCalls: false,
};

/** Returns one part of each kind. */
export const PARTS: NonNullable<StepContext["shown"]> = [
  { type: "history", from: 0, to: 1 },
  { type: "earlier", from: 1, to: 2 },
  {
    type: "message",
    message: { role: "user", origin: "notice" },
    textHash: hashText("Finish."),
  },
];

export const TIMING: StepTiming = {
  inferenceMs: 1,
  toolsMs: 2,
  toolsSumMs: 3,
  hooksMs: 4,
  formattingMs: 5,
};

const callId = CallIdSchema().parse("call_0");

/** A part of each kind for a message with one call. */
export function partsOf(text: string, called: CallId): readonly ReplyPart[] {
  const data = { scripted: { signature: "c2ln" } };
  return [
    { type: "reasoning", text: "Hm?", data },
    { type: "opaque", kind: "search", data },
    { type: "text", length: text.length, data },
    { type: "call", callId: called, data },
  ];
}

/** Words, and one attachment with all that there may be. */
export const CONTENT: readonly ContentPart[] = [
  { type: "text", text: "See:" },
  {
    type: "image",
    mediaType: "image/png",
    name: "chart.png",
    uri: "https://example.com/chart.png",
    data: "aGVsbG8=",
  },
];

/** A change of the history, with a message of each kind that it took away for good. */
export const COMPACTION: HistoryChange = {
  afterStep: 1,
  before: [
    { type: "kept", from: 0, to: 1 },
    {
      type: "unrecorded",
      messages: [
        { role: "user", text: "Do it.", origin: "inherited", content: CONTENT },
        {
          role: "assistant",
          text: "Hm.",
          toolCalls: [{ callId, toolName: "search", argumentsText: "{}" }],
          refusal: "Never.",
          parts: partsOf("Hm.", callId),
          writtenBy: "scripted/eu",
        },
        { role: "tool", callId, toolName: "search", text: "Oak." },
      ],
    },
  ],
};

/** The keys of a context, and of a timing. */
export const CONTEXT_KEYS = [
  "number model.provider model.id model.replayKey model.replayKeys[] model.inputModalities[] toolNames[]",
  "promptHash toolsHash outputHash budget",
  "parameters.maxOutputTokens parameters.temperature parameters.toolChoice",
  "parameters.settings.reasoning.effort parameters.settings.reasoning.summary",
  "parameters.settings.verbosity parameters.settings.seed parameters.settings.stopSequences[]",
  "parameters.settings.topP parameters.settings.parallelToolCalls",
  "shown[].type shown[].from shown[].to shown[].message shown[].textHash",
].join(" ");
export const TIMING_KEYS = "inferenceMs toolsMs toolsSumMs hooksMs formattingMs";
