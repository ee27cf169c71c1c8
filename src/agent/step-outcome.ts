// Decides what follows a completed step. Pure. Checks in this order: signals, context overflow, a
// typed result, a reply that was cut off or missed the result too often, calls, useless and broken
// replies, a missing result, other work. Otherwise the reply was the answer.

import { EspalierError } from "../kernel/error.ts";
import { deepFreeze } from "../kernel/json.ts";
import { completeSentence } from "../kernel/sentence.ts";
import type { WorkType } from "../protocol/event-bodies.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { StopReason, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { ExecutionLog } from "./agent-state.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";

/** The decision about a completed step. */
export type StepOutcome =
  /** There is work that needs another step. */
  | { readonly type: "continue"; readonly work: readonly WorkType[] }
  /**
   * The reply was unusable, or not an answer yet. The model is called again, a limited number of
   * times.
   */
  | { readonly type: "retry"; readonly work: readonly [WorkType] }
  /** The history is too long for the model. It is shortened, and the step repeats its request. */
  | { readonly type: "compact" }
  /**
   * Nothing further starts. `signal` is the reason, or `undefined` if a signal was raised before.
   */
  | { readonly type: "stop"; readonly signal: StopSignal | undefined }
  /** Nothing further starts, because the model's replies are unusable. */
  | { readonly type: "fail"; readonly error: EspalierError };

/** The facts beside the log that decide. */
export interface StepFacts {
  readonly roleName: string;
  readonly modelId: string;
  /** The role's cap on output tokens. The cap of a step is lower if the budget had less left. */
  readonly maxOutputTokens: number;
  readonly hasOutput: boolean;
  /** Returns what the model had to do for a typed result, and the problems of its last one. */
  readonly describeMiss: () => { readonly way: string; readonly problems: readonly string[] };
  /** True if the mailbox has unread messages. */
  readonly hasMessages: boolean;
  /** True if the agent must not end before its background subagents, and has some. */
  readonly mustAwait: boolean;
}

/** Consecutive useless replies that are tolerated. */
const MAX_USELESS_REPLIES = 1;
/** Times that an agent may miss its typed result, by a text or by invalid arguments. */
const MAX_MISSED_OUTPUTS = 2;
/** Maximum number of problems in a message. */
const MAX_SHOWN_PROBLEMS = 3;

/** Returns the decision about the step that has just completed, or whose request was too long. */
export function decideStepOutcome(log: ExecutionLog, facts: StepFacts): StepOutcome {
  const last = log.steps.at(-1);
  if (log.signals.length > 0) return { type: "stop", signal: undefined };
  if (log.overflows > 0) return { type: "compact" };
  if (last === undefined) return { type: "stop", signal: undefined };
  // Without work the step was the last. An answer is not final while subagents work in the
  // background.
  const work: WorkType[] = [];
  if (last.tools.calls.length > 0) work.push("tool_calls");
  if (log.subtasks.length > 0) work.push("subtasks");
  if (facts.hasMessages) work.push("messages");
  const wanted: readonly WorkType[] = facts.mustAwait ? [...work, "subagents"] : work;
  if (log.output !== undefined) {
    const news = wanted.filter((type) => type !== "tool_calls");
    return news.length > 0 ? { type: "continue", work: news } : { type: "stop", signal: COMPLETED };
  }
  const cutOff = findCutOffReason(last, facts);
  const hasMissed = facts.hasOutput && countMissedOutputs(log, facts) > MAX_MISSED_OUTPUTS;
  const hasNoCalls = last.tools.calls.length === 0;
  if (cutOff !== undefined && (hasMissed || hasNoCalls))
    return { type: "stop", signal: { source: "model", reason: cutOff } };
  if (hasMissed) {
    const missed = MAX_MISSED_OUTPUTS + 1;
    const { way, problems } = facts.describeMiss();
    const shown = completeSentence(problems.slice(0, MAX_SHOWN_PROBLEMS).join("; "));
    const result = `${way} with a result that fits its schema, but it failed ${missed} times. Last problems: ${shown} Simplify the output schema, or use a stronger model.`;
    return failMisbehaved(facts, result, { missed, problems });
  }
  if (!hasNoCalls) return { type: "continue", work };
  const { uselessReplies } = log;
  // The agent has nothing to answer before its subagents have reported.
  if (uselessReplies > 0 && facts.mustAwait) return { type: "continue", work: wanted };
  if (uselessReplies > MAX_USELESS_REPLIES) {
    const reply = `reply with text or tool calls, but ${uselessReplies} replies in a row were unusable. Use another model.`;
    return failMisbehaved(facts, reply, { uselessReplies });
  }
  if (uselessReplies > 0) return { type: "retry", work: ["missing_reply"] };
  const { finishReason } = last.io;
  if (finishReason === "paused") return { type: "continue", work: [...work, "paused_reply"] };
  if (finishReason === "error")
    return failMisbehaved(facts, "finish its reply, but the reply ended with an error.", {
      finishReason,
    });
  if (facts.hasOutput && !facts.mustAwait) return { type: "retry", work: ["missing_output"] };
  return wanted.length > 0
    ? { type: "continue", work: wanted }
    : { type: "stop", signal: COMPLETED };
}

