// A delegation: it starts subagents and waits for them without a slot (S1). What it starts does not outlive it (T2).

import { invoke, runBounded } from "../../kernel/cancel.ts";
import { shown } from "../../kernel/check.ts";
import { isRecord } from "../../kernel/json.ts";
import type { SpawnOutcome, SpawnRequest, SubagentOutcome } from "../../protocol/subagent.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import { delegationText } from "../../tools/delegation-text.ts";
import type {
  DelegationContext,
  DelegationOutcome,
  SubagentService,
} from "../../tools/tool-context.ts";
import type { DelegatedCall } from "../run-ports.ts";
import type { PlannedCall, CallEnd } from "../effects.ts";
import { type CallOutcome, type PausedChild } from "./call-outcome.ts";
import { serviceWithin } from "./delegation-service.ts";
import { CANCELLED, failed, thrownOutcome } from "./failed-outcome.ts";
import { type Delegator, taskAfterHooks } from "./hooked-task.ts";
import { spawnRequest, startedIds, TOO_LATE, type OpenCall } from "./open-call.ts";
import { perform } from "./record.ts";

/** Runs a delegation from its beginning. */
export async function delegate(
  call: OpenCall,
  { tool, use }: Extract<OwnCall, { readonly type: "delegation" }>,
): Promise<CallOutcome | PausedChild> {
  const ended = await concludeDelegation(call, () =>
    outcomeOfWork(call, tool.name, () => use(delegationContext(call))),
  );
  return { ...ended, subtasks: call.close(), startedIds: startedIds(await call.children()) };
}

/** What becomes of a call whose delegation comes to this. */
async function concludeDelegation(
  { toolName, signal }: OpenCall,
  start: () => Promise<DelegationOutcome>,
): Promise<CallOutcome | PausedChild> {
  try {
    const outcome = await start();
    return outcome.type === "paused" ? outcome : delegatedOutcome(outcome);
  } catch (cause) {
    return signal.aborted ? CANCELLED : thrownOutcome(toolName, cause);
  }
}

/** What a delegation comes to, once all its subagents have settled. Those that are paused and that it does not wait for are ended. */
async function outcomeOfWork(
  call: OpenCall,
  toolName: string,
  work: () => unknown,
): Promise<DelegationOutcome> {
  const { agent } = call;
  const working = invoke(work);
  const bounds = { ...agent.bounds, signal: call.signal };
  let bounded = await runBounded(() => working, bounds);
  if (bounded.type === "abandoned" && call.hasSpawned) {
    await call.children();
    bounded = await runBounded(() => working, bounds);
  }
  call.close();
  const children = await call.children();
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

function delegationContext(call: OpenCall): DelegationContext {
  const { agent, position, delegated } = call;
  let subagents: SubagentService | undefined;
  return Object.freeze({
    ...call.context,
    spawn: (request: SpawnRequest) => {
      const asked = spawnRequest("spawn", request);
      // A subagent that was running when its process died is adopted, to be ended.
      const isInFlight = agent.log?.hasChildOf(position.callId) === true;
      if (call.signal.aborted && !isInFlight) return Promise.resolve(TOO_LATE);
      return call.spawn((nth) => spawnWithHooks(call, asked, { ...delegated, nth }));
    },
    get subagents(): SubagentService {
      return (subagents ??= serviceWithin(call));
    },
  });
}

/** The outcome of a delegation that is not paused. A subagent that did not complete is no success (X15). */
function delegatedOutcome(
  outcome: Exclude<DelegationOutcome, { readonly type: "paused" }>,
): CallOutcome {
  if (outcome.type === "answered") {
    const { text, reportedIds = [] } = outcome;
    return { type: "succeeded", text, reportedIds };
  }
  const text = delegationText(outcome);
  if (outcome.type === "refused") return failed(outcome.refusal.code, text);
  if (outcome.type === "started") return { type: "succeeded", text };
  const { outcome: worth, usage } = outcome.result;
  const counted = { usage: usage.total };
  return worth === "completed"
    ? { type: "succeeded", text, ...counted }
    : failed(SUBAGENT_FAILURES[worth], text, counted);
}

const SUBAGENT_FAILURES = {
  partial: "subagent_partial",
  no_output: "subagent_no_output",
  failed: "subagent_failed",
  cancelled: "subagent_cancelled",
} as const satisfies Record<Exclude<SubagentOutcome, "completed">, ToolFailureCode>;

/** Starts a subagent with the task as hooks changed it. Rejects with the coded error of a hook that broke, and with nothing else. */
export async function spawnWithHooks(
  delegator: Delegator,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { agent } = delegator;
  const isHooked = agent.hooks.points.has("subagentStart");
  // Awaited in any case: all calls of a reply are looked at before the first of them creates a subagent.
  const task = await (isHooked ? taskAfterHooks(delegator, request, call) : request.task);
  return await agent.run.subagents.spawn(agent, { ...request, task }, call);
}

/** Waits further for a subagent that was paused with the call. */
export function resumeDelegation(
  call: OpenCall,
  { childId, subtasks, startedIds }: Extract<PlannedCall["deferral"], { type: "subagent" }>,
): Promise<CallEnd> {
  const { agent } = call;
  return perform(call, async () => ({
    ...(await concludeDelegation(call, () =>
      agent.run.subagents.resume(agent, childId, call.position),
    )),
    ...(subtasks === undefined ? {} : { subtasks }),
    ...(startedIds === undefined ? {} : { startedIds }),
  }));
}
