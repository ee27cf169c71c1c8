import { canonicalJson } from "../kernel/json.ts";
import type { SpawnOutcome } from "../protocol/subagent.ts";

/** What the parent's model is told of a delegation: the instruction of a refusal, or status and result as JSON. */
export function delegationText(
  outcome: Exclude<SpawnOutcome, { readonly type: "paused" }>,
): string {
  if (outcome.type === "refused") return outcome.refusal.message;
  const { agentPath, status, reason, text, output, steps, usage, errors } = outcome.result;
  const error = errors.at(-1)?.code;
  return canonicalJson({
    subagent: agentPath,
    status,
    ...(status === "completed" ? {} : { reason: reason.code, explanation: reason.message }),
    ...(error === undefined ? {} : { error }),
    ...(output === undefined ? { text } : { output }),
    steps,
    totalTokens: usage.total.totalTokens,
  });
}
