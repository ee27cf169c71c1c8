// A model call with hooks around it: each call that they make of it is paid for and counted, the whole is one step.

import { linkedController, runBounded, type BoundedOutcome } from "../kernel/cancel.ts";
import { shown } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import { deepFreeze } from "../kernel/json.ts";
import type { ModelCall } from "../hooks/hook.ts";
import { hookContract } from "../hooks/hook-error.ts";
import { wrapped } from "../hooks/run-chain.ts";
import { checkMadeReply } from "../model/check-made-reply.ts";
import { checkReply } from "../model/check-reply.ts";
import type { ModelReply } from "../model/model.ts";
import { timed, type TimeSpan } from "../protocol/step-timing.ts";
import { addUsage, NO_USAGE, type Usage } from "../protocol/usage.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import type { BudgetRefusal, Lease } from "./account-view.ts";
import { callUsage } from "./call-usage.ts";
import type { InferOutcome } from "./effects.ts";
import { errorRecord } from "./error-record.ts";
import { hookContext } from "./consult.ts";
import { type InferCall, inferOnce } from "./model-attempts.ts";
import { WrappedTime } from "./wrapped-time.ts";

/** What the hooks around a call made of it: each call of theirs is paid for and counted, the whole is one step. */
export async function inferWrapped(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  const { modelWraps } = agent.hooks;
  const inner = new InnerCalls(agent, call);
  const callFor = (hookName: string): ModelCall => ({
    request: call.request,
    context: hookContext(agent, call.place.stepNumber, hookName),
  });
  const { bounds } = agent;
  const work = (): Promise<ModelReply> => wrapped(modelWraps, callFor, () => inner.next(), bounds);
  const bounded = await runBounded(() => agent.at(call.position, work), bounds);
  const usage = await inner.close();
  return timed(outcomeOfHooks(agent, call, inner, { bounded, usage }), inner.spans);
}

interface Settled {
  readonly bounded: BoundedOutcome<ModelReply>;
  /** What all calls of the hooks have used. */
  readonly usage: Usage;
}

function outcomeOfHooks(
  agent: AgentRuntime,
  call: InferCall,
  inner: InnerCalls,
  { bounded, usage }: Settled,
): InferOutcome {
  const { modelWraps } = agent.hooks;
  if (agent.signal.aborted || bounded.type === "abandoned") return { type: "cancelled", usage };
  if (bounded.type === "threw") {
    if (inner.wasToldToEnd(bounded.error)) return { type: "cancelled", usage };
    return { ...inner.failureBehind(bounded.error), usage };
  }
  try {
    const { model } = agent;
    const { value } = bounded;
    if (inner.gave(value))
      return { type: "replied", reply: checkReply(model, value, call.lease), usage };
    const reply = checkMadeReply(model, value, call.lease, inner.replies);
    const { usage: reported, ...unmeasured } = reply;
    const isOwn = inner.hasNoReply && reported !== undefined;
    const own = { type: "replied", reply, brokenAttempts: 0, lostOutputTokens: 0 } as const;
    const extra = isOwn ? callUsage(agent.model, call.lease, own) : NO_USAGE;
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

type Failure = Extract<InferOutcome, { readonly type: "failed" | "refused" }>;

/** The calls that hooks make of one call. */
class InnerCalls {
  readonly #agent: AgentRuntime;
  readonly #call: InferCall;
  readonly #end: ReturnType<typeof linkedController>;
  readonly #start: ReturnType<typeof linkedController>;
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #replies = new Set<ModelReply>();
  readonly #failures = new Map<unknown, Failure>();
  readonly #cancelled = new Set<unknown>();
  readonly #time: WrappedTime;
  #inference: readonly TimeSpan[] = [];
  #usage: Usage = { ...NO_USAGE, steps: 1 };
  #begun = 0;
  #isClosed = false;

  constructor(agent: AgentRuntime, call: InferCall) {
    this.#end = linkedController(agent.signal);
    this.#start = linkedController(agent.stopSignal);
    const { signal } = this.#end.controller;
    this.#agent = agent;
    this.#call = { ...call, signals: { signal, stopSignal: this.#start.controller.signal } };
    this.#time = new WrappedTime(agent.run.clock);
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
    this.#begun += 1;
    const number = this.#begun;
    const paid = number === 1 ? lease : await this.#payAgain(lease);
    const { maxOutputTokens } = paid;
    const leave = this.#time.inside();
    const outcome = await inferOnce(this.#agent, {
      ...this.#call,
      lease: paid,
      request: number === 1 ? request : Object.freeze({ ...request, maxOutputTokens }),
      number,
      position:
        number === 1 ? this.#call.position : { ...this.#call.position, modelCallNumber: number },
      isPart: true,
    });
    leave();
    this.#inference = [...this.#inference, ...(outcome.spans ?? [])];
    this.#usage = { ...addUsage(this.#usage, outcome.usage), steps: 1 };
    if (outcome.type === "replied") {
      const reply = deepFreeze(outcome.reply);
      this.#replies.add(reply);
      return reply;
    }
    if (outcome.type === "cancelled") throw this.#cancelledCall();
    if (outcome.type === "refused") throw this.#unpaidCall(outcome.refusal);
    const { message, code } = outcome.error;
    const error = new EspalierError({ code: "model_call_failed", message, data: { error: code } });
    this.#failures.set(error, outcome);
    throw error;
  }

  async #payAgain(lease: Lease): Promise<Lease> {
    const paid = await this.#agent.account.extend(
      lease,
      this.#agent.model,
      this.#start.controller.signal,
    );
    if (paid.type === "refused") throw this.#unpaidCall(paid.refusal);
    if (paid.type === "cancelled") throw this.#cancelledCall();
    await this.#agent.effects.kept();
    return paid.lease;
  }

  #cancelledCall(): EspalierError {
    const error = refusedCall("the agent was told to end");
    this.#cancelled.add(error);
    return error;
  }

  #unpaidCall(refusal: BudgetRefusal): EspalierError {
    const error = refusedCall("the budget does not allow another call");
    this.#failures.set(error, { type: "refused", refusal, usage: NO_USAGE });
    return error;
  }

  /** Ends what is still in flight, and gives what was used by all of it: nothing of it is reported later. */
  async close(): Promise<Usage> {
    this.#isClosed = true;
    if (this.#underWay.size > 0) {
      this.#end.controller.abort(this.#agent.signal.reason);
      this.#start.controller.abort(this.#agent.signal.reason);
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
  gave(reply: ModelReply): boolean {
    return this.#replies.has(reply);
  }

  /** What the model gave. */
  get replies(): readonly ModelReply[] {
    return [...this.#replies];
  }

  /** True if the model gave none: what the hooks give is their own, and charged by the usage that it says. */
  get hasNoReply(): boolean {
    return this.#replies.size === 0;
  }

  /** True if it says that the agent has to end, or may start nothing further. */
  wasToldToEnd(thrown: unknown): boolean {
    return this.#cancelled.has(thrown);
  }

  /** What a thrown error says: the model's own failure, passed on, or a hook's. */
  failureBehind(thrown: unknown): Failure {
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
