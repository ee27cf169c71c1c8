// A delegation: it starts subagents and waits for them without a slot (S1). What it starts does not outlive it (T2).

import { invoke, runBounded } from "../../kernel/cancel.ts";
import { checkKeys, checkText, shown } from "../../kernel/check.ts";
import { isRecord } from "../../kernel/json.ts";
import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type {
  ContinueRequest,
  DelegationContext,
  DelegationOutcome,
  SubagentService,
  WaitRequest,
} from "../../tools/tool-context.ts";
import { delegatedOutcome, type CallOutcome } from "./call-outcome.ts";
import { CANCELLED, thrownOutcome } from "./failed-outcome.ts";
import { spawnRequest, startedIds, TOO_LATE, type OpenCall } from "./open-call.ts";
import { continueWithHooks, spawnWithHooks } from "./spawn.ts";

/** A delegation whose subagent is paused, with what it queued before. */
export type PausedChild = Extract<SpawnOutcome, { readonly type: "paused" }> &
  Pick<CallOutcome, "subtasks" | "startedIds">;

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
export async function concludeDelegation(
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

/** What a call may do with the agent's subagents, until it ends. */
function serviceWithin(call: OpenCall): SubagentService {
  const { agent, delegated } = call;
  const service = agent.run.subagents.serviceFor(agent, delegated);
  return Object.freeze({
    ...service,
    wait: async (request?: WaitRequest) => (call.isClosed ? TOO_LATE : await service.wait(request)),
    message: (childName: string, text: string) =>
      call.isClosed ? TOO_LATE : service.message(childName, text),
    cancel: async (childName: string, reason?: string) =>
      call.isClosed ? TOO_LATE : await service.cancel(childName, reason),
    continue: (request: ContinueRequest) => {
      checkContinue(request);
      return call.spawn((nth) => continueWithHooks(call, request, { ...delegated, nth }));
    },
  });
}

function checkContinue(request: ContinueRequest): void {
  const fields = ["childName", "task", "background", "role", "resultsOf", "draft"];
  checkKeys("continue", request, fields);
  checkText("continue.childName", request.childName);
  checkText("continue.task", request.task);
}
