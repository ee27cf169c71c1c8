// A model call besides that of the step: a summary. It is leased, made, charged and recorded like any other (X1), and is no step.

import { countInputTokens } from "../../model/count-tokens.ts";
import type { ModelRequest } from "../../model/model.ts";
import { timingOf, type StepTiming } from "../../protocol/step-timing.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { EventPosition } from "../agent-identity.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { NO_PREFIX } from "../agent-state.ts";
import type { InferOutcome } from "../effects.ts";
import type { EffectPosition } from "../agent-identity.ts";
import { callModel, reserve } from "../model-call.ts";

/** A call to make. */
export interface SideCall {
  readonly place: EffectPosition;
  /** Where its events belong. */
  readonly at: EventPosition;
  readonly request: ModelRequest;
}

/** What came of it. */
export interface SideCallReply {
  /** Undefined: it was not paid for. */
  readonly usage: Usage | undefined;
  /** What its time went into; absent: it was not made. */
  readonly timing?: StepTiming;
  /** Time that it waited for the budget. */
  readonly waitedMs: number;
  /** Undefined: the model gave nothing that could be used. */
  readonly text: string | undefined;
}

/** The lease, the model call, the settlement. */
export async function makeSideCall(agent: AgentRuntime, call: SideCall): Promise<SideCallReply> {
  const { role } = agent;
  const { place, at, request } = call;
  const { maxOutputTokens: most } = request;
  const { tokens: inputTokens, isEstimated } = countInputTokens(role.model, request, NO_PREFIX);
  const { price, minOutputTokens } = role.model;
  const ask = { inputTokens, maxOutputTokens: most, minOutputTokens, price, steps: 0 } as const;
  const reserved = await reserve(agent, place, ask);
  const { waitedMs } = reserved;
  if (reserved.type === "refused")
    agent.effects.record({ type: "budget.denied", ...reserved.refusal }, at);
  if (reserved.type !== "granted") return { usage: undefined, waitedMs, text: undefined };
  const { lease } = reserved;
  const { leaseId, maxOutputTokens } = lease;
  agent.effects.record(
    {
      type: "budget.reserved",
      leaseId,
      inputTokens: lease.inputTokens,
      maxOutputTokens,
      waitedMs,
    },
    at,
  );
  const facts = { isEstimated, ephemeral: 0 };
  const capped = Object.freeze({ ...request, maxOutputTokens });
  const outcome = await callModel(agent, { place, lease, request: capped, facts });
  const usage = { ...outcome.usage, steps: 0 };
  const { account } = agent;
  agent.effects.settle(lease, usage);
  const remaining = account.remaining();
  const runRemaining = account.runRemaining();
  agent.effects.record({ type: "budget.settled", leaseId, usage, remaining, runRemaining }, at);
  if (outcome.type === "refused")
    agent.effects.record({ type: "budget.denied", ...outcome.refusal }, at);
  const timing = timingOf(outcome.spans ?? []);
  return { usage, timing, waitedMs, text: textOf(outcome) };
}

function textOf(outcome: InferOutcome): string | undefined {
  if (outcome.type !== "replied") return undefined;
  const { text, refusal } = outcome.reply.message;
  return refusal === undefined && text.trim() !== "" ? text : undefined;
}
