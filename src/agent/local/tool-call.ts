// One tool call in this process: guard, ask, run, let hooks see to the result, format it. What the model wrote was rewritten, checked
// and admitted before (C44). Nothing of it rejects: whatever goes wrong is a result that the model can read.

import { z } from "zod";

import { runBounded, type BoundedOutcome } from "../../kernel/cancel.ts";
import type { JsonValue } from "../../kernel/json.ts";
import type { Chain } from "../../hooks/hook-set.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import { spanOf, timed } from "../../protocol/step-timing.ts";
import { argumentsOf, rebindCall, type BoundCall, type OwnCall } from "../../tools/bind-call.ts";
import { runInTime } from "../../tools/wrappers/with-timeout.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import { SpawnRequestSchema } from "../../protocol/subagent.ts";
import type { EventPlace } from "../agent-context.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import { toolEffectName } from "../effect-names.ts";
import type { CallEnd, EffectPlace, PlannedCall } from "../effects.ts";
import { errorRecord } from "../life-cycle.ts";
import { applyChain } from "./apply-chain.ts";
import { ended, executed, faceOf, formatted } from "./call-end.ts";
import {
  CANCELLED,
  INTERRUPTED,
  NOT_BEGUN,
  rejectedOutcome,
  returnedOutcome,
  thrownOutcome,
  withinRetries,
  type CallOutcome,
} from "./call-outcome.ts";
import { concludeDelegation, runDelegation, type PausedChild } from "./delegation.ts";
import { callExternally } from "./external-call.ts";
import { hookContext, wrapBounds } from "./hook-bounds.ts";
import type { LocalEffectsOptions } from "./local-options.ts";
import { askForPermission, type Permission } from "./questions.ts";
import { callServices, toolContext, toolRuntime } from "./tool-context.ts";
import { WrappedTime } from "./wrapped-time.ts";

/** Runs one call. Never rejects. */
export function callToolLocally(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): Promise<CallEnd> {
  const { bound, deferral } = planned;
  const use: Use = { place, planned, queuedMs: 0 };
  if (deferral?.type === "subagent") {
    const { childId, subtasks, startedIds } = deferral;
    const where = { stepId: place.stepId, callId: planned.call.callId };
    return perform(options, use, async () => ({
      ...(await concludeDelegation(options, use, () => options.resumeChild(childId, where))),
      ...(subtasks === undefined ? {} : { subtasks }),
      ...(startedIds === undefined ? {} : { startedIds }),
    }));
  }
  switch (bound.type) {
    case "rejected":
      return perform(options, use, () => Promise.resolve(rejectedOutcome(bound)));
    case "finish":
      return perform(options, use, () => Promise.resolve(TAKEN));
    case "external":
      return callExternal(options, use, bound);
    case "delegation":
    case "function":
      return callOwn(options, use, bound);
  }
}

