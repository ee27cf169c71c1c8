// A delegation in this process: it starts subagents and waits for them without a queue slot (S1). What it starts does not outlive it (T2).

import { invoke, runBounded } from "../../kernel/cancel.ts";
import { shown } from "../../kernel/check.ts";
import { isRecord } from "../../kernel/json.ts";
import type { SpawnOutcome } from "../../protocol/subagent.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type { DelegationOutcome } from "../../tools/tool-context.ts";
import { CANCELLED, delegatedOutcome, thrownOutcome, type CallOutcome } from "./call-outcome.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  callServices,
  delegationContext,
  type CallServices,
  type PlacedCall,
} from "./call-context.ts";

/** A delegation whose subagent is paused, with what it queued before. */
export type PausedChild = Extract<SpawnOutcome, { readonly type: "paused" }> &
  Pick<CallOutcome, "subtasks" | "startedIds">;

/** Runs a delegation from its beginning. */
export async function runDelegation(
  agent: AgentRuntime,
  call: PlacedCall,
  { tool, use }: Extract<OwnCall, { readonly type: "delegation" }>,
): Promise<CallOutcome | PausedChild> {
  const services = callServices(agent, call);
  const ended = await concludeDelegation(call, () =>
    outcomeOfWork(agent, call, {
      services,
      toolName: tool.name,
      work: () => use(delegationContext(agent, call, services)),
    }),
  );
  const startedIds = await services.startedIds();
  return { ...ended, subtasks: services.close(), startedIds };
}

/** What becomes of a call whose delegation comes to this. */
export async function concludeDelegation(
  { planned, signal }: PlacedCall,
  start: () => Promise<DelegationOutcome>,
): Promise<CallOutcome | PausedChild> {
  try {
    const outcome = await start();
    return outcome.type === "paused" ? outcome : delegatedOutcome(outcome);
  } catch (cause) {
    if (signal.aborted) return CANCELLED;
    return thrownOutcome(planned.call.toolName, cause);
  }
}

interface Work {
  readonly services: CallServices;
  readonly toolName: string;
  readonly work: () => unknown;
}

/** What a delegation comes to, once all its subagents rest. Those that are paused and that it does not wait for are ended. */
async function outcomeOfWork(
  agent: AgentRuntime,
  { signal }: PlacedCall,
  { services, toolName, work }: Work,
): Promise<DelegationOutcome> {
  const working = invoke(work);
  const bounds = { ...agent.bounds, signal };
  let bounded = await runBounded(() => working, bounds);
  if (bounded.type === "abandoned" && services.hasSpawned) {
    await services.children();
    bounded = await runBounded(() => working, bounds);
  }
  services.close();
  const children = await services.children();
  const paused = children.flatMap((child) =>
    child.status === "fulfilled" && child.value.type === "paused" ? [child.value.childId] : [],
  );
  const broken = children.find((child) => child.status === "rejected");
  const given = bounded.type === "returned" ? bounded.value : undefined;
  const outcome = isOutcome(given) ? given : undefined;
  const isKept = broken === undefined && bounded.type === "returned";
  const kept = isKept && outcome?.type === "paused" ? outcome.childId : undefined;
  const forgotten = paused.filter((childId) => childId !== kept);
  await Promise.all(forgotten.map((childId) => agent.run.subagents.dismiss(agent, childId)));
  if (broken !== undefined) throw broken.reason;
  if (bounded.type === "threw") throw bounded.error;
  if (outcome === undefined || (kept !== undefined && !paused.includes(kept)))
    throw new TypeError(
      `Expected the delegation ${toolName} to return what context.spawn or context.subagents gave, got ${shown(given)}. Return it as it is.`,
    );
  return outcome;
}

/** True for what the context gives, and for a refusal or an answer of the delegation's own. */
function isOutcome(value: unknown): value is DelegationOutcome {
  if (!isRecord(value)) return false;
  const { type, result, refusal, childId } = value;
  if (type === "answered") return typeof value["text"] === "string";
  if (type === "started")
    return typeof childId === "string" && typeof value["childName"] === "string";
  if (type === "settled") return isRecord(result) && isRecord(result["usage"]);
  if (type === "refused") return isRecord(refusal) && typeof refusal["message"] === "string";
  return type === "paused" && typeof childId === "string";
}
