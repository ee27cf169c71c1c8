// One tool call in this process: ask, where the call needs an approval; run; let hooks see to the result. What the model wrote was
// rewritten, checked and admitted before (C44). Nothing of it rejects: whatever goes wrong is a result that the model can read.

import { runBounded, type BoundedOutcome } from "../../kernel/cancel.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import type { Chain } from "../../hooks/hook-set.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { Usage } from "../../protocol/usage.ts";
import { argumentsOf, type BoundCall } from "../../tools/bind-call.ts";
import { delegationText } from "../../tools/delegation-text.ts";
import { resultText } from "../../tools/result-text.ts";
import type { EventPlace } from "../agent-context.ts";
import { applyChain } from "./apply-chain.ts";
import { askForPermission, externalQuestion, type Permission } from "./questions.ts";
import type { CallEnd, EffectPlace, PlannedCall } from "../effects.ts";
import { hookContext, wrapBounds } from "./hook-bounds.ts";
import { errorRecord } from "../life-cycle.ts";
import type { LocalEffectsOptions } from "./local-options.ts";
import { delegationContext, SubtaskQueue, toolContext } from "./tool-context.ts";

/** How a tool call came out, before it is stamped. */
export interface CallOutcome {
  readonly type: ToolExecution["type"];
  readonly text: string;
  readonly errorCode?: string;
  /** The hook that denied it. */
  readonly blockedBy?: string;
  /** What a delegated subtree consumed. */
  readonly usage?: Usage;
  readonly metadata?: JsonObject;
  readonly subtasks?: readonly SpawnRequest[];
  /** Set when a hook broke: the call has its result, and the execution fails. */
  readonly failure?: ErrorRecord;
}

type Bound<Type extends BoundCall["type"]> = Extract<BoundCall, { readonly type: Type }>;

/** Runs one call. Never rejects. */
export async function callToolLocally(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): Promise<CallEnd> {
  const { bound } = planned;
  const use: Use = { place, planned, queuedMs: 0 };
  if (planned.deferral?.type === "subagent") {
    const { childId } = planned.deferral;
    const where = { stepId: place.stepId, callId: planned.call.callId };
    return await perform(options, use, () =>
      delegate(options, use, () => options.resumeChild(childId, where)),
    );
  }
  switch (bound.type) {
    case "rejected":
      return await perform(options, use, () => Promise.resolve(refused(bound)));
    case "finish":
      return await perform(options, use, () => Promise.resolve(TAKEN));
    case "external":
      return await callExternal(options, use, bound);
    case "delegation":
      return await perform(options, use, () =>
        delegate(options, use, () => bound.use(delegationContext(options, place, planned))),
      );
    case "function":
      return await callFunction(options, use, bound);
  }
}

