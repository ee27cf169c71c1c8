// One tool call in this process: guard, ask, run. What the model wrote was rewritten, checked and admitted before (C44). Nothing of it
// rejects: whatever goes wrong is a result that the model can read.

import { z } from "zod";

import { runBounded, type BoundedOutcome } from "../../kernel/cancel.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import { spanOf } from "../../protocol/step-timing.ts";
import { rebindCall, type BoundCall, type OwnCall } from "../../tools/bind-call.ts";
import { type RejectedCall } from "../../tools/rejected-call.ts";
import { runInTime } from "../../tools/wrappers/with-timeout.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import { toolEffectName } from "../effect-names.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import { leaveUnbegun, perform, placeOf, reject, writtenArguments } from "./call-events.ts";
import {
  CANCELLED,
  INTERRUPTED,
  refusedOutcome,
  rejectedOutcome,
  returnedOutcome,
  thrownOutcome,
  type CallOutcome,
  type FailedOutcome,
  type RefusedSpawn,
} from "./call-outcome.ts";
import { concludeDelegation, runDelegation } from "./delegate.ts";
import { callExternally } from "./external-call.ts";
import { hookContext } from "../hook-bounds.ts";
import { isJudged } from "./guards.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { DelegatedCall } from "../run-ports.ts";
import type { ReplyCalls } from "./reply-calls.ts";
import { askForPermission, permittedAgain, type Permission } from "./questions.ts";
import { callServices, toolContext, toolRuntime, type PlacedCall } from "./call-context.ts";
import { WrappedTime } from "../wrapped-time.ts";

/** One tool call: asks for an approval where it needs one, runs it, and lets hooks see its result. Never rejects. */
export function callTool(
  agent: AgentRuntime,
  { place, signal }: ReplyCalls,
  planned: PlannedCall,
): Promise<CallEnd> {
  const { stepId } = place;
  const { callId } = planned.call;
  const work = (one: PlannedCall): Promise<CallEnd> =>
    agent.at({ stepId, callId }, () => runCall(agent, { place, planned: one, signal }));
  return agent.log === undefined ? work(planned) : agent.log.callTool(place, planned, work);
}

