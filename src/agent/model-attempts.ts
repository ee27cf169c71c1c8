// The attempts of one model call in this process: a slot in the limiter, retries, their price, events.
//
// S2. The lease comes before the slot: an attempt that has to be paid for once more gives its slot back before it asks for room.

import { defined } from "../kernel/json.ts";
import { withinBounds, type AnySignal, type BoundedOutcome } from "../kernel/cancel.ts";
import type { GenerateOptions, ModelRequest, ModelServer } from "../model/model.ts";
import { generateWithRetries, type GenerateOutcome, type BrokenAttempt } from "../model/retry.ts";
import { readable, withoutData } from "../model/written-by.ts";
import { spanOf, timed, type TimeSpan } from "../protocol/step-timing.ts";
import type { ModelDelta } from "../protocol/stream-piece.ts";
import { NO_USAGE, type Usage, subtractUsage } from "../protocol/usage.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { callUsage, costWarnings, leaseTerms, type ModelCallEnd } from "./call-usage.ts";
import type { InferOutcome } from "./effects.ts";
import { errorRecord } from "./error-record.ts";
import { parametersOf } from "./make-step-context.ts";
import type { RequestPrefix } from "../model/request-prefix.ts";
import type { EffectPosition, EventPosition } from "./agent-identity.ts";
import type { Lease } from "./account-view.ts";

/** Calls the model until it replies or fails for good. Each turn has a slot, and gives it back before the next one is paid for (S2). Never rejects. */
export async function inferOnce(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  let turn: Turn = {
    call,
    askedAtMs: agent.run.clock.nowMs(),
    after: undefined,
    charged: NO_USAGE,
  };
  const spans: TimeSpan[] = [];
  const { stopSignal } = call.signals;
  for (;;) {
    const asked = turn;
    const end =
      (await agent.run.limiter.model(stopSignal, () => askModel(agent, asked, spans))) ??
      withoutSlot(agent, turn);
    if (end.type !== "broken") {
      if (call.number !== undefined) chargeFor(agent, turn, end.usage);
      return timed(end, spans);
    }
    const next = await paidTurn(agent, turn, end);
    if ("type" in next) return timed(next, spans);
    turn = next;
  }
}

/** The agent had to end, or to stop, before the turn got its slot. */
function withoutSlot(agent: AgentRuntime, turn: Turn): InferOutcome {
  const { call, after } = turn;
  if (after !== undefined) return cancelledBetween(agent, turn, after.log);
  return { type: "cancelled", usage: callUsage(agent, call.lease, { type: "unsent" }) };
}

/** The attempts of a turn, between the events that say so. The time that they took is added to `spans`. */
async function askModel(agent: AgentRuntime, turn: Turn, spans: TimeSpan[]): Promise<TurnEnd> {
  const { call, after } = turn;
  const { position, request, place } = call;
  const startedAtMs = agent.run.clock.nowMs();
  const queuedMs = startedAtMs - turn.askedAtMs;
  const { pieces } = agent.run;
  const isStreaming = place.sideCall === undefined && pieces.isHeard;
  if (after === undefined) recordRequest(agent, call, isStreaming);
  let attempts = 1;
  let isOver = false;
  const source = agent.pieceSource(place);
  if (after === undefined && call.number !== undefined && call.number > 1)
    pieces.reset(source, "retry");
  const onDelta = (delta: ModelDelta): void => {
    if (!isOver) pieces.take(source, delta);
  };
  const streaming: Pick<GenerateOptions, "onDelta"> = isStreaming ? { onDelta } : {};
  const { signal } = call.signals;
  const bounds = { ...agent.bounds, signal };
  const ask = (): Promise<GenerateOutcome> =>
    generateWithRetries(agent.model, request, {
      signal,
      clock: bounds.clock,
      policy: agent.run.settings.retry,
      inputTokens: call.lease.inputTokens,
      ...streaming,
      ...(place.sideCall === undefined ? { cacheKey: agent.cacheKey } : {}),
      after,
      onRetry: ({ attempt, error, delayMs }) => {
        attempts = attempt + 1;
        pieces.reset(source, "retry");
        agent.emit(
          { type: "model.retried", attempt, error: errorRecord(error), delayMs },
          position,
        );
      },
    });
  const bounded = await withinBounds(agent.within(position, ask), bounds);
  // A thousand replies that arrive at once are acted upon in as many turns of the event loop as they need.
  const continuing = agent.run.throttle.turn();
  if (continuing !== undefined) await continuing;
  isOver = true;
  const settled = bounded.type === "returned" ? bounded.value : undefined;
  // A reply that came in the last moment, when the call had to end already, must not be acted upon.
  const outcome =
    settled?.type === "replied" && !signal.aborted
      ? replied(agent, call, settled, { attempts, queuedMs })
      : endWithoutReply(agent, turn, bounded, { attempts, queuedMs });
  spans.push(...spanOf("inference", startedAtMs, agent.run.clock.nowMs()));
  return outcome;
}