interface Use {
  readonly place: EffectPlace;
  readonly planned: PlannedCall;
  readonly queuedMs: number;
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was taken." };

const CANCELLED: CallOutcome = {
  type: "cancelled",
  text: "Cancelled: the agent was told to end before this call had a result.",
  errorCode: "cancelled",
};

const NOT_BEGUN: CallOutcome = {
  type: "not_executed",
  text: "Not executed: the agent was told to end before this call could begin.",
  errorCode: "not_executed",
};

/** Waits for permission without a slot, and works within one. */
async function callFunction(
  options: LocalEffectsOptions,
  use: Use,
  bound: Bound<"function">,
): Promise<CallEnd> {
  const { place, planned } = use;
  const asked = askForPermission(options, place, planned, bound);
  const permission = asked instanceof Promise ? await asked : asked;
  switch (permission.type) {
    case "deferred":
      return permission;
    case "cancelled":
      return executed(planned, options.clock.nowMs(), options.clock.nowMs(), NOT_BEGUN);
    case "refused":
      return await perform(options, use, () => Promise.resolve(refusedBy(permission)));
    case "granted": {
      const { bound } = permission;
      const granted = { ...use, planned: { ...planned, bound } };
      const askedAtMs = options.clock.nowMs();
      const rest = options.working();
      try {
        const end = await options.slots.tool(options.startSignal, () => {
          const queued = { ...granted, queuedMs: options.clock.nowMs() - askedAtMs };
          return perform(options, queued, () => run(options, granted, bound));
        });
        return end ?? executed(planned, askedAtMs, options.clock.nowMs(), NOT_BEGUN);
      } finally {
        rest();
      }
    }
  }
}

async function callExternal(
  options: LocalEffectsOptions,
  use: Use,
  bound: Bound<"external">,
): Promise<CallEnd> {
  const asked = externalQuestion(options, use.place, use.planned, bound);
  if (asked.type === "deferred") return asked;
  return await perform(options, use, () => Promise.resolve(asked.outcome));
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
  const worked = await work();
  if (worked.type === "paused") {
    options.record({ type: "tool.paused", toolName }, where);
    const { childId } = worked;
    const argumentsText = JSON.stringify(inputOf(planned));
    return { type: "deferred", deferral: { type: "subagent", callId, childId, argumentsText } };
  }
  const chain = options.hooks.chain("afterTool", toolName);
  const outcome = chain.length === 0 ? worked : await followUp(options, use, worked, chain);
  const endedAtMs = clock.nowMs();
  options.record(
    {
      type: "tool.ended",
      toolName,
      outcome: outcome.type,
      success: outcome.type === "succeeded",
      ...(outcome.errorCode === undefined ? {} : { errorCode: outcome.errorCode }),
      ...(outcome.blockedBy === undefined ? {} : { blockedBy: outcome.blockedBy }),
      resultCharacters: outcome.text.length,
      durationMs: endedAtMs - startedAtMs,
      queuedMs,
      ...(outcome.usage === undefined ? {} : { usage: outcome.usage }),
    },
    where,
  );
  return executed(planned, startedAtMs, endedAtMs, outcome);
}

interface PausedChild {
  readonly type: "paused";
  readonly childId: Extract<SpawnOutcome, { readonly type: "paused" }>["childId"];
}

function faceOf(bound: BoundCall): Pick<EventBody<"tool.started">, "kind" | "description"> {
  if (bound.type === "rejected") return { kind: "function", description: "" };
  return { kind: bound.tool.kind, description: bound.tool.description };
}

function executed(
  planned: PlannedCall,
  startedAtMs: number,
  endedAtMs: number,
  outcome: CallOutcome,
): CallEnd {
  const { type, text, errorCode, metadata, subtasks, failure } = outcome;
  const execution: ToolExecution = {
    call: planned.call,
    type,
    text,
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(subtasks === undefined || subtasks.length === 0 ? {} : { subtasks }),
    startedAtMs,
    endedAtMs,
  };
  return { type: "executed", execution, ...(failure === undefined ? {} : { failure }) };
}

function refused({ outcome, text, code, by }: Bound<"rejected">): CallOutcome {
  const blocked = by === undefined ? {} : { blockedBy: by };
  return { type: outcome, text, errorCode: code, ...blocked };
}

/** A hook that broke while it looked at the call fails the execution, too (R16). */
function refusedBy({
  rejected,
  failure,
}: Extract<Permission, { readonly type: "refused" }>): CallOutcome {
  return { ...refused(rejected), ...(failure === undefined ? {} : { failure }) };
}

/** The body of a function tool, with the hooks around it and after it. */
async function run(
  options: LocalEffectsOptions,
  use: Use,
  bound: Bound<"function">,
): Promise<CallOutcome> {
  const { place, planned } = use;
  const { toolName, callId } = planned.call;
  const queue = new SubtaskQueue();
  const context = toolContext(options, place, planned, queue);
  const where: EventPlace = { stepId: place.stepId, callId };
  const wraps = options.hooks.toolWraps(toolName);
  const body = async (): Promise<unknown> => await bound.use.run(context);
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
  const subtasks = queue.close();
  if (options.signal.aborted) return CANCELLED;
  return { ...returned(options, toolName, bounded), subtasks };
}

function returned(
  options: LocalEffectsOptions,
  toolName: string,
  bounded: BoundedOutcome<unknown>,
): CallOutcome {
  if (bounded.type === "abandoned") return CANCELLED;
  try {
    if (bounded.type === "threw") throw bounded.error;
    return { type: "succeeded", text: resultText(bounded.value) };
  } catch (cause) {
    return broken(options, toolName, cause);
  }
}

async function delegate(
  options: LocalEffectsOptions,
  use: Use,
  start: () => Promise<SpawnOutcome>,
): Promise<CallOutcome | PausedChild> {
  try {
    const outcome = await start();
    if (outcome.type === "paused") return outcome;
    return delegated(outcome);
  } catch (cause) {
    return broken(options, use.planned.call.toolName, cause);
  }
}

/** A call that threw. What a wrap of it threw counts as thrown by it; any other hook that broke fails the execution, too. */
function broken({ signal }: LocalEffectsOptions, toolName: string, thrown: unknown): CallOutcome {
  if (signal.aborted) return CANCELLED;
  const isWrap = EspalierError.is(thrown) && thrown.data["point"] === "wrapToolCall";
  const cause = isWrap ? (thrown.cause ?? thrown) : thrown;
  const text = `${toolName} failed: ${messageOf(cause)}`;
  const isHook = EspalierError.is(cause) && HOOK_ERRORS.has(cause.code);
  const failure = isHook ? { failure: errorRecord(cause) } : {};
  return { type: "failed", text, errorCode: "tool_error", ...failure };
}

const HOOK_ERRORS: ReadonlySet<string> = new Set(["hook_failed", "hook_contract", "hook_timeout"]);

function delegated(outcome: Exclude<SpawnOutcome, { readonly type: "paused" }>): CallOutcome {
  const text = delegationText(outcome);
  if (outcome.type === "refused") return { type: "refused", text, errorCode: outcome.refusal.code };
  const { status, usage } = outcome.result;
  const counted = { text, usage: usage.total };
  if (status === "failed") return { type: "failed", errorCode: "subagent_failed", ...counted };
  if (status === "cancelled")
    return { type: "cancelled", errorCode: "subagent_cancelled", ...counted };
  return { type: "succeeded", ...counted };
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
