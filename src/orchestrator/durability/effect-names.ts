// Names of effects, derived from their positions, so that a repeated run gives them the same names.

import type { EffectPosition } from "../../agent/agent-identity.ts";
import type { CallInProgress } from "../../agent/tool-calls/open-call.ts";

/**
 * Returns `model.3`, or `model.3.1` for a model call that the step makes for its second tool call.
 */
export function formatModelEffectName({ stepNumber, sideCall }: EffectPosition): string {
  return sideCall === undefined ? `model.${stepNumber}` : `model.${stepNumber}.${sideCall.name}`;
}

/** Returns `tool.3.1:search`. */
export function formatToolEffectName({
  stepNumber,
  index,
  toolName,
}: Pick<CallInProgress, "stepNumber" | "index" | "toolName">): string {
  return `tool.${stepNumber}.${index}:${toolName}`;
}

/** Returns `permit.3.1`: an effect within the effect of a call. */
export function formatPermitEffectName({
  stepNumber,
  index,
}: Pick<CallInProgress, "stepNumber" | "index">): string {
  return `permit.${stepNumber}.${index}`;
}
