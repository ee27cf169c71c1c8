// How effects are named: by their place, so that a run that is done once more names them alike.

import type { EffectPosition } from "../../agent/agent-identity.ts";
import type { PlannedCall } from "../../agent/effects.ts";

/** `model.3`, or `model.3.1` for a model call that the step makes for its second tool call. */
export function modelEffectName({ stepNumber, sideCall }: EffectPosition): string {
  return sideCall === undefined ? `model.${stepNumber}` : `model.${stepNumber}.${sideCall.name}`;
}

/** `tool.3.1:search`. */
export function toolEffectName(
  { stepNumber }: EffectPosition,
  { index, call }: Pick<PlannedCall, "index" | "call">,
): string {
  return `tool.${stepNumber}.${index}:${call.toolName}`;
}

/** `permit.3.1`: an effect within the effect of a call. */
export function permitEffectName(
  { stepNumber }: EffectPosition,
  { index }: Pick<PlannedCall, "index">,
): string {
  return `permit.${stepNumber}.${index}`;
}
