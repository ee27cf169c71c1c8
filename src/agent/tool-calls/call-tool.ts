// One tool call in this process: guard, ask, run. What the model wrote was rewritten, checked and admitted before (C44). Nothing of it
// rejects: whatever goes wrong is a result that the model can read.

import { z } from "zod";

import { runBounded, type BoundedOutcome } from "../../kernel/cancel.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import { spanOf } from "../../protocol/step-timing.ts";
import {
  rebindCall,
  type BoundCall,
  type OwnCall,
  type RejectedCall,
} from "../../tools/bind-call.ts";
import { runInTime } from "../../tools/wrappers/with-timeout.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import { toolEffectName } from "../effect-names.ts";
import type { CallEnd, EffectPlace, PlannedCall } from "../effects.ts";
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
import { hookContext, wrapBounds } from "../hook-bounds.ts";
import { isJudged } from "./guards.ts";
import type { DelegatedCall, LocalEffectsOptions } from "../local-options.ts";
import { askForPermission, permittedAgain, type Permission } from "./questions.ts";
import { callServices, toolContext, toolRuntime, type PlacedCall } from "./call-context.ts";
import { WrappedTime } from "../wrapped-time.ts";

/** Runs one call. Never rejects. */
export function callToolLocally(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): Promise<CallEnd> {
  const { bound, deferral } = planned;
  const call: PlacedCall = { place, planned };
  if (deferral?.type === "subagent") {
    const { childId, subtasks, startedIds } = deferral;
    return perform(options, call, async () => ({
      ...(await concludeDelegation(options, call, () =>
        options.resumeChild(childId, placeOf(call)),
      )),
      ...(subtasks === undefined ? {} : { subtasks }),
      ...(startedIds === undefined ? {} : { startedIds }),
    }));
  }
  switch (bound.type) {
    case "rejected":
      return reject(options, call, forbiddenOutcome(options, call, bound));
    case "finish":
      return perform(options, call, () => Promise.resolve(TAKEN));
    case "external":
      return callExternal(options, call, bound);
    case "delegation":
    case "function":
      return callOwn(options, call, bound);
  }
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was taken." };

/** So many subagents start in one turn of the event loop, and the others in the next ones. */
function callOwn(
  options: LocalEffectsOptions,
  call: PlacedCall,
  checked: OwnCall,
): Promise<CallEnd> {
  const turn = checked.type === "delegation" ? options.pace.turn() : undefined;
  return turn === undefined
    ? callNow(options, call, checked)
    : turn.then(() => callNow(options, call, checked));
}

/** Waits for permission without a slot; a function then works within one, a delegation waits for its child without (S1). */
function callNow(
  options: LocalEffectsOptions,
  call: PlacedCall,
  checked: OwnCall,
): Promise<CallEnd> {
  const { log } = options;
  if (hadBegun(options, call, checked)) return reject(options, call, INTERRUPTED);
  if (checked.type === "delegation" && log?.hasChildOf(call.planned.call.callId) === true)
    return perform(options, call, () => runDelegation(options, call, checked));
  const permit = log?.outcome(permitName(call));
  if (permit !== undefined)
    return permitted(options, call, checked, permit).then((permission) =>
      callPermitted(options, call, permission),
    );
  const impossible = refusedSpawn(options, call, checked);
  if (impossible !== undefined) return reject(options, call, refusedOutcome(impossible));
  const asked = askForPermission(options, call, checked);
  if (log !== undefined) return callJudged(options, call, asked);
  return asked instanceof Promise
    ? asked.then((permission) => callPermitted(options, call, permission))
    : callPermitted(options, call, asked);
}

/** True for a call that must not be repeated and was under way when its process died. */
function hadBegun({ log }: LocalEffectsOptions, call: PlacedCall, { tool }: OwnCall): boolean {
  if (log === undefined || isRepeatable(tool)) return false;
  return log.hadBegun(toolEffectName(call.place, call.planned));
}

/** What somebody has allowed is kept before it is made: nobody is asked twice. */
async function callJudged(
  options: LocalEffectsOptions,
  call: PlacedCall,
  asked: Permission | Promise<Permission>,
): Promise<CallEnd> {
  const isAtOnce = !(asked instanceof Promise) && call.planned.deferral === undefined;
  const permission = await asked;
  if (permission.type === "granted" && !isAtOnce)
    await options.log?.keep(permitName(call), { arguments: permission.bound.input });
  return await callPermitted(options, call, permission);
}

/** `permit.3.1`: an effect within the effect of the call. */
function permitName({ place, planned }: PlacedCall): string {
  return `permit.${place.stepNumber}.${planned.index}`;
}

/** The call with the arguments that were allowed before its process died, if its schema and the guards still allow them. */
async function permitted(
  options: LocalEffectsOptions,
  call: PlacedCall,
  { tool }: OwnCall,
  permit: unknown,
): Promise<Permission> {
  const bound = rebindCall(tool, PermitSchema.parse(permit).arguments);
  return bound.type === "rejected"
    ? { type: "refused", rejected: bound }
    : await permittedAgain(options, call, bound);
}

const PermitSchema = z.strictObject({ arguments: JsonValueSchema });

function callPermitted(
  options: LocalEffectsOptions,
  call: PlacedCall,
  permission: Permission,
): Promise<CallEnd> {
  const { planned } = call;
  switch (permission.type) {
    case "deferred":
      return Promise.resolve(permission);
    case "cancelled":
      return Promise.resolve(leaveUnbegun(options, call));
    case "refused": {
      const { rejected, failure } = permission;
      forgo(options, call);
      const outcome = forbiddenOutcome(options, call, rejected);
      return reject(options, call, failure === undefined ? outcome : { ...outcome, failure });
    }
    case "granted": {
      const { bound } = permission;
      const granted = { ...call, planned: { ...planned, bound } };
      const claiming = options.log?.claimed();
      return claiming === undefined
        ? callGranted(options, granted, bound)
        : claiming.then(() => callGranted(options, granted, bound));
    }
  }
}

function callGranted(
  options: LocalEffectsOptions,
  call: PlacedCall,
  bound: OwnCall,
): Promise<CallEnd> {
  if (bound.type === "function") return runInSlot(options, call, bound);
  if (options.startSignal.aborted) return Promise.resolve(leaveUnbegun(options, call));
  return perform(options, call, () => runDelegation(options, call, bound));
}

/** The subagent that was to be started by the call is not. */
function forgo(options: LocalEffectsOptions, call: PlacedCall): void {
  if (call.planned.call.toolName === SPAWN_TOOL_NAME) options.forgo(delegatedBy(call));
}

/** The outcome of a call that does not run. One that would have started a subagent, and that a guard or a rule forbids, is a refused spawn (X14). */
function forbiddenOutcome(
  options: LocalEffectsOptions,
  call: PlacedCall,
  rejected: RejectedCall,
): FailedOutcome {
  const outcome = rejectedOutcome(rejected);
  const { planned } = call;
  const { code, text: message } = rejected;
  const isForbidden = code === "blocked" || code === "tool_not_available";
  if (planned.call.toolName !== SPAWN_TOOL_NAME || !isForbidden) return outcome;
  const refusal = { code, message };
  const spawn = options.forbidSpawn(writtenArguments(planned), refusal, delegatedBy(call));
  return spawn === undefined ? outcome : { ...outcome, spawn };
}

/** Why the subagent that the call asks for cannot be started as things stand: nobody has to be asked about it (R137). */
function refusedSpawn(
  options: LocalEffectsOptions,
  call: PlacedCall,
  bound: OwnCall,
): RefusedSpawn | undefined {
  const isSpawn = bound.tool.name === SPAWN_TOOL_NAME;
  if (!isSpawn || call.planned.deferral !== undefined) return undefined;
  return options.refuseSpawn(bound.input, delegatedBy(call), isJudged(options, call, bound));
}

function delegatedBy(call: PlacedCall): DelegatedCall {
  const { history, group } = call.planned;
  return { ...placeOf(call), history, group };
}

async function runInSlot(
  options: LocalEffectsOptions,
  call: PlacedCall,
  bound: Extract<OwnCall, { readonly type: "function" }>,
): Promise<CallEnd> {
  const askedAtMs = options.clock.nowMs();
  const rest = options.working();
  try {
    const end = await options.slots.tool(options.startSignal, () => {
      const queuedMs = options.clock.nowMs() - askedAtMs;
      return perform(options, call, () => run(options, call, bound), queuedMs);
    });
    return end ?? leaveUnbegun(options, call, askedAtMs);
  } finally {
    rest();
  }
}

async function callExternal(
  options: LocalEffectsOptions,
  call: PlacedCall,
  bound: Extract<BoundCall, { readonly type: "external" }>,
): Promise<CallEnd> {
  const asked = await callExternally(options, call, bound);
  switch (asked.type) {
    case "deferred":
      return asked;
    case "cancelled":
      return leaveUnbegun(options, call);
    case "refused":
      return await reject(options, call, asked.outcome);
    case "answered":
      return await perform(options, call, () => Promise.resolve(asked.outcome));
  }
}

/** The body of a function tool, with the hooks around it and after it. */
async function run(
  options: LocalEffectsOptions,
  call: PlacedCall,
  bound: Extract<OwnCall, { readonly type: "function" }>,
): Promise<CallOutcome> {
  const { place, planned } = call;
  const { log } = options;
  if (log !== undefined && !isRepeatable(bound.tool))
    await log.begin(toolEffectName(place, planned));
  const { toolName, callId } = planned.call;
  const services = callServices(options, call);
  const context = toolContext(options, call, services);
  const runtime = toolRuntime(options, call, services);
  const wraps = options.hooks.toolWraps(toolName);
  const { timeoutMs } = planned.settings;
  const time = new WrappedTime(options.clock);
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
            context: hookContext(options, place, hookName),
          }),
          body,
          wrapBounds(options),
        );
  const { callSignal, clock, graceMs } = options;
  const bounds = { signal: callSignal, clock, graceMs };
  const bounded = await runBounded(() => options.within(placeOf(call), work), bounds);
  const subtasks = services.close();
  const spans = [...time.hooks, ...time.tool];
  // What an agent that only stops was given in time is a result; what the abort made the tool throw is none.
  const hasResult = bounded.type === "returned" && !options.signal.aborted;
  if (callSignal.aborted && !hasResult) return { ...CANCELLED, spans };
  const workedAtMs = options.clock.nowMs();
  const outcome = outcomeOf(toolName, bounded);
  const formatting = spanOf("formatting", workedAtMs, options.clock.nowMs());
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
