// One logical model call in this process: leased, made, and kept where the run is kept. Its attempts: model-attempts.ts; hooks around it:
// hooked-model-call.ts.

import { prefixOf, type RequestPrefix } from "../model/request-prefix.ts";
import type { EffectPosition, EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import type { LeaseAsk, LeaseOutcome } from "./account-view.ts";
import type { InferOutcome, RequestFacts } from "./effects.ts";
import { inferWrapped } from "./hooked-model-call.ts";
import type { InferCall } from "./infer-call.ts";
import { inferOnce } from "./model-attempts.ts";

/** Asks for the right to one model call; waits in line while calls in flight may still make room (X2). Never rejects. */
export function reserve(
  agent: AgentRuntime,
  place: EffectPosition,
  ask: LeaseAsk,
): Promise<LeaseOutcome> {
  return agent.effects.reserve(place, async () => {
    agent.time.beginWork();
    const outcome = await agent.account.reserve(ask, agent.stopSignal);
    agent.time.endWork();
    return outcome;
  });
}

/** A call that is paid for, and what is known of its request besides what is in it. */
export type PaidCall = Pick<InferCall, "place" | "lease" | "request"> & {
  readonly facts: RequestFacts;
};

/** One logical model call, its retries and the hooks around it included. The lease is the proof that it is paid for (X1). Never rejects. */
export function callModel(agent: AgentRuntime, paid: PaidCall): Promise<InferOutcome> {
  return agent.effects.infer(paid.place, paid.lease, () => made(agent, paid));
}

async function made(agent: AgentRuntime, paid: PaidCall): Promise<InferOutcome> {
  const { place, lease, request, facts } = paid;
  const { isEstimated } = facts;
  const prefix = place.sideCall === undefined ? prefixFor(agent, paid) : undefined;
  const position = positionOf(place);
  const call: InferCall = { place, position, lease, request, isEstimated, prefix };
  agent.time.beginWork();
  const isHooked = agent.hooks.modelWraps.length > 0;
  const outcome = await (isHooked ? inferWrapped(agent, call) : inferOnce(agent, call));
  agent.time.endWork();
  return outcome;
}

/** Where events of the call belong: to its step, to the tool call that it serves, or to the agent. */
function positionOf({ stepId, sideCall }: EffectPosition): EventPosition {
  if (sideCall === undefined) return { stepId };
  return sideCall.callId === undefined ? {} : { stepId, callId: sideCall.callId };
}

/** How the request begins like the one of the step before. */
function prefixFor(
  agent: AgentRuntime,
  { request, facts: { ephemeral } }: PaidCall,
): RequestPrefix | undefined {
  const last = agent.lastRequest;
  agent.lastRequest = { request, ephemeral };
  return last === undefined ? undefined : prefixOf(last, request);
}
