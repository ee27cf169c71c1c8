// AskedTurn: one turn of a model call, as its attempts are made. Owns the time that they took and waited, and whether the request is on
// record.

import { withinBounds, type AnySignal, type BoundedOutcome } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { defined } from "../kernel/json.ts";
import type { CallSlot, PlannedAsk } from "../model/ask-model.ts";
import type { CacheKey, Model, ModelRequest, ModelServer } from "../model/model.ts";
import type { RequestPrefix } from "../model/request-prefix.ts";
import type { BrokenAttempt, PlannedRetry, RetryOptions } from "../model/retry.ts";
import type { RetryPolicy } from "../model/retry-policy.ts";
import { readable } from "../model/written-by.ts";
import type { EventBody } from "../protocol/event.ts";
import { spanOf, type TimeSpan } from "../protocol/step-timing.ts";
import type { ModelDelta, PieceSource } from "../protocol/stream-piece.ts";
import type { Usage } from "../protocol/usage.ts";
import type { Lease } from "./account-view.ts";
import type { EffectPosition, EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { errorRecord } from "./error-record.ts";
import { parametersOf } from "./make-step-context.ts";
import type { Slot } from "./run-ports.ts";

/** A model call that is paid for. */
export interface InferCall {
  readonly effectPosition: EffectPosition;
  /** Of its events. */
  readonly position: EventPosition;
  readonly lease: Lease;
  readonly request: ModelRequest;
  readonly isEstimated: boolean;
  readonly prefix: RequestPrefix | undefined;
  /**
   * Which of the calls that hooks made of one it is, from 1: of several under the lease, what each used is charged when it ends, so that none
   * of them waits for room that it holds. Left out: there are no hooks around it.
   */
  readonly number?: number;
  readonly signals: CallSignals;
}

/** What ends a model call, and what keeps it from beginning. */
interface CallSignals {
  readonly signal: AnySignal;
  readonly stopSignal: AnySignal;
}

/** One turn of a call: its attempts up to one that breaks and has to be paid for once more. */
export interface Turn {
  readonly call: InferCall;
  /** Milliseconds that the turns before waited for slots and provider limits. */
  readonly queuedMs: number;
  /** What broke in the turn before; undefined: it is the first. */
  readonly after: BrokenAttempt | undefined;
  /** What the turns before were charged. */
  readonly charged: Usage;
}

/** How often a model was asked, and how long that waited for limits and slots. */
export interface Tries {
  readonly attempts: number;
  readonly queuedMs: number;
}

/** How the attempts of a turn are made, and how they go. Owns the time that they took and waited, which is added to `spans`. */
export class AskedTurn implements RetryOptions, CallSlot {
  readonly onDelta: RetryOptions["onDelta"];
  readonly #agent: AgentRuntime;
  readonly #turn: Turn;
  readonly #spans: TimeSpan[];
  #attempts = 1;
  /** Milliseconds that the call has waited for slots and provider limits, in all of its turns. */
  queuedMs: number;
  /** It is on record, and has to end there. */
  isOpen = false;
  /** Since when it has not waited. */
  #fromMs: number;
  #isOver = false;
  #slot: Slot | undefined;

  constructor(agent: AgentRuntime, turn: Turn, spans: TimeSpan[]) {
    this.#agent = agent;
    this.#turn = turn;
    this.#spans = spans;
    const { clock, pieces } = agent.run;
    const isShown = this.#isOfStep && pieces.isHeard;
    this.onDelta = isShown ? (delta) => this.#take(delta) : undefined;
    this.#fromMs = clock.nowMs();
    this.queuedMs = turn.queuedMs;
  }

  get #isOfStep(): boolean {
    return this.#turn.call.effectPosition.sideCall === undefined;
  }

  get signal(): AnySignal {
    return this.#turn.call.signals.signal;
  }

  get startSignal(): AnySignal {
    return this.#turn.call.signals.stopSignal;
  }

  get clock(): Clock {
    return this.#agent.run.clock;
  }

  get policy(): RetryPolicy {
    return this.#agent.run.settings.retry;
  }

  get inputTokens(): number {
    return this.#turn.call.lease.inputTokens;
  }

  get cacheKey(): CacheKey | undefined {
    return this.#isOfStep ? this.#agent.cacheKey : undefined;
  }

  get after(): BrokenAttempt | undefined {
    return this.#turn.after;
  }

  get slot(): CallSlot {
    return this;
  }

  get #source(): PieceSource {
    return this.#agent.pieceSource(this.#turn.call.effectPosition);
  }

  /** An attempt begins when it has its slot, and holds that until what came of it is on record. */
  enter(asking: PlannedAsk): boolean | Promise<boolean> {
    const entered = this.#agent.run.limiter.model(asking.signal);
    return entered instanceof Promise
      ? entered.then((slot) => this.#hasEntered(slot, asking))
      : this.#hasEntered(entered, asking);
  }

  #hasEntered(slot: Slot | undefined, asking: PlannedAsk): boolean | Promise<boolean> {
    this.#slot = slot;
    if (!this.#mayBegin(asking)) return false;
    this.#begin(asking);
    const sending = this.#agent.effects.sending();
    return sending === undefined || sending.then(() => this.#mayBegin(asking));
  }

  /** Gives the slot back if the signal was aborted since the slot was given. */
  #mayBegin({ signal }: PlannedAsk): boolean {
    if (signal.aborted) this.leaveSlot();
    return this.#slot !== undefined;
  }

  ask<T>(work: () => Promise<T>): Promise<BoundedOutcome<T>> {
    const { signal } = this;
    const agent = this.#agent;
    return withinBounds(agent.within(this.#turn.call.position, work), { ...agent.bounds, signal });
  }

  /** Gives the slot of the last attempt back. */
  leaveSlot(): void {
    this.#slot?.leave();
    this.#slot = undefined;
  }

  #begin({ sinceMs, warning }: PlannedAsk): void {
    const nowMs = this.#agent.run.clock.nowMs();
    if (nowMs > sinceMs) {
      this.queuedMs += nowMs - sinceMs;
      this.#spans.push(...spanOf("inference", this.#fromMs, sinceMs));
      this.#fromMs = nowMs;
    }
    this.open();
    if (warning !== undefined) recordWarnings(this.#agent, [warning], this.#turn.call.position);
  }

  open(): void {
    const { call, after } = this.#turn;
    if (this.isOpen) return;
    this.isOpen = true;
    if (after !== undefined) return;
    recordRequest(this.#agent, call, this.onDelta !== undefined, this.queuedMs);
    const { number = 1 } = call;
    if (number > 1) this.#agent.run.pieces.reset(this.#source, "retry");
  }

  #take(delta: ModelDelta): void {
    if (!this.#isOver) this.#agent.run.pieces.take(this.#source, delta);
  }

  onRetry({ attempt, error, delayMs, nextModel }: PlannedRetry): void {
    this.open();
    this.#attempts = nextModel === undefined ? attempt + 1 : attempt;
    this.#agent.run.pieces.reset(this.#source, nextModel === undefined ? "retry" : "fallback");
    const next = nextModel && { nextModel: nameOf(nextModel) };
    const { position } = this.#turn.call;
    const failure = { attempt, error: errorRecord(error), delayMs, ...next };
    this.#agent.emit({ type: "model.retried", ...failure }, position);
    this.leaveSlot();
  }

  /** The turn is over: later pieces of it are ignored. */
  end(): Tries {
    this.#isOver = true;
    return { attempts: this.#attempts, queuedMs: this.queuedMs };
  }

  /** The time since it last waited. */
  restSpan(): readonly TimeSpan[] {
    return spanOf("inference", this.#fromMs, this.#agent.run.clock.nowMs());
  }
}

export function nameOf({ provider, id }: Model): {
  readonly provider: string;
  readonly model: string;
} {
  return { provider, model: id };
}

function recordRequest(
  agent: AgentRuntime,
  call: InferCall,
  streaming: boolean,
  queuedMs: number,
): void {
  const { request, position } = call;
  const { messages, tools } = request;
  agent.note(
    "model.requested",
    () => requestedBody(agent.model, call, streaming, queuedMs),
    position,
  );
  agent.recordContent(position, () => ({
    type: "request",
    messages: messages.map(readable),
    tools,
  }));
}

function requestedBody(
  { provider, id, server, apiType, serviceTier }: Model,
  { lease, request, isEstimated, prefix }: InferCall,
  streaming: boolean,
  queuedMs: number,
): EventBody<"model.requested"> {
  const { messages, tools, output } = request;
  const outputType = output === undefined ? undefined : ("json" as const);
  return {
    type: "model.requested",
    provider,
    model: id,
    ...defined({ server: server && addressOf(server), prefix }),
    messageCount: messages.length,
    toolNames: tools.map((tool) => tool.name),
    estimatedInputTokens: lease.inputTokens,
    isEstimated,
    ...parametersOf(request),
    ...defined({ outputType, apiType, serviceTier }),
    streaming,
    ...(queuedMs > 0 ? { queuedMs } : {}),
  };
}

/** Where the model is served; what it says besides is left out. */
export function addressOf({ address, port }: ModelServer): ModelServer {
  return { address, ...defined({ port }) };
}

// What a provider warns of besides its replies: each warning is recorded once in a run.

/** Of one run. A provider that has something else to say of each request says enough with so many. */
const MOST_WARNINGS = 100;

/** What the runs of this process were warned of. */
const warned = new WeakMap<object, Set<string>>();

export function recordWarnings(
  agent: AgentRuntime,
  warnings: readonly string[],
  position: EventPosition,
): void {
  const known = warned.get(agent.run) ?? new Set();
  warned.set(agent.run, known);
  for (const warning of warnings) {
    if (known.has(warning) || known.size >= MOST_WARNINGS) continue;
    known.add(warning);
    agent.emit({ type: "model.warned", warning }, position);
  }
}
