// How effects are named: by their place, so that a run that is done once more names them alike.

import type { PlannedCall } from "./effects.ts";
import type { EffectPosition } from "./agent-identity.ts";

/** `3`, or `3.1` for a model call that the step makes for its second tool call. */
function placeName({ stepNumber, sideCall }: EffectPosition): string {
  return sideCall === undefined ? `${stepNumber}` : `${stepNumber}.${sideCall.name}`;
}

/** `model.3`. */
export function modelEffectName(place: EffectPosition): string {
  return `model.${placeName(place)}`;
}

/** `tool.3.1:search`. */
export function toolEffectName(
  place: EffectPosition,
  { index, call }: Pick<PlannedCall, "index" | "call">,
): string {
  return `tool.${place.stepNumber}.${index}:${call.toolName}`;
}
