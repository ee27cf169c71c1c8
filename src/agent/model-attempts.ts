// The attempts of one model call. Each attempt has a concurrency slot. A broken attempt is charged
// before the next one is paid for.
//
// A call releases its slot before it waits for budget.
//
//   infer (phases/infer.ts)                the step
//   └─ callModel (model-call.ts)           the call
//      └─ persistence.infer                if the run has a store
//         └─ createCall (model-call.ts)    repeated after a crash, if its outcome is unknown
//            └─ runAttempts                once, or once for each call by hooks (hooked-model-call.ts)
//               └─ generateWithRetries     model/retry.ts: attempts, with `Attempts` as its options
//                  └─ askModel             model/ask-model.ts: one request, within the model's limits
//                     ├─ Attempts.enter    here: a slot of the run, and the event of the request
//                     └─ model.generate

import type { AnySignal } from "../kernel/cancel-signal.ts";
import type { Clock } from "../kernel/clock.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { Release } from "../kernel/semaphore.ts";
import type { PlannedRequest } from "../model/ask-model.ts";
import { getFallbackModels } from "../model/fallback.ts";
import type { CacheKey, Model, ModelReply, ModelRequest } from "../model/model.ts";
import {
  generateWithRetries,
  type AttemptLog,
  type GenerateOutcome,
  type PlannedRetry,
  type RetryOptions,
} from "../model/retry.ts";
import type { RetryPolicy } from "../model/retry-policy.ts";
import { toReadable, removeProviderData } from "../model/recipient-messages.ts";
import type { EventBody } from "../protocol/event.ts";
import type { SpanContent } from "../protocol/message.ts";
import { toSpans, attachTimeSpans, type TimeSpan } from "../protocol/step-timing.ts";
import { NO_USAGE, type Usage, subtractUsage } from "../protocol/usage.ts";
import type { BudgetRefusal, LeaseOutcome } from "../budget/lease.ts";
import { toEventPosition, type EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import {
  toCallUsage,
  findCostWarnings,
  getLeaseTerms,
  findFallbackUsage,
  type ModelCallEnd,
} from "../budget/call-usage.ts";
import type { InferOutcome } from "./effect-outcomes.ts";
import { serializeError } from "./serialize-error.ts";
import {
  describeServer,
  describeModel,
  recordWarnings,
  createModelRequestedEvent,
  type InferCall,
} from "./model-events.ts";

/**
 * Calls the model until it replies or fails for good. Never rejects. Calls made by hooks have a
 * number and are charged here one by one. A plain call is charged in `settleModelCall`.
 */
export async function runAttempts(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  const attempts = new Attempts(agent, call);
  let settled: EndedAttempts;
  try {
    settled = await generateWithRetries(agent.model, call.request, attempts);
  } catch (error) {
    settled = { type: "threw", error };
  }
  // The throttle spreads many simultaneous replies over several turns of the event loop.
  const turn = agent.run.settings.throttle.turn();
  if (turn !== undefined) await turn;
  const outcome = attempts.end(settled);
  attempts.leaveSlot();
  if (call.number !== undefined) attempts.charge(outcome.usage);
  return attachTimeSpans(outcome, attempts.getSpans());
}

/** How the attempts of a call settled. */
type EndedAttempts = GenerateOutcome | { readonly type: "threw"; readonly error: unknown };

type RepliedAttempts = Extract<GenerateOutcome, { readonly type: "replied" }>;

/**
 * The attempts of one model call. Owns their slot, their time, and the usage that is already
 * charged.
 */
class Attempts implements RetryOptions {
  readonly signal: AnySignal;
  readonly noStartSignal: AnySignal;
  readonly clock: Clock;
  readonly policy: RetryPolicy;
  readonly graceMs: number;
  readonly inputTokens: number;
  readonly cacheKey: CacheKey | undefined;
  readonly onDelta: RetryOptions["onDelta"];
  readonly place: NonNullable<RetryOptions["place"]>;
  readonly #agent: AgentRuntime;
  readonly #position: EventPosition;
  /** The call with the lease of the current attempt. */
  #call: InferCall;
  #releaseSlot: Release | undefined;
  /** True once the event of the request is recorded. */
  #isOpen = false;
  #isOver = false;
  #attempts = 1;
  /** Milliseconds that the call has waited for slots and provider limits. */
  #queuedMs = 0;
  /** The part of `#queuedMs` that events have already reported. */
  #reportedMs = 0;
  /** When the next attempt is due. `undefined` while an attempt is in progress. */
  #dueAtMs: number | undefined;
  /** Start of the current period without waiting. */
  #fromMs: number;
  readonly #spans: TimeSpan[] = [];
  /** Usage that is already charged, for broken attempts. */
  #charged: Usage = NO_USAGE;
  /** Tokens lost with broken attempts. */
  #lost: AttemptLog | undefined;
  #refusal: BudgetRefusal | undefined;

  constructor(agent: AgentRuntime, call: InferCall) {
    const { recorder, clock, settings, pieces } = agent.run;
    const { signals, lease, effectPosition } = call;
    const isMainCall = effectPosition.sideCall === undefined;
    this.#agent = agent;
    this.#call = call;
    this.signal = signals.cancelSignal;
    this.noStartSignal = signals.noStartSignal;
    this.clock = clock;
    this.policy = settings.retryPolicy;
    this.graceMs = settings.graceMs;
    this.inputTokens = lease.inputTokens;
    this.cacheKey = isMainCall ? agent.cacheKey : undefined;
    if (isMainCall && pieces?.hasListeners === true) {
      const source = agent.toPartSource(effectPosition);
      this.onDelta = (delta) => (this.#isOver ? undefined : pieces.emitDelta(source, delta));
    }
    this.#position = toEventPosition(effectPosition, call.number);
    this.place = { scope: agent.getScope(this.#position), recorder };
    this.#fromMs = clock.nowMs();
    this.#dueAtMs = this.#fromMs;
  }

  /** Begins an attempt once it has its slot. The slot is held until the outcome is recorded. */
  enter(asking: PlannedRequest): boolean | Promise<boolean> {
    const entered = this.#agent.run.limiter.acquireModelSlot(asking.noStartSignal);
    return entered instanceof Promise
      ? entered.then((release) => this.#begin(release, asking))
      : this.#begin(entered, asking);
  }

  #begin(release: Release | undefined, asking: PlannedRequest): boolean | Promise<boolean> {
    this.#releaseSlot = release;
    if (!this.#canBegin(asking)) return false;
    if (this.clock.nowMs() > asking.sinceMs) this.#countWait(asking.sinceMs);
    this.#dueAtMs = undefined;
    this.#open();
    const { warning } = asking;
    if (warning !== undefined) recordWarnings(this.#agent, [warning], this.#position);
    const sending = this.#agent.persistence?.prepareSend();
    return sending === undefined || sending.then(() => this.#canBegin(asking));
  }

  /** Counts a wait for a slot that has ended. */
  #countWait(sinceMs: number): void {
    const nowMs = this.clock.nowMs();
    this.#queuedMs += nowMs - sinceMs;
    this.#spans.push(...toSpans("inference", this.#fromMs, sinceMs));
    this.#fromMs = nowMs;
  }

  /** Returns false and releases the slot if the signal was aborted after the slot was acquired. */
  #canBegin({ noStartSignal }: PlannedRequest): boolean {
    if (noStartSignal.aborted) this.leaveSlot();
    return this.#releaseSlot !== undefined;
  }

  /** Releases the slot of the last attempt. */
  leaveSlot(): void {
    this.#releaseSlot?.();
    this.#releaseSlot = undefined;
  }

  /** Records the request, once. */
  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#reportedMs = this.#queuedMs;
    const agent = this.#agent;
    const call = this.#call;
    const { request, number = 1 } = call;
    const facts = { isStreaming: this.onDelta !== undefined, queuedMs: this.#queuedMs };
    if (!agent.run.recorder.countUnread("model.requested")) {
      agent.recordWithinCall(createModelRequestedEvent(agent.model, call, facts), this.#position);
      agent.recordContent(this.#position, () => createRequestContent(request));
    }
    if (number > 1) this.#resetPieces("retry");
  }

  onRetry({ attempt, error, delayMs, nextModel }: PlannedRetry): void {
    // Limits may refuse a call before it has a slot.
    this.#open();
    this.#attempts = nextModel === undefined ? attempt + 1 : attempt;
    this.#resetPieces(nextModel === undefined ? "retry" : "fallback");
    const next = nextModel && { nextModel: describeModel(nextModel) };
    const queuedMs = this.#queuedMs - this.#reportedMs;
    const queued = queuedMs > 0 ? { queuedMs } : {};
    const failure = { attempt, error: serializeError(error), delayMs, ...queued, ...next };
    this.#reportedMs = this.#queuedMs;
    this.#dueAtMs = this.clock.nowMs() + delayMs;
    this.#agent.recordWithinCall({ type: "model.retried", ...failure }, this.#position);
    this.leaveSlot();
  }

  #resetPieces(why: "retry" | "fallback"): void {
    const { pieces } = this.#agent.run;
    if (pieces?.hasListeners === true)
      pieces.reset(this.#agent.toPartSource(this.#call.effectPosition), why);
  }

  /** Charges the broken attempts and extends the lease for another attempt. */
  async payAgain(log: AttemptLog): Promise<ModelRequest | undefined> {
    const agent = this.#agent;
    const { throttle } = agent.run.settings;
    const turn = throttle.turn();
    if (turn !== undefined) await turn;
    this.#lost = log;
    this.leaveSlot();
    this.#spans.push(...toSpans("inference", this.#fromMs, this.clock.nowMs()));
    const { request } = this.#call;
    if (this.signal.aborted) return request;
    this.charge(this.#computeUsage({ type: "failed", ...log }).usage);
    const paid = await extendLease(agent, this.#call, this.noStartSignal);
    this.#fromMs = this.clock.nowMs();
    if (paid.type === "refused") this.#refusal = paid.refusal;
    if (paid.type !== "granted") return undefined;
    const { maxOutputTokens } = paid.lease;
    const extended = Object.freeze({ ...request, maxOutputTokens });
    this.#call = { ...this.#call, lease: paid.lease, request: extended };
    return extended;
  }

  /** Charges the usage since the last charge. */
  charge(used: Usage): void {
    this.#agent.account.charge(this.#call.lease, subtractUsage(used, this.#charged));
    this.#charged = used;
  }

  /** Records the end of the call and returns its outcome. */
  end(settled: EndedAttempts): InferOutcome {
    this.#isOver = true;
    if (settled.type === "aborted" && !this.#isOpen)
      return { type: "cancelled", usage: this.#computeUsage({ type: "unsent" }).usage };
    const dueAtMs = this.#dueAtMs;
    if (dueAtMs !== undefined && this.clock.nowMs() > dueAtMs) this.#countWait(dueAtMs);
    // Limits may refuse a call before it has a slot.
    this.#open();
    // A reply that arrived after the call was cancelled must not be used.
    const isReply = settled.type === "replied" && !this.signal.aborted;
    return isReply ? this.#recordReply(settled) : this.#endWithoutReply(settled);
  }

  /** Returns the periods in which the call did not wait. */
  getSpans(): readonly TimeSpan[] {
    return [...this.#spans, ...toSpans("inference", this.#fromMs, this.clock.nowMs())];
  }

  /** Returns the usage of the call, and the part consumed by fallback models. */
  #computeUsage(end: ModelCallEnd): Pick<InferOutcome, "usage" | "otherModels"> {
    const usage = toCallUsage(this.#agent, this.#call, end);
    if (!("repliedBy" in end || "lossOf" in end)) return { usage };
    const otherModels = findFallbackUsage(this.#agent, this.#call, end);
    return { usage, ...omitUndefined({ otherModels }) };
  }

  /** Records the reply and returns it with its usage. */
  #recordReply(settled: RepliedAttempts): InferOutcome {
    const agent = this.#agent;
    const position = this.#position;
    const spent = this.#computeUsage(settled);
    const { warnings = NO_WARNINGS, ...reply } = settled.reply;
    const { repliedBy: model = agent.model } = settled;
    const isReported = reply.usage?.reportedCostUsd !== undefined;
    const ofCost = isReported
      ? findCostWarnings({ model, priceOf: agent.priceOf }, reply.usage)
      : NO_WARNINGS;
    if (warnings.length + ofCost.length > 0)
      recordWarnings(agent, [...warnings, ...ofCost], position);
    if (!agent.run.recorder.countUnread("model.replied")) {
      agent.recordContent(position, () => createReplyContent(reply));
      agent.recordWithinCall(this.#createRepliedEvent(settled, spent.usage), position);
    }
    return { type: "replied", reply, ...spent };
  }

  #createRepliedEvent(
    { reply, repliedBy: answered }: RepliedAttempts,
    usage: Usage,
  ): EventBody<"model.replied"> {
    const { message, finishReason, responseId, responseModel } = reply;
    const { cacheWriteInputTokens, serviceTier } = reply.usage ?? {};
    return {
      type: "model.replied",
      finishReason,
      toolCallCount: message.toolCalls.length,
      usage,
      attemptCount: this.#attempts,
      queuedMs: this.#queuedMs,
      ...omitUndefined({ cacheWriteInputTokens, responseId, responseModel, serviceTier }),
      ...createRepliedByField(this.#agent, answered),
    };
  }

  /** Records the end of a call without a reply and returns its outcome. */
  #endWithoutReply(settled: EndedAttempts): InferOutcome {
    const agent = this.#agent;
    const position = this.#position;
    const outcome = this.#createOutcome(settled);
    const isFailed = outcome.type === "failed";
    const isRefused = outcome.type === "refused" && settled.type === "refused";
    const notMade = isRefused ? serializeError(settled.error) : CANCELLED_CALL;
    const error = isFailed ? outcome.error : notMade;
    const isRetryable = isRefused || (isFailed && outcome.isRetryable);
    agent.run.noteFailedCall(agent.identity.agentPath, error);
    const { usage } = outcome;
    const tries = { attemptCount: this.#attempts, queuedMs: this.#queuedMs };
    agent.recordWithinCall({ type: "model.failed", error, isRetryable, usage, ...tries }, position);
    return outcome;
  }

  /** Returns the outcome without a reply. A call whose signal was aborted counts as cancelled. */
  #createOutcome(settled: EndedAttempts): Exclude<InferOutcome, { readonly type: "replied" }> {
    const spent = this.#computeUsage(this.#toCallEnd(settled));
    const refusal = settled.type === "refused" ? this.#refusal : undefined;
    if (refusal !== undefined) return { type: "refused", refusal, ...spent };
    const isStopped = settled.type === "aborted" || settled.type === "refused";
    if (isStopped || this.signal.aborted) return { type: "cancelled", ...spent };
    const cause = settled.type === "failed" ? settled.error : undefined;
    const error = serializeError(settled.type === "threw" ? settled.error : cause);
    return { type: "failed", error, isRetryable: cause?.isRetryable === true, ...spent };
  }

  #toCallEnd(settled: EndedAttempts): ModelCallEnd {
    if (settled.type === "refused") return { ...settled, type: "failed" };
    if (settled.type !== "threw") return settled;
    // The abandoned attempt, with the tokens lost before it.
    const lost = this.#lost;
    if (lost === undefined) return { type: "abandoned" };
    return { type: "failed", ...lost, brokenAttempts: lost.brokenAttempts + 1 };
  }
}

/**
 * Extends the lease of a call to cover one more attempt, and records the start and the end of a
 * wait for room. A granted lease is persisted, so that a crash charges what it loses of the
 * attempt.
 */
export async function extendLease(
  agent: AgentRuntime,
  { lease, effectPosition, number }: InferCall,
  signal: AnySignal,
): Promise<LeaseOutcome> {
  const { account, persistence, run } = agent;
  const position = toEventPosition(effectPosition, number);
  let hasWaited = false;
  const outcome = await account.extend(lease, getLeaseTerms(agent), signal, (accountPath) => {
    hasWaited = true;
    if (!run.recorder.countUnread("budget.queued"))
      agent.recordWithinCall({ type: "budget.queued", accountPath }, position);
  });
  if (hasWaited && !run.recorder.countUnread("budget.dequeued"))
    agent.recordWithinCall({ type: "budget.dequeued", outcome: outcome.type }, position);
  if (outcome.type === "granted") await persistence?.whenPersisted();
  return outcome;
}

function createRequestContent({ messages, tools }: ModelRequest): SpanContent {
  return { type: "request", messages: messages.map(toReadable), tools };
}

function createReplyContent({ message, finishReason, rawFinishReason }: ModelReply): SpanContent {
  const raw = omitUndefined({ rawFinishReason });
  return { type: "reply", message: removeProviderData(message), finishReason, ...raw };
}

const NO_WARNINGS: readonly string[] = Object.freeze([]);

const CANCELLED_CALL = { code: "cancelled", message: "The call was cancelled.", data: {} };

/** Returns the model that replied, if it is not the requested one. */
function createRepliedByField(
  { model: requested }: AgentRuntime,
  model: Model | undefined,
): Pick<EventBody<"model.replied">, "repliedBy"> {
  if (model === undefined || model === getFallbackModels(requested)[0]) return {};
  const server = model.server && describeServer(model.server);
  const answered = { ...describeModel(model), insteadOf: requested.id };
  return { repliedBy: { ...answered, ...omitUndefined({ server }) } };
}
