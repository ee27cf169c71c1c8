// Effects in this process, without a journal.
// Owns: the effects under way of one execution. Talks to: model, tools, queue slots, ledger, spawner, event recorder.
//
// S1. A queue slot is held by a model call or a tool body only; a delegation waits for its child without one.
// S2. The lease comes before the slot: whoever holds a slot needs nothing further to end, so the queue cannot deadlock.
// S3. Foreign code that ignores its signal is left behind after the grace period; what it gives later goes nowhere.

import { runBounded, type BoundedOutcome } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { messageOf } from "../kernel/error.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { GenerateOptions, Model, ModelRequest } from "../model/model.ts";
import { generateWithRetries, type GenerateOutcome, type RetryPolicy } from "../model/retry.ts";
import type { EventBody } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { SpawnOutcome, SpawnRequest } from "../protocol/subagent.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { Usage } from "../protocol/usage.ts";
import type { BoundCall } from "../tools/bind-call.ts";
import { delegationText } from "../tools/delegation-text.ts";
import { resultText } from "../tools/result-text.ts";
import type { DelegationContext, ToolContext } from "../tools/tool.ts";
import type { AgentIdentity, EventPlace } from "./agent-context.ts";
import type { Lease, LeaseAsk, LeaseOutcome } from "./budget-gate.ts";
import { callUsage } from "./call-usage.ts";
import {
  settledBy,
  type Effect,
  type EffectPlace,
  type Effects,
  type InferOutcome,
  type PlannedCall,
} from "./effects.ts";
import { errorRecord } from "./life-cycle.ts";

/** A place in a queue: `work` runs when there is one, or not at all if `signal` is aborted before. */
export interface Slots {
  model<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined>;
  tool<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined>;
}

