// One logical model call in this process: hooks around it, a queue slot, retries, events, and what it all consumed.

import { linkedController, runBounded, type BoundedOutcome } from "../../kernel/cancel.ts";
import { shown } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import type { ModelCall } from "../../hooks/hook.ts";
import { hookContract } from "../../hooks/hook-error.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import { checkReply } from "../../model/check-reply.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../model/model.ts";
import type { RequestPrefix } from "../../model/request-prefix.ts";
import { generateWithRetries, type GenerateOutcome } from "../../model/retry.ts";
import type { EventBody } from "../../protocol/event.ts";
import { spanOf, timed, type TimeSpan } from "../../protocol/step-timing.ts";
import { addUsage, NO_USAGE, type Usage } from "../../protocol/usage.ts";
import type { EventPlace } from "../agent-context.ts";
import type { Lease } from "../budget-gate.ts";
import { callUsage } from "../call-usage.ts";
import type { EffectPlace, InferOutcome } from "../effects.ts";
import { hookContext, wrapBounds } from "./hook-bounds.ts";
import { errorRecord } from "../life-cycle.ts";
import type { LocalEffectsOptions } from "./local-options.ts";
import { WrappedTime } from "./wrapped-time.ts";

/** A model call that is paid for. */
export interface InferCall {
  readonly place: EffectPlace;
  readonly lease: Lease;
  readonly request: ModelRequest;
  readonly isEstimated: boolean;
  readonly prefix: RequestPrefix | undefined;
  /** Which of the calls that hooks made of one it is, from 1. Default 1. */
  readonly number?: number;
}

/** Calls the model through the hooks around it. Never rejects. */
export function inferLocally(options: LocalEffectsOptions, call: InferCall): Promise<InferOutcome> {
  return options.hooks.modelWraps.length === 0
    ? inferOnce(options, call)
    : inferWrapped(options, call);
}

/** What the hooks around a call made of it: each call of theirs is paid for and counted, the whole is one step. */
async function inferWrapped(options: LocalEffectsOptions, call: InferCall): Promise<InferOutcome> {
  const { modelWraps } = options.hooks;
  const inner = new InnerCalls(options, call);
  const callFor = (hookName: string): ModelCall => ({
    request: call.request,
    context: hookContext(options, call.place, hookName),
  });
  const bounds = wrapBounds(options);
  const work = (): Promise<ModelReply> => wrapped(modelWraps, callFor, () => inner.next(), bounds);
  const bounded = await runBounded(() => options.at(at(call), work), options);
  const usage = await inner.close();
  const { spans } = inner;
  return { ...outcomeOfHooks(options, call, inner, { bounded, usage }), ...timed(spans) };
}

interface Settled {
  readonly bounded: BoundedOutcome<ModelReply>;
  /** What all calls of the hooks have used. */
  readonly usage: Usage;
}

function outcomeOfHooks(
  options: LocalEffectsOptions,
  call: InferCall,
  inner: InnerCalls,
  { bounded, usage }: Settled,
): InferOutcome {
  const { modelWraps } = options.hooks;
  if (options.signal.aborted || bounded.type === "abandoned") return { type: "cancelled", usage };
  if (bounded.type === "threw") {
    if (inner.wasToldToEnd(bounded.error)) return { type: "cancelled", usage };
    return { ...inner.failureBehind(bounded.error), usage };
  }
  try {
    const reply = checkReply(options.model, bounded.value, call.lease);
    if (inner.gave(bounded.value)) return { type: "replied", reply, usage };
    const { usage: reported, ...unmeasured } = reply;
    const isOwn = inner.hasNoReply && reported !== undefined;
    const own = { type: "replied", reply, brokenAttempts: 0, lostOutputTokens: 0 } as const;
    const extra = isOwn ? callUsage(options.model, call.lease, own) : NO_USAGE;
    return {
      type: "replied",
      reply: unmeasured,
      usage: { ...addUsage(usage, extra), steps: usage.steps },
    };
  } catch (cause) {
    const place = { point: "wrapModelCall", hook: modelWraps[0]?.name ?? "" };
    const got = shown(bounded.value);
    const advice = `Return what next() gave, or a ModelReply. ${messageOf(cause)}`;
    const breach = hookContract(place, { expected: "give a ModelReply", got, advice, cause });
    return { type: "failed", error: errorRecord(breach), isRetryable: false, usage };
  }
}