function recordRequest(agent: AgentRuntime, call: InferCall, streaming: boolean): void {
  const { lease, request, isEstimated, prefix, position } = call;
  const { messages, tools, output } = request;
  const { provider, id, server, apiType, serviceTier } = agent.model;
  const outputType = output === undefined ? undefined : ("json" as const);
  agent.emit(
    {
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
    },
    position,
  );
  agent.recordContent(position, () => ({
    type: "request",
    messages: messages.map(readable),
    tools,
  }));
}

/** Where the model is served; what it says besides is left out. */
function addressOf({ address, port }: ModelServer): ModelServer {
  return { address, ...defined({ port }) };
}

/** The reply with what it cost, recorded. */
function replied(
  agent: AgentRuntime,
  { lease, position }: InferCall,
  settled: Extract<GenerateOutcome, { readonly type: "replied" }>,
  tries: { readonly attempts: number; readonly queuedMs: number },
): InferOutcome {
  const usage = callUsage(agent, lease, settled);
  const { warnings = [], ...reply } = settled.reply;
  const { message, finishReason } = reply;
  recordWarnings(agent, [...warnings, ...costWarnings(agent, reply.usage)], position);
  agent.recordContent(position, () => ({
    type: "reply",
    message: withoutData(message),
    finishReason,
  }));
  const { rawFinishReason, responseId, responseModel } = reply;
  const { cacheWriteInputTokens, serviceTier } = reply.usage ?? {};
  agent.emit(
    {
      type: "model.replied",
      finishReason,
      toolCalls: message.toolCalls.length,
      usage,
      ...tries,
      ...defined({
        rawFinishReason,
        cacheWriteInputTokens,
        responseId,
        responseModel,
        serviceTier,
      }),
    },
    position,
  );
  return { type: "replied", reply, usage };
}

// A model call that is paid for, as its attempts are made: turn by turn, each with a slot of its own.

/** A model call that is paid for. */
export interface InferCall {
  readonly place: EffectPosition;
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
interface Turn {
  readonly call: InferCall;
  readonly askedAtMs: number;
  /** What broke in the turn before; undefined: it is the first. */
  readonly after: BrokenAttempt | undefined;
  /** What the turns before were charged. */
  readonly charged: Usage;
}

type TurnEnd = InferOutcome | (BrokenAttempt & { readonly type: "broken" });

// Model calls that do not get a reply at once: attempts that broke and are paid for once more, calls that failed, had to end, or were
// left behind.

/** Charges the attempts that broke, and pays for another one: the next turn, or the end of the call. */
async function paidTurn(
  agent: AgentRuntime,
  turn: Turn,
  { error, log }: BrokenAttempt,
): Promise<Turn | InferOutcome> {
  const { call } = turn;
  const used = callUsage(agent, call.lease, { type: "failed", ...log });
  const charged = chargeFor(agent, turn, used);
  const askedAtMs = agent.run.clock.nowMs();
  const paid = await agent.account.extend(call.lease, leaseTerms(agent), call.signals.stopSignal);
  if (paid.type === "granted") {
    await agent.effects.kept(); // As its first request: what a crash loses of it is known, and charged.
    const { lease } = paid;
    const request = Object.freeze({ ...call.request, maxOutputTokens: lease.maxOutputTokens });
    return { call: { ...call, lease, request }, askedAtMs, after: { error, log }, charged };
  }
  if (paid.type === "cancelled") return cancelledBetween(agent, turn, log);
  const failure = { error: errorRecord(error), isRetryable: true, usage: used };
  const { attempts } = log;
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs: 0 }, call.position);
  return { type: "refused", refusal: paid.refusal, usage: used };
}