interface Use {
  readonly place: EffectPlace;
  readonly planned: PlannedCall;
  readonly queuedMs: number;
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was taken." };

/** So many subagents start in one turn of the event loop, and the others in the next ones. */
function callOwn(options: LocalEffectsOptions, use: Use, checked: OwnCall): Promise<CallEnd> {
  const turn = checked.type === "delegation" ? options.pace.turn() : undefined;
  return turn === undefined
    ? callNow(options, use, checked)
    : turn.then(() => callNow(options, use, checked));
}

/** Waits for permission without a slot; a function then works within one, a delegation waits for its child without (S1). */
function callNow(options: LocalEffectsOptions, use: Use, checked: OwnCall): Promise<CallEnd> {
  const { log } = options;
  if (hadBegun(options, use, checked))
    return perform(options, use, () => Promise.resolve(INTERRUPTED));
  if (checked.type === "delegation" && log?.hasChildOf(use.planned.call.callId) === true)
    return perform(options, use, () => runDelegation(options, use, checked));
  const permit = log?.outcome(permitName(use));
  if (permit !== undefined)
    return callPermitted(options, use, { type: "granted", bound: permittedCall(checked, permit) });
  if (isHopeless(options, use, checked))
    return perform(options, use, () => runDelegation(refusing(options), use, checked));
  const asked = askForPermission(options, use, checked);
  if (log !== undefined) return callJudged(options, use, asked);
  return asked instanceof Promise
    ? asked.then((permission) => callPermitted(options, use, permission))
    : callPermitted(options, use, asked);
}

/** True for a call that must not be repeated and was under way when its process died. */
function hadBegun({ log }: LocalEffectsOptions, use: Use, { tool }: OwnCall): boolean {
  if (log === undefined || isRepeatable(tool)) return false;
  return log.hadBegun(toolEffectName(use.place, use.planned));
}

/** What somebody has allowed is kept before it is made: nobody is asked twice. */
async function callJudged(
  options: LocalEffectsOptions,
  use: Use,
  asked: Permission | Promise<Permission>,
): Promise<CallEnd> {
  const isAtOnce = !(asked instanceof Promise) && use.planned.deferral === undefined;
  const permission = await asked;
  if (permission.type === "granted" && !isAtOnce)
    await options.log?.keep(permitName(use), { arguments: permission.bound.input });
  return await callPermitted(options, use, permission);
}

/** `permit.3.1`: an effect within the effect of the call. */
function permitName({ place, planned }: Use): string {
  return `permit.${place.stepNumber}.${planned.index}`;
}

/** The call with the arguments that were allowed before its process died. */
function permittedCall(checked: OwnCall, permit: unknown): OwnCall {
  const { arguments: input } = PermitSchema.parse(permit);
  const again = rebindCall(checked.tool, input);
  return again.type === "rejected" ? checked : again;
}

const PermitSchema = z.strictObject({ arguments: JsonValueSchema });

function callPermitted(
  options: LocalEffectsOptions,
  use: Use,
  permission: Permission,
): Promise<CallEnd> {
  const { planned } = use;
  switch (permission.type) {
    case "deferred":
      return Promise.resolve(permission);
    case "cancelled":
      return Promise.resolve(unbegun(options, planned));
    case "refused": {
      const { rejected, failure } = permission;
      forgo(options, use);
      const outcome = rejectedOutcome(rejected);
      const broken = failure === undefined ? outcome : { ...outcome, failure };
      return perform(options, use, () => Promise.resolve(broken));
    }
    case "granted": {
      const { bound } = permission;
      const granted = { ...use, planned: { ...planned, bound } };
      if (bound.type === "function") return runInSlot(options, granted, bound);
      if (options.startSignal.aborted) return Promise.resolve(unbegun(options, planned));
      return perform(options, granted, () => runDelegation(options, granted, bound));
    }
  }
}

/** Whoever was to be started by the call is not. */
function forgo(options: LocalEffectsOptions, { place: { stepId }, planned }: Use): void {
  const { call, history, group } = planned;
  const { callId } = call;
  if (call.toolName === SPAWN_TOOL_NAME) options.forgo({ stepId, callId, history, group });
}

/** True for the start of a subagent that would be refused anyway: it is, before anybody is asked about it (R137). */
function isHopeless(
  options: LocalEffectsOptions,
  { planned: { deferral } }: Use,
  bound: OwnCall,
): bound is Extract<OwnCall, { readonly type: "delegation" }> {
  if (bound.type !== "delegation" || bound.tool.name !== SPAWN_TOOL_NAME) return false;
  const asked = SpawnRequestSchema.safeParse(bound.input);
  return deferral === undefined && asked.success && !options.mayStart(asked.data);
}

/** Nobody was asked about the start: if it has become possible meanwhile, it is refused still. */
function refusing(options: LocalEffectsOptions): LocalEffectsOptions {
  const message =
    "Not started: it could not be started when you asked. It may be possible now: call again.";
  return {
    ...options,
    spawn: async (request, call) =>
      options.mayStart(request)
        ? { type: "refused", refusal: { code: "setup_failed", message } }
        : await options.spawn(request, call),
  };
}

async function runInSlot(
  options: LocalEffectsOptions,
  use: Use,
  bound: Extract<OwnCall, { readonly type: "function" }>,
): Promise<CallEnd> {
  const askedAtMs = options.clock.nowMs();
  const rest = options.working();
  try {
    const end = await options.slots.tool(options.startSignal, () => {
      const queued = { ...use, queuedMs: options.clock.nowMs() - askedAtMs };
      return perform(options, queued, () => run(options, use, bound));
    });
    return end ?? unbegun(options, use.planned, askedAtMs);
  } finally {
    rest();
  }
}

async function callExternal(
  options: LocalEffectsOptions,
  use: Use,
  bound: Extract<BoundCall, { readonly type: "external" }>,
): Promise<CallEnd> {
  const asked = await callExternally(options, use, bound);
  switch (asked.type) {
    case "deferred":
      return asked;
    case "cancelled":
      return unbegun(options, use.planned);
    case "refused":
      return await perform(options, use, () => Promise.resolve(rejectedOutcome(asked.rejected)));
    case "answered":
      return await perform(options, use, () => Promise.resolve(asked.outcome));
  }
}

/** A call of which nothing happened: no event says that it began. */
function unbegun(
  { clock }: LocalEffectsOptions,
  planned: PlannedCall,
  startedAtMs = clock.nowMs(),
): CallEnd {
  return executed(planned, startedAtMs, clock.nowMs(), { ...NOT_BEGUN, isShortened: false });
}

/** Runs `work` between the events that say so. */
async function perform(
  options: LocalEffectsOptions,
  use: Use,
  work: () => Promise<CallOutcome | PausedChild>,
): Promise<CallEnd> {
  const { place, planned, queuedMs } = use;
  const { clock } = options;
  const { toolName, callId } = planned.call;
  const where: EventPlace = { stepId: place.stepId, callId };
  const startedAtMs = clock.nowMs();
  const isResumed = planned.deferral?.type === "subagent";
  options.record(
    { type: isResumed ? "tool.resumed" : "tool.started", toolName, ...faceOf(planned.bound) },
    where,
  );
  options.tell(where, () => ({ type: "arguments", value: inputOf(planned) }));
  const worked = await work();
  const workedAtMs = clock.nowMs();
  const own = worked.type === "paused" ? undefined : worked.spans;
  const spans = own ?? spanOf("tool", startedAtMs, workedAtMs);
  if (worked.type === "paused") {
    options.record({ type: "tool.paused", toolName }, where);
    const { childId, subtasks = [], startedIds = [] } = worked;
    const argumentsText = JSON.stringify(inputOf(planned));
    const left = {
      ...(subtasks.length === 0 ? {} : { subtasks }),
      ...(startedIds.length === 0 ? {} : { startedIds }),
    };
    const deferral = { type: "subagent", callId, childId, argumentsText, ...left } as const;
    return { type: "deferred", deferral, ...timed(spans) };
  }
  const counted = withinRetries(planned, worked);
  const chain = options.hooks.chain("afterTool", toolName);
  const followed = chain.length === 0 ? counted : await followUp(options, use, counted, chain);
  const followedAtMs = clock.nowMs();
  const outcome = formatted(planned, followed);
  const endedAtMs = clock.nowMs();
  options.tell(where, () => ({ type: "result", text: outcome.text }));
  options.record(
    ended(toolName, outcome, { durationMs: endedAtMs - startedAtMs, queuedMs }),
    where,
  );
  const hooks = chain.length === 0 ? [] : spanOf("hooks", workedAtMs, followedAtMs);
  const formatting = spanOf("formatting", followedAtMs, endedAtMs);
  return {
    ...executed(planned, startedAtMs, endedAtMs, outcome),
    ...timed([...spans, ...hooks, ...formatting]),
  };
}

/** The body of a function tool, with the hooks around it and after it. */
async function run(
  options: LocalEffectsOptions,
  use: Use,
  bound: Extract<OwnCall, { readonly type: "function" }>,
): Promise<CallOutcome> {
  const { place, planned } = use;
  const { log } = options;
  if (log !== undefined && !isRepeatable(bound.tool))
    await log.begin(toolEffectName(place, planned));
  const { toolName, callId } = planned.call;
  const services = callServices(options, use);
  const context = toolContext(options, use, services);
  const runtime = toolRuntime(options, use, services);
  const where: EventPlace = { stepId: place.stepId, callId };
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
  const bounded = await runBounded(() => options.within(where, work), options);
  const subtasks = services.close();
  const spans = [...time.hooks, ...time.tool];
  if (options.signal.aborted) return { ...CANCELLED, spans };
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

/** Lets the hooks that follow a call see its result, and change what the model reads of it. */
async function followUp(
  options: LocalEffectsOptions,
  { place, planned }: Use,
  outcome: CallOutcome,
  chain: Chain<"afterTool">,
): Promise<CallOutcome> {
  const { toolName, callId } = planned.call;
  if (options.signal.aborted) return outcome;
  const { type, text } = outcome;
  try {
    const { patch } = await applyChain(options, {
      point: "afterTool",
      chain,
      input: { toolName, callId, arguments: inputOf(planned), outcome: type, text },
      place,
      at: { stepId: place.stepId, callId },
    });
    const { metadata } = patch;
    const noted = metadata === undefined ? {} : { metadata };
    return { ...outcome, text: patch.text ?? text, ...noted };
  } catch (cause) {
    return options.signal.aborted ? outcome : { ...outcome, failure: errorRecord(cause) };
  }
}

/** The arguments with which the call was made, as hooks and answers left them; the text itself, if it is no JSON. */
function inputOf({ bound, argumentsText }: PlannedCall): JsonValue {
  if ("input" in bound) return bound.input;
  try {
    return argumentsOf(argumentsText);
  } catch {
    return argumentsText;
  }
}