/** The calls that hooks make of one call. */
class InnerCalls {
  readonly #options: LocalEffectsOptions;
  readonly #call: InferCall;
  readonly #end: ReturnType<typeof linkedController>;
  readonly #start: ReturnType<typeof linkedController>;
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #replies = new Set<unknown>();
  readonly #failures = new Map<unknown, Extract<InferOutcome, { readonly type: "failed" }>>();
  readonly #cancelled = new Set<unknown>();
  readonly #time: WrappedTime;
  #inference: readonly TimeSpan[] = [];
  #usage: Usage = { ...NO_USAGE, steps: 1 };
  #begun = 0;
  #isClosed = false;

  constructor(options: LocalEffectsOptions, call: InferCall) {
    this.#end = linkedController(options.signal);
    this.#start = linkedController(options.startSignal);
    const signal = this.#end.controller.signal;
    this.#options = { ...options, signal, startSignal: this.#start.controller.signal };
    this.#call = call;
    this.#time = new WrappedTime(options.clock);
  }

  /** Makes the call; every further one is paid for by extending the lease. */
  next(): Promise<ModelReply> {
    const reply = this.#next();
    const settled: Promise<unknown> = reply
      .catch(() => undefined)
      .finally(() => this.#underWay.delete(settled));
    this.#underWay.add(settled);
    return reply;
  }

  async #next(): Promise<ModelReply> {
    if (this.#isClosed) throw refusedCall("the hooks had returned already");
    const { lease, request } = this.#call;
    const isFirst = this.#begun === 0;
    const maxOutputTokens = isFirst ? request.maxOutputTokens : this.#options.payAgain(lease);
    if (maxOutputTokens < 1) throw refusedCall("the budget does not allow another call");
    this.#begun += 1;
    const paid = isFirst ? request : Object.freeze({ ...request, maxOutputTokens });
    const leave = this.#time.inside();
    const number = this.#begun;
    const outcome = await inferOnce(this.#options, { ...this.#call, request: paid, number });
    leave();
    this.#inference = [...this.#inference, ...(outcome.spans ?? [])];
    this.#usage = { ...addUsage(this.#usage, outcome.usage), steps: 1 };
    if (outcome.type === "replied") {
      this.#replies.add(outcome.reply);
      return outcome.reply;
    }
    if (outcome.type === "cancelled") {
      const error = refusedCall("the agent was told to end");
      this.#cancelled.add(error);
      throw error;
    }
    const { message, code } = outcome.error;
    const error = new EspalierError({ code: "model_call_failed", message, data: { error: code } });
    this.#failures.set(error, outcome);
    throw error;
  }

  /** Ends what is still under way, and gives what was used by all of it: nothing of it is heard of later. */
  async close(): Promise<Usage> {
    this.#isClosed = true;
    if (this.#underWay.size > 0) {
      this.#end.controller.abort(this.#options.signal.reason);
      this.#start.controller.abort(this.#options.signal.reason);
      await Promise.all(this.#underWay);
    }
    this.#end.unlink();
    this.#start.unlink();
    return this.#usage;
  }

  /** What the time of the hooks and of their calls went into. Waiting for a slot is neither. */
  get spans(): readonly TimeSpan[] {
    return [...this.#time.hooks, ...this.#inference];
  }

  /** True if the model gave this reply; false if a hook made it up. */
  gave(reply: unknown): boolean {
    return this.#replies.has(reply);
  }

  /** True if the model gave none: what the hooks give is their own, and charged by the usage that it says. */
  get hasNoReply(): boolean {
    return this.#replies.size === 0;
  }

  /** True if it says that the agent was told to end, or to start nothing further. */
  wasToldToEnd(thrown: unknown): boolean {
    return this.#cancelled.has(thrown);
  }

  /** What a thrown error says: the model's own failure, passed on, or a hook's. */
  failureBehind(thrown: unknown): Extract<InferOutcome, { readonly type: "failed" }> {
    const failure = this.#failures.get(thrown);
    if (failure !== undefined) return failure;
    return { type: "failed", error: errorRecord(thrown), isRetryable: false, usage: NO_USAGE };
  }
}

function refusedCall(why: string): EspalierError {
  return new EspalierError({
    code: "model_call_failed",
    message: `The model was not called: ${why}.`,
  });
}

async function inferOnce(options: LocalEffectsOptions, call: InferCall): Promise<InferOutcome> {
  const askedAtMs = options.clock.nowMs();
  const outcome = await options.slots.model(options.startSignal, () => {
    const queuedMs = options.clock.nowMs() - askedAtMs;
    options.record(requested(options, call), at(call));
    const { messages, tools } = call.request;
    options.tell(at(call), () => ({ type: "request", messages, tools }));
    return timedCall(options, () => askModel(options, call, queuedMs));
  });
  if (outcome !== undefined) return outcome;
  return { type: "cancelled", usage: callUsage(options.model, call.lease, { type: "unsent" }) };
}

/** The call with the time that it took. */
async function timedCall(
  { clock }: LocalEffectsOptions,
  work: () => Promise<InferOutcome>,
): Promise<InferOutcome> {
  const startedAtMs = clock.nowMs();
  const outcome = await work();
  return { ...outcome, ...timed(spanOf("inference", startedAtMs, clock.nowMs())) };
}

async function askModel(
  options: LocalEffectsOptions,
  call: InferCall,
  queuedMs: number,
): Promise<InferOutcome> {
  const { model, signal, clock, graceMs, retry } = options;
  const onText = listenerFor(options, call);
  const { request } = call;
  const place = at(call);
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
      inputTokens: call.lease.inputTokens,
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
    const { message, finishReason } = reply;
    options.tell(place, () => ({ type: "reply", message, finishReason }));
    options.record(
      {
        type: "model.replied",
        finishReason,
        toolCalls: message.toolCalls.length,
        usage,
        ...(reply.usage?.cacheWriteInputTokens === undefined
          ? {}
          : { cacheWriteInputTokens: reply.usage.cacheWriteInputTokens }),
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

function requested(options: LocalEffectsOptions, call: InferCall): EventBody<"model.requested"> {
  const { lease, request, isEstimated, prefix } = call;
  return {
    type: "model.requested",
    provider: options.model.provider,
    model: options.model.id,
    ...serverOf(options.model),
    messageCount: request.messages.length,
    toolNames: request.tools.map((tool) => tool.name),
    estimatedInputTokens: lease.inputTokens,
    isEstimated,
    maxOutputTokens: request.maxOutputTokens,
    ...(request.temperature === undefined ? {} : { temperature: request.temperature }),
    streaming: listenerFor(options, call) !== undefined,
    ...(prefix === undefined ? {} : { prefix }),
  };
}

/** Where the model is served; what it says besides is left out. */
function serverOf({ server }: Model): Pick<EventBody<"model.requested">, "server"> {
  if (server === undefined) return {};
  const { address, port } = server;
  return { server: { address, ...(port === undefined ? {} : { port }) } };
}

/** What a step says aside is nothing that anybody waits to read. */
function listenerFor({ onText }: LocalEffectsOptions, { place }: InferCall): typeof onText {
  return place.aside === undefined ? onText : undefined;
}

function at({ place: { stepId, aside }, number = 1 }: InferCall): EventPlace {
  const further = number === 1 ? {} : { modelCallNumber: number };
  if (aside === undefined) return { stepId, ...further };
  return aside.callId === undefined ? further : { stepId, callId: aside.callId, ...further };
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
