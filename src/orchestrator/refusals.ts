// Refusals of subagents: counted by code, and told by an event (X14).

import type { DelegatedCall } from "../agent/local/local-options.ts";
import type { RefusedSpawn } from "../agent/local/call-outcome.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { Correlation } from "../protocol/event.ts";
import { SpawnRequestSchema, type SpawnOutcome, type SpawnRefusal } from "../protocol/subagent.ts";
import { refusalOf } from "./admission.ts";
import type { AgentNode } from "./agent-node.ts";
import { placeIn } from "./child-place.ts";
import type { RunShared } from "./run-shared.ts";

/** Counts and tells that a subagent is not started. */
export function refuse(
  scope: RunShared,
  place: Correlation,
  role: string,
  refusal: SpawnRefusal,
): Extract<SpawnOutcome, { readonly type: "refused" }> {
  const childDepth = place.depth + 1;
  const refused = refusedSpawn(scope, role, refusal);
  const event = { type: "subagent.refused", ...refused, childDepth } as const;
  // A call that is made once more is refused once more: that is the same refusal.
  if (scope.tree.find(place.agentId)?.unfinished?.takeTold(event, place) !== true) {
    scope.tree.countRefusal(refusal.code);
    scope.recorder.record(place, event);
  }
  return { type: "refused", refusal };
}

/** Refuses what `SpawnSubagent` asks for if it cannot be started as things stand; undefined: it can. */
export function refuseSpawn(
  scope: RunShared,
  parent: AgentNode,
  input: JsonValue,
  call: DelegatedCall,
): RefusedSpawn | undefined {
  const asked = SpawnRequestSchema.safeParse(input);
  if (!asked.success) return undefined;
  const refusal = refusalOf(scope, parent, asked.data);
  if (refusal === undefined) return undefined;
  const { role } = asked.data;
  refuse(scope, placeIn(parent, call), role, refusal);
  return refusedSpawn(scope, role, refusal);
}

function refusedSpawn({ registry }: RunShared, role: string, refusal: SpawnRefusal): RefusedSpawn {
  return registry.find(role) === undefined
    ? { role, refusal }
    : { role, isKnownRole: true, refusal };
}