/** Books what the turn added to the usage of its call; gives what is booked in all. */
function chargeFor(agent: AgentRuntime, { call, charged }: Turn, used: Usage): Usage {
  const { place, number = 1, lease } = call;
  const isCounted = place.sideCall !== undefined || place.isCounted === true || number > 1;
  const steps = isCounted ? 0 : used.steps;
  const all = { ...used, steps };
  agent.account.charge(lease, subtractUsage(all, charged));
  return all;
}

/** The agent had to end between two attempts. */
function cancelledBetween(
  agent: AgentRuntime,
  { call }: Turn,
  log: BrokenAttempt["log"],
): InferOutcome {
  const usage = callUsage(agent, call.lease, { type: "failed", ...log });
  const { attempts } = log;
  const failure = { error: CANCELLED_CALL, isRetryable: false, usage };
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs: 0 }, call.position);
  return { type: "cancelled", usage };
}

const CANCELLED_CALL = { code: "cancelled", message: "The call was told to end.", data: {} };

/** The end of a turn without a reply, recorded unless another one is to follow. */
function endWithoutReply(
  agent: AgentRuntime,
  turn: Turn,
  bounded: BoundedOutcome<GenerateOutcome>,
  tries: { readonly attempts: number; readonly queuedMs: number },
): TurnEnd {
  const outcome = settledOutcome(agent, turn, bounded);
  if (outcome.type === "broken") return outcome;
  const isFailed = outcome.type === "failed";
  const error = isFailed ? outcome.error : CANCELLED_CALL;
  const isRetryable = isFailed && outcome.isRetryable;
  const { usage } = outcome;
  agent.run.noteFailedCall(agent.identity.agentPath, error);
  agent.emit({ type: "model.failed", error, isRetryable, usage, ...tries }, turn.call.position);
  return outcome;
}

/** A call whose signal was aborted counts as cancelled even if a reply came in the last moment: its result must not be acted upon. */
function settledOutcome(
  agent: AgentRuntime,
  { call, after }: Turn,
  bounded: BoundedOutcome<GenerateOutcome>,
): Exclude<TurnEnd, { readonly type: "replied" }> {
  const { lease } = call;
  const { signal } = call.signals;
  const settled = bounded.type === "returned" ? bounded.value : undefined;
  const isBroken = settled?.type === "broken";
  if (isBroken && !signal.aborted) return settled;
  const end = isBroken ? ({ type: "failed", ...settled.log } as const) : settled;
  const usage = callUsage(agent, lease, end ?? leftBehind(after));
  if (signal.aborted) return { type: "cancelled", usage };
  const cause = settled?.type === "failed" ? settled.error : undefined;
  const error = errorRecord(bounded.type === "threw" ? bounded.error : cause);
  return { type: "failed", error, isRetryable: cause?.isRetryable === true, usage };
}

/** The end of an attempt that was left behind, with what was lost before it. */
function leftBehind(after: BrokenAttempt | undefined): ModelCallEnd {
  if (after === undefined) return { type: "abandoned" };
  const { lostOutputTokens, brokenAttempts } = after.log;
  return { type: "failed", lostOutputTokens, brokenAttempts: brokenAttempts + 1 };
}

// What a provider warns of besides its replies: each warning is recorded once in a run.

/** Of one run. A provider that has something else to say of each request says enough with so many. */
const MOST_WARNINGS = 100;

/** What the runs of this process were warned of. */
const warned = new WeakMap<object, Set<string>>();

function recordWarnings(
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
