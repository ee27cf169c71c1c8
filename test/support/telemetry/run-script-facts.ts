// Facts that the scripts of runs share.

import type { EventBody } from "../../../src/protocol/event.ts";
import type { TerminalStatus } from "../../../src/protocol/stop.ts";
import { NO_USAGE, type Usage } from "../../../src/protocol/usage.ts";

export const CANARY = "canary-4711";

/** A model call of 100 input tokens and 20 output tokens. */
export const ONE_CALL: Usage = {
  ...NO_USAGE,
  modelCalls: 1,
  steps: 1,
  inputTokens: 100,
  cachedInputTokens: 40,
  outputTokens: 20,
  reasoningTokens: 5,
  totalTokens: 120,
  costUsd: 0.0007,
};

export const START_MS = 1_000;
export const TICK_MS = 10;

export const PREVIOUS_TRACE_ID = "c".repeat(32);

export const PAUSED = { code: "input_required", message: CANARY, data: { detail: CANARY } };

export function reasonOf(status: TerminalStatus): EventBody<"run.ended">["reason"] {
  const codes = {
    completed: "completed",
    stopped: "token_limit",
    failed: "error",
    cancelled: "cancelled",
  } as const;
  return { code: codes[status], message: CANARY, data: { detail: CANARY } };
}
