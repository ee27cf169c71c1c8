// How effects are named: by their place, so that a run that is done once more names them alike.

import type { EffectPlace, PlannedCall } from "./effects.ts";

/** `3`, or `3.1` for a model call that the step makes for its second tool call. */
function placeName({ stepNumber, aside }: EffectPlace): string {
  return aside === undefined ? `${stepNumber}` : `${stepNumber}.${aside.name}`;
}

/** `model.3`. */
export function modelEffectName(place: EffectPlace): string {
  return `model.${placeName(place)}`;
}

/** `tool.3.1:search`. */
export function toolEffectName(
  place: EffectPlace,
  { index, call }: Pick<PlannedCall, "index" | "call">,
): string {
  return `tool.${place.stepNumber}.${index}:${call.toolName}`;
}
