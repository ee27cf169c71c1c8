// What is kept of a step that is over.

import type { StepRecord } from "../protocol/step-record.ts";
import type { OpenStep } from "./agent-state.ts";

/** When a step ended. */
interface StepEnd {
  readonly atMs: number;
  readonly elapsedMs: number;
}

/** The record of a step that is over: nothing of it is kept but what is in there. */
export function stepRecord(step: OpenStep, { atMs, elapsedMs }: StepEnd): StepRecord {
  const { reply } = step;
  const refusal = reply?.message.refusal;
  return {
    stepId: step.stepId,
    number: step.number,
    context: step.context,
    io: {
      messageCount: step.messageCount,
      text: reply?.message.text ?? "",
      ...(refusal === undefined ? {} : { refusal }),
      finishReason: reply?.finishReason ?? "error",
    },
    tools: { calls: reply?.message.toolCalls ?? [], executions: step.executions },
    telemetry: {
      usage: step.usage,
      startedAtMs: step.startedAtMs,
      endedAtMs: atMs,
      elapsedMs,
      timing: step.timing,
    },
    ...(step.error === undefined ? {} : { error: step.error }),
  };
}
