// Texts about started subagents for the model, as JSON. agent/tool-calls/delegate.ts makes them the
// result of its call, orchestrator/tree/supervisor.ts the report of a background subagent, and
// agent/phases/prepare.ts the message about a subtask.

import { stringifyCanonical } from "../kernel/json.ts";
import type { SpawnOutcome, SubagentResult } from "../protocol/subagent.ts";

/**
 * Returns the text of a delegation for the parent's model: the instruction of a refusal, a receipt,
 * or outcome and result as JSON.
 */
export function describeDelegation(
  outcome: Exclude<SpawnOutcome, { readonly type: "paused" }>,
): string {
  if (outcome.type === "refused") return outcome.refusal.message;
  if (outcome.type === "ended") return formatSubagentReport(outcome.result);
  const { subagent } = outcome;
  const note = "It runs in the background. Its result will arrive as a message.";
  return stringifyCanonical({ subagent, status: "running", note });
}

/** Returns the report about the end of a subagent for the parent's model. */
function formatSubagentReport(result: SubagentResult): string {
  const { subagent, outcome, reason, text, output, stepCount: steps, usage, errors } = result;
  const error = errors[0]?.code;
  const isCompleted = outcome === "completed";
  // The report's own keys are already sorted. The keys of an output are not.
  const write = output === undefined ? JSON.stringify : stringifyCanonical;
  return write({
    ...(error === undefined ? {} : { error }),
    ...(isCompleted ? {} : { explanation: reason.message }),
    outcome,
    ...(output === undefined ? {} : { output }),
    ...(isCompleted ? {} : { reason: reason.code }),
    steps,
    subagent,
    ...(output === undefined ? { text } : {}),
    totalTokens: usage.total.totalTokens,
  });
}
