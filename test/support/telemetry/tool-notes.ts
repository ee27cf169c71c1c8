// Handwritten events of guards, filters, wrappers and tools about running calls, with a canary in
// every text.

import type { EventBody } from "../../../src/protocol/event.ts";
import type { AgentScript } from "./run-script.ts";
import { CANARY, ONE_CALL } from "./run-script-facts.ts";

/** Filters removed tools from the step. */
export const FILTERED: EventBody<"tools.filtered"> = {
  type: "tools.filtered",
  removed: [
    { toolName: "write", filter: CANARY },
    { toolName: CANARY, filter: "read-only" },
  ],
};

/** The text of a reply only repeated the arguments of its call, and was dropped. */
export const REPEATED: EventBody<"reply.filtered"> = {
  type: "reply.filtered",
  toolName: CANARY,
  characters: CANARY.length,
};

export const GUARDED: EventBody<"tool.guarded"> = {
  type: "tool.guarded",
  toolName: CANARY,
  decision: "deny",
  answers: [
    { guard: CANARY, answer: "allow" },
    { guard: `${CANARY} too`, answer: "ask", reason: CANARY },
    { guard: "no-writing", answer: "deny", reason: CANARY },
  ],
};

/** The tool is called again, without the model. */
export const RETRIED: EventBody<"tool.retried"> = {
  type: "tool.retried",
  toolName: CANARY,
  attempt: 1,
  error: { code: "tool_error", message: CANARY, data: { body: CANARY, [CANARY]: 1 } },
  delayMs: 250,
};

export const PROGRESSED: EventBody<"tool.progressed"> = {
  type: "tool.progressed",
  toolName: CANARY,
  done: 1,
  total: 3,
  message: CANARY,
};

/** Adds the events of a result that a separate model call summarises. */
export function summarize(agent: AgentScript, callId: string): void {
  const error = { code: "model_overloaded", message: CANARY, data: { body: CANARY } };
  const bodies: readonly EventBody[] = [
    {
      type: "model.requested",
      provider: "scripted",
      model: "model-1",
      messageCount: 2,
      toolNames: [],
      estimatedInputTokens: 100,
      isEstimated: false,
      maxOutputTokens: 64,
      streaming: false,
    },
    { type: "model.retried", attempt: 1, error, delayMs: 250 },
    {
      type: "model.replied",
      finishReason: "stop",
      toolCallCount: 0,
      usage: ONE_CALL,
      attemptCount: 2,
      queuedMs: 0,
    },
    {
      type: "result.summarized",
      toolName: CANARY,
      resultCharacters: 90_000,
      shownCharacters: 200,
      usage: ONE_CALL,
    },
  ];
  for (const body of bodies) agent.notes(body, callId);
}