const COMPLETED: StopSignal = deepFreeze({
  source: "loop",
  reason: { code: "completed", message: "The agent gave its answer.", data: {} },
});

/**
 * Returns the reason why a reply without calls is not an answer: it was cut off, filtered or
 * declined.
 */
function findCutOffReason(last: StepRecord, facts: StepFacts): StopReason | undefined {
  const { finishReason, refusal } = last.io;
  if (refusal !== undefined)
    return createStopReason("The model declined to answer.", { finishReason: "refusal", refusal });
  if (finishReason === "length") return toCapReason(last.context.parameters.maxOutputTokens, facts);
  if (finishReason !== "content_filter") return undefined;
  return createStopReason(`The model's reply ended early: ${finishReason}.`, { finishReason });
}

function createStopReason(message: string, data: StopReason["data"]): StopReason {
  return { code: "finish_reason", message, data };
}

/** Returns the reason for a reply that was cut off, by the role's cap or by the lease. */
function toCapReason(cap: number, { roleName, maxOutputTokens }: StepFacts): StopReason {
  const isLease = cap < maxOutputTokens;
  const cause = isLease
    ? `the budget had no more left to reserve (maxOutputTokens of ${roleName} is ${maxOutputTokens})`
    : `maxOutputTokens of ${roleName}`;
  return createStopReason(`The model's reply was cut off at ${cap} output tokens: ${cause}.`, {
    finishReason: "length",
    maxOutputTokens: cap,
    limitedBy: isLease ? "lease" : "maxOutputTokens",
  });
}

function countMissedOutputs({ steps, waits = 0 }: ExecutionLog, { mustAwait }: StepFacts): number {
  const texts = steps.filter(isTextAlone).length - waits;
  const isWait = mustAwait && steps.slice(-1).some(isTextAlone);
  const rejectedResults = steps.flatMap(listRejectedResults);
  return texts - (isWait ? 1 : 0) + rejectedResults.length;
}

/** Returns the calls of Finish that did not end the agent. */
export function listRejectedResults({ tools }: StepRecord): readonly ToolExecution[] {
  return tools.executions.filter(
    ({ call, type }) =>
      call.toolName === FINISH_TOOL_NAME &&
      (type === "retry" || type === "failed" || type === "refused"),
  );
}

/**
 * True for a complete reply that is text, not a result. If a typed result is required, such a reply
 * is a miss, unless the agent waits for subagents with it.
 */
export function isTextAlone({ tools, io }: StepRecord): boolean {
  const isWhole = io.isResult !== true && io.finishReason !== "paused";
  return tools.calls.length === 0 && io.text !== "" && isWhole;
}

function failMisbehaved(
  { modelId, roleName: role }: StepFacts,
  wanted: string,
  data: EspalierError["data"],
): StepOutcome {
  const message = `Expected ${modelId} to ${wanted}`;
  const facts = { message, data: { role, ...data } };
  return { type: "fail", error: new EspalierError({ code: "model_invalid_reply", ...facts }) };
}
