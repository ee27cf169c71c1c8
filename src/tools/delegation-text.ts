// What a model reads of the subagents that it has started, as JSON.

import { canonicalJson } from "../kernel/json.ts";
import type { SpawnOutcome, SubagentResult } from "../protocol/subagent.ts";

/** What the parent's model reads of a delegation: the instruction of a refusal, a receipt, or outcome and result as JSON. */
export function delegationText(
  outcome: Exclude<SpawnOutcome, { readonly type: "paused" }>,
): string {
  if (outcome.type === "refused") return outcome.refusal.message;
  if (outcome.type === "settled") return reportText(outcome.result);
  const { childName } = outcome;
  const note = "It works in the background; its result will reach you as a message.";
  return canonicalJson({ subagent: childName, status: "running", note });
}

/** How a subagent ended, as its parent's model reads it. */
function reportText(result: SubagentResult): string {
  const { childName, outcome, reason, text, output, steps, usage, errors } = result;
  const error = errors.at(-1)?.code;
  return canonicalJson({
    subagent: childName,
    outcome,
    ...(outcome === "completed" ? {} : { reason: reason.code, explanation: reason.message }),
    ...(error === undefined ? {} : { error }),
    ...(output === undefined ? { text } : { output }),
    steps,
    totalTokens: usage.total.totalTokens,
  });
}