function runCall(agent: AgentRuntime, call: PlacedCall): Promise<CallEnd> {
  const { bound, deferral } = call.planned;
  if (deferral?.type === "subagent") {
    const { childId, subtasks, startedIds } = deferral;
    return perform(agent, call, async () => ({
      ...(await concludeDelegation(call, () =>
        agent.run.subagents.resume(agent, childId, placeOf(call)),
      )),
      ...(subtasks === undefined ? {} : { subtasks }),
      ...(startedIds === undefined ? {} : { startedIds }),
    }));
  }
  switch (bound.type) {
    case "rejected":
      return reject(agent, call, forbiddenOutcome(agent, call, bound));
    case "finish":
      return perform(agent, call, () => Promise.resolve(TAKEN));
    case "external":
      return callExternal(agent, call, bound);
    case "delegation":
    case "function":
      return callOwn(agent, call, bound);
  }
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was taken." };

/** So many subagents start in one turn of the event loop, and the others in the next ones. */
function callOwn(agent: AgentRuntime, call: PlacedCall, checked: OwnCall): Promise<CallEnd> {
  const turn = checked.type === "delegation" ? agent.run.throttle.turn() : undefined;
  return turn === undefined
    ? callNow(agent, call, checked)
    : turn.then(() => callNow(agent, call, checked));
}

/** Waits for permission without a slot; a function then works within one, a delegation waits for its child without (S1). */
function callNow(agent: AgentRuntime, call: PlacedCall, checked: OwnCall): Promise<CallEnd> {
  const { log } = agent;
  if (hadBegun(agent, call, checked)) return reject(agent, call, INTERRUPTED);
  if (checked.type === "delegation" && log?.hasChildOf(call.planned.call.callId) === true)
    return perform(agent, call, () => runDelegation(agent, call, checked));
  const permit = log?.outcome(permitName(call));
  if (permit !== undefined)
    return permitted(agent, call, checked, permit).then((permission) =>
      callPermitted(agent, call, permission),
    );
  const impossible = refusedSpawn(agent, call, checked);
  if (impossible !== undefined) return reject(agent, call, refusedOutcome(impossible));
  const asked = askForPermission(agent, call, checked);
  if (log !== undefined) return callJudged(agent, call, asked);
  return asked instanceof Promise
    ? asked.then((permission) => callPermitted(agent, call, permission))
    : callPermitted(agent, call, asked);
}

/** True for a call that must not be repeated and was under way when its process died. */
function hadBegun({ log }: AgentRuntime, call: PlacedCall, { tool }: OwnCall): boolean {
  if (log === undefined || isRepeatable(tool)) return false;
  return log.hadBegun(toolEffectName(call.place, call.planned));
}

/** What somebody has allowed is kept before it is made: nobody is asked twice. */
async function callJudged(
  agent: AgentRuntime,
  call: PlacedCall,
  asked: Permission | Promise<Permission>,
): Promise<CallEnd> {
  const isAtOnce = !(asked instanceof Promise) && call.planned.deferral === undefined;
  const permission = await asked;
  if (permission.type === "granted" && !isAtOnce)
    await agent.log?.keep(permitName(call), { arguments: permission.bound.input });
  return await callPermitted(agent, call, permission);
}

/** `permit.3.1`: an effect within the effect of the call. */
function permitName({ place, planned }: PlacedCall): string {
  return `permit.${place.stepNumber}.${planned.index}`;
}

/** The call with the arguments that were allowed before its process died, if its schema and the guards still allow them. */
async function permitted(
  agent: AgentRuntime,
  call: PlacedCall,
  { tool }: OwnCall,
  permit: unknown,
): Promise<Permission> {
  const bound = rebindCall(tool, PermitSchema.parse(permit).arguments);
  return bound.type === "rejected"
    ? { type: "refused", rejected: bound }
    : await permittedAgain(agent, call, bound);
}

const PermitSchema = z.strictObject({ arguments: JsonValueSchema });

function callPermitted(
  agent: AgentRuntime,
  call: PlacedCall,
  permission: Permission,
): Promise<CallEnd> {
  const { planned } = call;
  switch (permission.type) {
    case "deferred":
      return Promise.resolve(permission);
    case "cancelled":
      return Promise.resolve(leaveUnbegun(agent, call));
    case "refused": {
      const { rejected, failure } = permission;
      forgo(agent, call);
      const outcome = forbiddenOutcome(agent, call, rejected);
      return reject(agent, call, failure === undefined ? outcome : { ...outcome, failure });
    }
    case "granted": {
      const { bound } = permission;
      const granted = { ...call, planned: { ...planned, bound } };
      const claiming = agent.log?.claimed();
      return claiming === undefined
        ? callGranted(agent, granted, bound)
        : claiming.then(() => callGranted(agent, granted, bound));
    }
  }
}

function callGranted(agent: AgentRuntime, call: PlacedCall, bound: OwnCall): Promise<CallEnd> {
  if (bound.type === "function") return runInSlot(agent, call, bound);
  if (call.signal.aborted) return Promise.resolve(leaveUnbegun(agent, call));
  return perform(agent, call, () => runDelegation(agent, call, bound));
}

/** The subagent that was to be started by the call is not. */
function forgo(agent: AgentRuntime, call: PlacedCall): void {
  if (call.planned.call.toolName === SPAWN_TOOL_NAME)
    agent.run.subagents.forgo(agent, delegatedBy(call));
}

/** The outcome of a call that does not run. One that would have started a subagent, and that a guard or a rule forbids, is a refused spawn (X14). */
function forbiddenOutcome(
  agent: AgentRuntime,
  call: PlacedCall,
  rejected: RejectedCall,
): FailedOutcome {
  const outcome = rejectedOutcome(rejected);
  const { planned } = call;
  const { code, text: message } = rejected;
  const isForbidden = code === "blocked" || code === "tool_not_available";
  if (planned.call.toolName !== SPAWN_TOOL_NAME || !isForbidden) return outcome;
  const refusal = { code, message };
  const spawn = agent.run.subagents.forbid(
    agent,
    writtenArguments(planned),
    refusal,
    delegatedBy(call),
  );
  return spawn === undefined ? outcome : { ...outcome, spawn };
}

/** Why the subagent that the call asks for cannot be started as things stand: nobody has to be asked about it (R137). */
function refusedSpawn(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: OwnCall,
): RefusedSpawn | undefined {
  const isSpawn = bound.tool.name === SPAWN_TOOL_NAME;
  if (!isSpawn || call.planned.deferral !== undefined) return undefined;
  return agent.run.subagents.refuse(
    agent,
    bound.input,
    delegatedBy(call),
    isJudged(agent, call, bound),
  );
}

function delegatedBy(call: PlacedCall): DelegatedCall {
  const { history, group } = call.planned;
  return { ...placeOf(call), history, group };
}

async function runInSlot(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: Extract<OwnCall, { readonly type: "function" }>,
): Promise<CallEnd> {
  const askedAtMs = agent.nowMs();
  const rest = agent.time.working();
  try {
    const end = await agent.run.limiter.tool(call.signal, () => {
      const queuedMs = agent.nowMs() - askedAtMs;
      return perform(agent, call, () => run(agent, call, bound), queuedMs);
    });
    return end ?? leaveUnbegun(agent, call, askedAtMs);
  } finally {
    rest();
  }
}

async function callExternal(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: Extract<BoundCall, { readonly type: "external" }>,
): Promise<CallEnd> {
  const asked = await callExternally(agent, call, bound);
  switch (asked.type) {
    case "deferred":
      return asked;
    case "cancelled":
      return leaveUnbegun(agent, call);
    case "refused":
      return await reject(agent, call, asked.outcome);
    case "answered":
      return await perform(agent, call, () => Promise.resolve(asked.outcome));
  }
}

/** The body of a function tool, with the hooks around it and after it. */
async function run(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: Extract<OwnCall, { readonly type: "function" }>,
): Promise<CallOutcome> {
  const { place, planned } = call;
  const { log } = agent;
  if (log !== undefined && !isRepeatable(bound.tool))
    await log.begin(toolEffectName(place, planned));
  const { toolName, callId } = planned.call;
  const services = callServices(agent, call);
  const context = toolContext(agent, call, services);
  const runtime = toolRuntime(agent, call, services);
  const wraps = agent.hooks.toolWraps(toolName);
  const { timeoutMs } = planned.settings;
  const time = new WrappedTime(agent.run.clock);
  const body = async (): Promise<unknown> => {
    const leave = time.inside();
    try {
      return timeoutMs === undefined
        ? await bound.use.run(context, runtime)
        : await runInTime(bound.use, context, runtime, timeoutMs);
    } finally {
      leave();
    }
  };
  const work = (): Promise<unknown> =>
    wraps.length === 0
      ? body()
      : wrapped(
          wraps,
          (hookName) => ({
            toolName,
            callId,
            arguments: bound.input,
            context: hookContext(agent, place.stepNumber, hookName),
          }),
          body,
          agent.bounds,
        );
  const { signal } = call;
  const bounds = { ...agent.bounds, signal };
  const bounded = await runBounded(() => agent.within(placeOf(call), work), bounds);
  const subtasks = services.close();
  const spans = [...time.hooks, ...time.tool];
  // What an agent that only stops was given in time is a result; what the abort made the tool throw is none.
  const hasResult = bounded.type === "returned" && !agent.signal.aborted;
  if (signal.aborted && !hasResult) return { ...CANCELLED, spans };
  const workedAtMs = agent.nowMs();
  const outcome = outcomeOf(toolName, bounded);
  const formatting = spanOf("formatting", workedAtMs, agent.nowMs());
  return { ...outcome, subtasks, spans: [...spans, ...formatting] };
}

function isRepeatable(tool: OwnCall["tool"]): boolean {
  return tool.kind !== "function" || tool.isRepeatable;
}

function outcomeOf(toolName: string, bounded: BoundedOutcome<unknown>): CallOutcome {
  if (bounded.type === "abandoned") return CANCELLED;
  try {
    if (bounded.type === "threw") return thrownOutcome(toolName, bounded.error);
    return returnedOutcome(bounded.value);
  } catch (cause) {
    return thrownOutcome(toolName, cause);
  }
}
