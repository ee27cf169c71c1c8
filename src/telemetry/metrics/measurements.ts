// What metrics distinguish, and the end of a call in numbers. Owns nothing. Each value
// is one of few: roles, models and tools by name, and words of our own.

import type { EventBody } from "../../protocol/event.ts";
import type { Usage } from "../../protocol/usage.ts";
import { ERROR_TYPE, ESPALIER, GEN_AI, OPERATION, OUTCOME } from "../gen-ai-attributes.ts";
import type { Dimensions, Instruments } from "./instruments.ts";
import { TOKEN_TYPE, UNKNOWN_MODALITY } from "./metric-names.ts";
import { failureOf, knownToolName, outcomeOf, type SpanEnd } from "../spans/span-attributes.ts";

/** How long something took, and how it ended. */
export interface Duration {
  readonly seconds: number;
  readonly end: SpanEnd;
}

/** Whose model was called. */
export interface Caller {
  readonly role: string;
  readonly provider: string;
  readonly model: string;
}

/** Outcome and class of failure, as the span of the span has them. */
export function endDimensions(end: SpanEnd): Dimensions {
  return { [ESPALIER.outcome]: outcomeOf(end), [ERROR_TYPE]: failureOf(end) };
}

/** Tokens as they are booked. A call that never left is none. */
export function measureUsage(instruments: Instruments, caller: Caller, usage: Usage): void {
  if (usage.modelCalls === 0 && usage.totalTokens === 0) return;
  const dimensions = { ...callerDimensions(caller), [GEN_AI.tokenModality]: UNKNOWN_MODALITY };
  instruments.measure("inputTokens", usage.inputTokens, dimensions);
  instruments.measure("outputTokens", usage.outputTokens, dimensions);
  instruments.measure("cacheReadTokens", usage.cachedInputTokens, dimensions);
  instruments.measure("reasoningTokens", usage.reasoningTokens, dimensions);
}

/** A run that has ended, or rests. `role`: of its root. */
export function measureRun(
  instruments: Instruments,
  role: string,
  { seconds, end }: Duration,
): void {
  instruments.measure("workflowDuration", seconds, {
    [GEN_AI.operation]: OPERATION.workflow,
    [GEN_AI.workflowName]: role,
    ...endDimensions(end),
  });
}

/** One model call that has ended. */
export function measureModelCall(
  instruments: Instruments,
  caller: Caller,
  { seconds, end }: Duration,
): void {
  const known = callerDimensions(caller);
  const dimensions = { ...known, ...endDimensions(end) };
  instruments.measure("inferenceDuration", seconds, dimensions);
  instruments.measure("legacyDuration", seconds, dimensions);
  if (typeof end === "string" || (end.type !== "model.replied" && end.type !== "model.failed"))
    return;
  const { inputTokens, outputTokens } = end.usage;
  instruments.measure("operationInputTokens", inputTokens, dimensions);
  instruments.measure("operationOutputTokens", outputTokens, dimensions);
  const [input, output] = [TOKEN_TYPE.input, TOKEN_TYPE.output];
  instruments.measure("legacyTokens", inputTokens, { ...known, [GEN_AI.tokenType]: input });
  instruments.measure("legacyTokens", outputTokens, { ...known, [GEN_AI.tokenType]: output });
  measureQueue(instruments, OPERATION.model, caller.role, end.queuedMs);
}

/** One tool call that has ended, or is paused; one that was rejected took no time. */
export function measureToolCall(
  instruments: Instruments,
  opening: EventBody<"tool.started" | "tool.resumed" | "tool.rejected">,
  role: string,
  { seconds, end }: Duration,
): void {
  instruments.measure("toolDuration", seconds, {
    [GEN_AI.operation]: OPERATION.tool,
    [GEN_AI.toolName]: knownToolName(opening),
    [GEN_AI.agentName]: role,
    ...endDimensions(end),
  });
  if (typeof end !== "string" && end.type === "tool.ended")
    measureQueue(instruments, OPERATION.tool, role, end.queuedMs);
}

function measureQueue(
  instruments: Instruments,
  operation: string,
  role: string,
  queuedMs: number,
): void {
  const dimensions = { [GEN_AI.operation]: operation, [GEN_AI.agentName]: role };
  instruments.measure("queueWait", queuedMs / 1_000, dimensions);
}

function callerDimensions({ role, provider, model }: Caller): Dimensions {
  return {
    [GEN_AI.operation]: OPERATION.model,
    [GEN_AI.provider]: provider,
    [GEN_AI.requestModel]: model,
    [GEN_AI.agentName]: role,
  };
}

/** An approval that has its answer. Another kind of question is none. */
export function measureApproval(
  instruments: Instruments,
  role: string,
  { answer, by, toolName, waitedMs }: EventBody<"question.answered">,
): void {
  if (answer !== "approved" && answer !== "denied") return;
  instruments.measure("approvalWait", Math.max(0, waitedMs) / 1_000, {
    [GEN_AI.agentName]: role,
    [GEN_AI.toolName]: toolName,
    // With the end of its agent there was no decision.
    [ESPALIER.outcome]: by === "end" ? OUTCOME.abandoned : answer,
  });
}
