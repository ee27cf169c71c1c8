// Refusals of subagents: counted by code, and told by an event (X14).

import type { DelegatedCall } from "../../agent/run-ports.ts";
import type { RefusedSpawn } from "../../agent/run-ports.ts";
import { isRecord, type JsonValue } from "../../kernel/json.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { SpawnOutcome, SpawnRefusal } from "../../protocol/subagent.ts";
import { refusalOf } from "./admission.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RunRuntime } from "./run-runtime.ts";
import type { SpawnGroup } from "../../agent/spawn-group.ts";
import { isNamed, spawnRequestIn } from "./subagent-tools.ts";

/** Counts and tells that a subagent is not started. */
export function refuse(
  run: RunRuntime,
  place: EventScope,
  role: string,
  refusal: SpawnRefusal,
): Extract<SpawnOutcome, { readonly type: "refused" }> {
  const childDepth = place.depth + 1;
  const refused = refusedSpawn(run, role, refusal);
  const event = { type: "subagent.refused", ...refused, childDepth } as const;
  // A call that is made once more is refused once more: that is the same refusal.
  if (run.tree.find(place.agentId)?.inFlight?.takeTold(event, place) !== true) {
    run.tree.countRefusal(refusal.code);
    run.recorder.record(place, event);
  }
  return { type: "refused", refusal };
}

interface Asked {
  readonly input: JsonValue;
  readonly group: SpawnGroup | undefined;
  /** Somebody would have to say whether it may start. */
  readonly isAsked: boolean;
}

/** Refuses what `SpawnSubagent` asks for if it cannot be started as things stand, with those ahead of it in its reply if somebody would be asked; undefined: it can. */
export function refuseSpawn(
  run: RunRuntime,
  parent: AgentRuntime,
  { input, group, isAsked }: Asked,
  call: DelegatedCall,
): RefusedSpawn | undefined {
  const request = spawnRequestIn(input);
  if (request === undefined) return undefined;
  const refusal = refusalOf(run, parent, request, isAsked ? (group?.ahead ?? 0) : 0);
  if (refusal === undefined) {
    if (call.callId !== undefined) group?.expect(call.callId);
    return undefined;
  }
  group?.miss();
  refuse(run, parent.scope(call), request.role, refusal);
  return refusedSpawn(run, request.role, refusal);
}

interface Forbidden {
  readonly input: JsonValue;
  readonly refusal: SpawnRefusal;
}

/** Refuses what `SpawnSubagent` asks for, since its call is forbidden; undefined: its arguments name neither a role nor a subagent. */
export function forbidSpawn(
  run: RunRuntime,
  parent: AgentRuntime,
  { input, refusal }: Forbidden,
  place: EventScope,
): RefusedSpawn | undefined {
  const role = roleAskedFor(parent, input);
  if (role === undefined) return undefined;
  refuse(run, place, role, refusal);
  return refusedSpawn(run, role, refusal);
}

/** The role of the subagent that these arguments of `SpawnSubagent` ask to start or to continue. */
function roleAskedFor(parent: AgentRuntime, input: JsonValue): string | undefined {
  if (!isRecord(input)) return undefined;
  const { role, continue: childName } = input;
  if (isNamed(childName)) return roleOf(parent, childName);
  return typeof role === "string" ? role : undefined;
}

/** The role of a subagent that the model names; without such a subagent, the name. */
export function roleOf(parent: AgentRuntime, childName: string): string {
  return parent.subagent(childName)?.role.name ?? childName;
}

function refusedSpawn({ registry }: RunRuntime, role: string, refusal: SpawnRefusal): RefusedSpawn {
  return registry.find(role) === undefined
    ? { role, refusal }
    : { role, isKnownRole: true, refusal };
}
