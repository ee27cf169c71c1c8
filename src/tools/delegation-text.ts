// What a model reads of the subagents that it has started, as JSON.

import { stringifyCanonical } from "../kernel/json.ts";
import type { SpawnOutcome, SubagentResult } from "../protocol/subagent.ts";

/** What the parent's model reads of a delegation: the instruction of a refusal, a receipt, or outcome and result as JSON. */
export function describeDelegation(
  outcome: Exclude<SpawnOutcome, { readonly type: "paused" }>,
): string {
  if (outcome.type === "refused") return outcome.refusal.message;
  if (outcome.type === "ended") return formatSubagentReport(outcome.result);
  const { childName } = outcome;
  const note = "It runs in the background. Its result will arrive as a message.";
  return stringifyCanonical({ subagent: childName, status: "running", note });
}

/** How a subagent ended, as its parent's model reads it. */
function formatSubagentReport(result: SubagentResult): string {
  const { childName, outcome, reason, text, output, stepCount: steps, usage, errors } = result;
  const error = errors[0]?.code;
  const isCompleted = outcome === "completed";
  // Its own keys stand in their order; those of an output are put in theirs.
  const write = output === undefined ? JSON.stringify : stringifyCanonical;
  return write({
    ...(error === undefined ? {} : { error }),
    ...(isCompleted ? {} : { explanation: reason.message }),
    outcome,
    ...(output === undefined ? {} : { output }),
    ...(isCompleted ? {} : { reason: reason.code }),
    steps,
    subagent: childName,
    ...(output === undefined ? { text } : {}),
    totalTokens: usage.total.totalTokens,
  });
}