export interface LocalEffectsOptions {
  readonly identity: AgentIdentity;
  readonly model: Model;
  readonly metadata: JsonObject;
  readonly clock: Clock;
  readonly slots: Slots;
  readonly signal: AbortSignal;
  readonly graceMs: number;
  readonly retry: RetryPolicy;
  readonly onText: ((piece: string) => void) | undefined;
  reserve(ask: LeaseAsk): Promise<LeaseOutcome>;
  /** Pays for one more attempt of a call; gives its output cap, 0 if there is none. */
  payAgain(lease: Lease): number;
  /** Must not reject. */
  spawn(request: SpawnRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  record(body: EventBody, place: EventPlace): void;
  /** Runs foreign code inside the span of its place. */
  within<T>(place: EventPlace, work: () => Promise<T>): Promise<T>;
}

/** The call behind a delegation, with the history that it was made in. */
export interface DelegatedCall extends EventPlace {
  readonly callId: CallId;
  readonly messages: readonly Message[];
}

export function localEffects(options: LocalEffectsOptions): Effects {
  return {
    reserve: (place, ask) => effect(`lease.${place.stepNumber}`, options.reserve(ask)),
    infer: (place, lease, request) =>
      effect(`model.${place.stepNumber}`, infer(options, { place, lease, request })),
    callTool: (place, call) =>
      effect(
        `tool.${place.stepNumber}.${call.index}:${call.call.toolName}`,
        callTool(options, place, call),
      ),
    join: (effects) => Promise.all(effects.map((one) => one[settledBy]())),
    nowMs: () => options.clock.nowMs(),
  };
}

/** What is put in must not reject: failures of foreign code are data by then. */
function effect<T>(name: string, settled: Promise<T>): Effect<T> {
  return { name, [settledBy]: () => settled };
}

interface InferCall {
  readonly place: EffectPlace;
  readonly lease: Lease;
  readonly request: ModelRequest;
}

async function infer(options: LocalEffectsOptions, call: InferCall): Promise<InferOutcome> {
  const askedAtMs = options.clock.nowMs();
  const unsent: InferOutcome = {
    type: "cancelled",
    usage: callUsage(options.model, call.lease, { type: "unsent" }),
  };
  const outcome = await options.slots.model(options.signal, () => {
    const queuedMs = options.clock.nowMs() - askedAtMs;
    options.record(requested(options, call), call.place);
    return askModel(options, call, queuedMs);
  });
  return outcome ?? unsent;
}

async function askModel(
  options: LocalEffectsOptions,
  call: InferCall,
  queuedMs: number,
): Promise<InferOutcome> {
  const { model, signal, clock, graceMs, retry, onText } = options;
  const { place, request } = call;
  let attempts = 1;
  let isOver = false;
  const hear = (piece: string): void => {
    if (!isOver) onText?.(piece);
  };
  const streaming: Pick<GenerateOptions, "onText"> = onText === undefined ? {} : { onText: hear };
  const ask = (): Promise<GenerateOutcome> =>
    generateWithRetries(model, request, {
      signal,
      clock,
      policy: retry,
      ...streaming,
      payAgain: () => options.payAgain(call.lease),
      onRetry: ({ attempt, error, delayMs }) => {
        attempts = attempt + 1;
        options.record(
          { type: "model.retried", attempt, error: errorRecord(error), delayMs },
          place,
        );
      },
    });
  const bounded = await runBounded(() => options.within(place, ask), { signal, clock, graceMs });
  isOver = true;
  const outcome = settledOutcome(options, call, bounded);
  if (outcome.type === "replied") {
    const { reply, usage } = outcome;
    options.record(
      {
        type: "model.replied",
        finishReason: reply.finishReason,
        toolCalls: reply.message.toolCalls.length,
        usage,
        attempts,
        queuedMs,
        ...(reply.responseId === undefined ? {} : { responseId: reply.responseId }),
        ...(reply.responseModel === undefined ? {} : { responseModel: reply.responseModel }),
      },
      place,
    );
    return outcome;
  }
  const error = outcome.type === "failed" ? outcome.error : CANCELLED_CALL;
  const isRetryable = outcome.type === "failed" && outcome.isRetryable;
  options.record(
    { type: "model.failed", error, isRetryable, usage: outcome.usage, attempts, queuedMs },
    place,
  );
  return outcome;
}

const CANCELLED_CALL = { code: "cancelled", message: "The call was told to end.", data: {} };

function requested(
  options: LocalEffectsOptions,
  { lease, request }: InferCall,
): EventBody<"model.requested"> {
  return {
    type: "model.requested",
    provider: options.model.provider,
    model: options.model.id,
    messageCount: request.messages.length,
    toolNames: request.tools.map((tool) => tool.name),
    estimatedInputTokens: lease.inputTokens,
    maxOutputTokens: request.maxOutputTokens,
    ...(request.temperature === undefined ? {} : { temperature: request.temperature }),
    streaming: options.onText !== undefined,
  };
}

/** A call that was told to end counts as cancelled even if a reply came in the last moment: its result must not be acted upon. */
function settledOutcome(
  { model, signal }: LocalEffectsOptions,
  { lease }: InferCall,
  bounded: BoundedOutcome<GenerateOutcome>,
): InferOutcome {
  const settled = bounded.type === "returned" ? bounded.value : undefined;
  if (settled?.type === "replied" && !signal.aborted) {
    return { type: "replied", reply: settled.reply, usage: callUsage(model, lease, settled) };
  }
  if (settled?.type === "failed" && !signal.aborted) {
    const { isRetryable } = settled.error;
    const usage = callUsage(model, lease, settled);
    return { type: "failed", error: errorRecord(settled.error), isRetryable, usage };
  }
  if (!signal.aborted) {
    const error = errorRecord(bounded.type === "threw" ? bounded.error : undefined);
    return {
      type: "failed",
      error,
      isRetryable: false,
      usage: callUsage(model, lease, { type: "abandoned" }),
    };
  }
  return { type: "cancelled", usage: callUsage(model, lease, settled ?? { type: "abandoned" }) };
}

async function callTool(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): Promise<ToolExecution> {
  const { bound } = planned;
  if (bound.type !== "function") return await useTool(options, { place, planned, queuedMs: 0 });
  const askedAtMs = options.clock.nowMs();
  const execution = await options.slots.tool(options.signal, () =>
    useTool(options, { place, planned, queuedMs: options.clock.nowMs() - askedAtMs }),
  );
  return execution ?? ended(planned, askedAtMs, options.clock.nowMs(), NOT_BEGUN);
}

interface Use {
  readonly place: EffectPlace;
  readonly planned: PlannedCall;
  readonly queuedMs: number;
}

/** How a tool call came out, before it is stamped. */
interface CallOutcome {
  readonly type: ToolExecution["type"];
  readonly text: string;
  readonly errorCode?: string;
  /** What a delegated subtree consumed. */
  readonly usage?: Usage;
}

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

async function useTool(
  options: LocalEffectsOptions,
  { place, planned, queuedMs }: Use,
): Promise<ToolExecution> {
  const { clock } = options;
  const { toolName, callId } = planned.call;
  const where: EventPlace = { stepId: place.stepId, callId };
  const startedAtMs = clock.nowMs();
  const { kind, description } = faceOf(planned.bound);
  options.record({ type: "tool.started", toolName, kind, description }, where);
  const outcome = await outcomeOf(options, place, planned);
  const endedAtMs = clock.nowMs();
  options.record(
    {
      type: "tool.ended",
      toolName,
      outcome: outcome.type,
      success: outcome.type === "succeeded",
      ...(outcome.errorCode === undefined ? {} : { errorCode: outcome.errorCode }),
      resultCharacters: outcome.text.length,
      durationMs: endedAtMs - startedAtMs,
      queuedMs,
      ...(outcome.usage === undefined ? {} : { usage: outcome.usage }),
    },
    where,
  );
  return ended(planned, startedAtMs, endedAtMs, outcome);
}

function faceOf(bound: BoundCall): Pick<EventBody<"tool.started">, "kind" | "description"> {
  if (bound.type === "rejected") return { kind: "function", description: "" };
  return { kind: bound.tool.kind, description: bound.tool.description };
}

function ended(
  planned: PlannedCall,
  startedAtMs: number,
  endedAtMs: number,
  outcome: CallOutcome,
): ToolExecution {
  const { type, text, errorCode } = outcome;
  return {
    call: planned.call,
    type,
    text,
    ...(errorCode === undefined ? {} : { errorCode }),
    startedAtMs,
    endedAtMs,
  };
}

async function outcomeOf(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): Promise<CallOutcome> {
  const { bound, call } = planned;
  switch (bound.type) {
    case "rejected":
      return { type: bound.outcome, text: bound.text, errorCode: bound.code };
    case "finish":
      return { type: "succeeded", text: "Your result was taken." };
    case "delegation":
      return await delegate(
        () => bound.use(delegationContext(options, place, planned)),
        call.toolName,
      );
    case "function": {
      const context = toolContext(options, place, planned);
      const where: EventPlace = { stepId: place.stepId, callId: call.callId };
      const bounded = await runBounded(
        () => options.within(where, async () => await bound.use(context)),
        options,
      );
      return options.signal.aborted ? CANCELLED : returned(call.toolName, bounded);
    }
  }
}

function returned(toolName: string, bounded: BoundedOutcome<unknown>): CallOutcome {
  if (bounded.type === "abandoned") return CANCELLED;
  try {
    if (bounded.type === "threw") throw bounded.error;
    return { type: "succeeded", text: resultText(bounded.value) };
  } catch (cause) {
    const text = `${toolName} failed: ${messageOf(cause)}`;
    return { type: "failed", text, errorCode: "tool_error" };
  }
}

async function delegate(use: () => Promise<SpawnOutcome>, toolName: string): Promise<CallOutcome> {
  try {
    return delegated(await use());
  } catch (cause) {
    return {
      type: "failed",
      text: `${toolName} failed: ${messageOf(cause)}`,
      errorCode: "tool_error",
    };
  }
}

function delegated(outcome: SpawnOutcome): CallOutcome {
  const text = delegationText(outcome);
  if (outcome.type === "refused") return { type: "refused", text, errorCode: outcome.refusal.code };
  const { status, usage } = outcome.result;
  const counted = { text, usage: usage.total };
  if (status === "failed") return { type: "failed", errorCode: "subagent_failed", ...counted };
  if (status === "cancelled")
    return { type: "cancelled", errorCode: "subagent_cancelled", ...counted };
  return { type: "succeeded", ...counted };
}

function toolContext(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): ToolContext {
  const { runId, agentId, agentPath, depth, executionId } = options.identity;
  return Object.freeze({
    runId,
    agentId,
    agentPath,
    depth,
    executionId,
    stepNumber: place.stepNumber,
    callId: planned.call.callId,
    signal: options.signal,
    metadata: options.metadata,
  });
}

function delegationContext(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): DelegationContext {
  const { callId } = planned.call;
  const { messages } = planned;
  return Object.freeze({
    ...toolContext(options, place, planned),
    spawn: (request: SpawnRequest) =>
      options.spawn(request, { callId, stepId: place.stepId, messages }),
  });
}
