// A model call with hooks around it. The hooks may call the model several times. Each of these
// calls is charged, and together they are one step.

import {
  createLinkedController,
  runBounded,
  type BoundedOutcome,
} from "../kernel/cancel-signal.ts";
import { describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { deepFreeze, omitUndefined } from "../kernel/json.ts";
import type { ModelCall } from "../hooks/hook.ts";
import { createHookResultError } from "../hooks/hook-error.ts";
import { runInsideWraps } from "../hooks/run-chain.ts";
import { checkHookedReply, isNothing } from "../model/check-reply.ts";
import type { ModelReply } from "../model/model.ts";
import { attachTimeSpans, type TimeSpan } from "../protocol/step-timing.ts";
import {
  addModelUsage,
  addUsage,
  NO_USAGE,
  type ModelUsage,
  type Usage,
} from "../protocol/usage.ts";
import { toEventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import type { BudgetRefusal } from "../budget/lease.ts";
import { toCallUsage } from "../budget/call-usage.ts";
import type { InferOutcome } from "./effect-outcomes.ts";
import { serializeError } from "./serialize-error.ts";
import { createHookContext } from "./run-user-code.ts";
import { extendLease, runAttempts } from "./model-attempts.ts";
import type { InferCall } from "./model-events.ts";
import { WrappedTime } from "./wrapped-time.ts";

/** Returns the outcome of a model call with hooks around it. */
export async function inferWrapped(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  const { modelWraps } = agent.hooks;
  const inner = new InnerCalls(agent, call);
  const { request } = call;
  for (const part of Object.values<unknown>({ ...request })) deepFreeze(part);
  const callFor = (hookName: string): ModelCall => ({
    request,
    context: createHookContext(agent, call.effectPosition.stepNumber, hookName),
  });
  const { bounds } = agent;
  const work = (): Promise<ModelReply> =>
    runInsideWraps(modelWraps, callFor, () => inner.callModel(), bounds);
  const bounded = await runBounded(
    () => agent.runAt(toEventPosition(call.effectPosition), work),
    bounds,
  );
  await inner.close();
  const { otherModels } = inner;
  return attachTimeSpans(
    { ...inner.createOutcome(bounded), ...omitUndefined({ otherModels }) },
    inner.spans,
  );
}

type WithoutReply = Exclude<InferOutcome, { readonly type: "replied" }>;

/** The model calls that hooks make in place of one call. */
class InnerCalls {
  readonly #agent: AgentRuntime;
  readonly #call: InferCall;
  readonly #end: ReturnType<typeof createLinkedController>;
  readonly #start: ReturnType<typeof createLinkedController>;
  readonly #inFlight = new Set<Promise<unknown>>();
  readonly #replies = new Set<ModelReply>();
  /** Outcomes of calls without a reply, by the error that the hooks receive. */
  readonly #failedCalls = new Map<unknown, WithoutReply>();
  readonly #time: WrappedTime;
  #inference: readonly TimeSpan[] = [];
  #usage: Usage;
  /** As `InferOutcome.otherModels`. */
  otherModels: readonly ModelUsage[] | undefined;
  #begun = 0;
  #isClosed = false;

  constructor(agent: AgentRuntime, call: InferCall) {
    this.#end = createLinkedController(agent.cancelSignal);
    this.#start = createLinkedController(agent.noStartSignal);
    const { signal: cancelSignal } = this.#end.controller;
    const { signal: noStartSignal } = this.#start.controller;
    this.#agent = agent;
    this.#call = { ...call, signals: { cancelSignal, noStartSignal } };
    this.#usage = { ...NO_USAGE, steps: call.steps };
    this.#time = new WrappedTime(agent.run.clock);
  }

  /** Makes the call. Each further call extends the lease. */
  callModel(): Promise<ModelReply> {
    const reply = this.#callModel();
    const settled: Promise<unknown> = reply
      .catch(() => undefined)
      .finally(() => this.#inFlight.delete(settled));
    this.#inFlight.add(settled);
    return reply;
  }

  async #callModel(): Promise<ModelReply> {
    if (this.#isClosed) throw createModelCallError("the hooks have already returned");
    this.#begun += 1;
    const number = this.#begun;
    const call = number === 1 ? { ...this.#call, number } : await this.#extendLease(number);
    const leave = this.#time.enter();
    const outcome = await runAttempts(this.#agent, call);
    leave();
    this.#inference = [...this.#inference, ...(outcome.spans ?? [])];
    this.#usage = addUsage(this.#usage, { ...outcome.usage, steps: 0 });
    if (outcome.otherModels !== undefined)
      this.otherModels = addModelUsage(this.otherModels ?? [], outcome.otherModels);
    if (outcome.type === "replied") {
      const reply = deepFreeze(outcome.reply);
      this.#replies.add(reply);
      return reply;
    }
    if (outcome.type === "cancelled") throw this.#createCancelledError();
    if (outcome.type === "refused") throw this.#createRefusedError(outcome.refusal);
    const { message, code } = outcome.error;
    const error = new EspalierError({ code: "model_call_failed", message, data: { error: code } });
    this.#failedCalls.set(error, outcome);
    throw error;
  }

  async #extendLease(number: number): Promise<InferCall> {
    const call: InferCall = { ...this.#call, number, steps: 0 };
    const { signal } = this.#start.controller;
    const paid = await extendLease(this.#agent, call, signal);
    if (paid.type === "refused") throw this.#createRefusedError(paid.refusal);
    if (paid.type === "cancelled") throw this.#createCancelledError();
    const { maxOutputTokens } = paid.lease;
    const request = Object.freeze({ ...call.request, maxOutputTokens });
    return { ...call, lease: paid.lease, request };
  }

  #createCancelledError(): EspalierError {
    const error = createModelCallError("the agent was stopped");
    this.#failedCalls.set(error, { type: "cancelled", usage: NO_USAGE });
    return error;
  }

  #createRefusedError(refusal: BudgetRefusal): EspalierError {
    const error = createModelCallError("the budget does not allow another call");
    this.#failedCalls.set(error, { type: "refused", refusal, usage: NO_USAGE });
    return error;
  }

  /** Cancels and awaits the calls in flight, so that nothing is reported later. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#inFlight.size > 0) {
      this.#end.controller.abort(this.#agent.cancelSignal.reason);
      this.#start.controller.abort(this.#agent.cancelSignal.reason);
      await Promise.all(this.#inFlight);
    }
    this.#end.unlink();
    this.#start.unlink();
  }

  /** The time spent in hooks and in their model calls, without waits for slots. */
  get spans(): readonly TimeSpan[] {
    return [...this.#time.hooks, ...this.#inference];
  }

  /**
   * Returns the outcome of the call after `close`. A reply that hooks created without calling the
   * model is charged by its reported usage, or by an estimate if the reported usage is impossible.
   */
  createOutcome(bounded: BoundedOutcome<ModelReply>): InferOutcome {
    const { model, hooks, cancelSignal } = this.#agent;
    const { lease } = this.#call;
    const usage = this.#usage;
    if (cancelSignal.aborted || bounded.type === "abandoned") return { type: "cancelled", usage };
    if (bounded.type === "threw") {
      const { error } = bounded;
      // The model's own error, passed on. Any other error means that a hook broke.
      const unanswered = this.#failedCalls.get(error);
      return unanswered === undefined
        ? createFailedInferOutcome(error, usage)
        : { ...unanswered, usage };
    }
    const { value } = bounded;
    try {
      if (this.#replies.has(value)) return { type: "replied", reply: value, usage };
      const reply = checkHookedReply(model, value, lease, [...this.#replies]);
      const { usage: _counted, ...unmeasured } = reply;
      const isCharged = value.usage !== undefined && !isNothing(value.usage);
      const isOwn = this.#replies.size === 0 && isCharged;
      const replied = { type: "replied", reply, brokenAttempts: 0, lostOutputTokens: 0 } as const;
      const sum = isOwn
        ? addUsage(usage, toCallUsage(this.#agent, { lease, steps: 0 }, replied))
        : usage;
      return { type: "replied", reply: unmeasured, usage: sum };
    } catch (cause) {
      const place = { point: "wrapModelCall", hook: hooks.modelWraps[0]?.name ?? "" };
      const advice = `Return the result of next(), or a ModelReply. ${getErrorMessage(cause)}`;
      const expected = "return a ModelReply";
      return createFailedInferOutcome(
        createHookResultError(place, { expected, got: describeReceived(value), advice, cause }),
        usage,
      );
    }
  }
}

function createFailedInferOutcome(cause: unknown, usage: Usage): InferOutcome {
  return { type: "failed", error: serializeError(cause), isRetryable: false, usage };
}

function createModelCallError(why: string): EspalierError {
  return new EspalierError({
    code: "model_call_failed",
    message: `The model was not called: ${why}.`,
  });
}
