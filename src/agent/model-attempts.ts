// The attempts of one model call in this process: a queue slot, retries, their price, events.
//
// S2. The lease comes before the slot: an attempt that has to be paid for once more gives its slot back before it asks for room.

import { runBounded, type BoundedOutcome } from "../kernel/cancel.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../model/model.ts";
import type { RequestPrefix } from "../model/request-prefix.ts";
import { generateWithRetries, type BrokenAttempt, type GenerateOutcome } from "../model/retry.ts";
import { withoutData } from "../model/written-by.ts";
import type { EventBody } from "../protocol/event.ts";
import type { Message } from "../protocol/message.ts";
import { spanOf, timed, type TimeSpan } from "../protocol/step-timing.ts";
import { NO_USAGE, subtractUsage, type Usage } from "../protocol/usage.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { Lease } from "./budget-gate.ts";
import { callUsage, type CallEnd } from "./call-usage.ts";
import type { InferOutcome } from "./effects.ts";
import type { EffectPosition } from "./agent-identity.ts";
import { errorRecord } from "./error-record.ts";
import { parametersOf } from "./step-context.ts";
import type { AgentRuntime } from "./agent-runtime.ts";

/** A model call that is paid for. */
export interface InferCall {
  readonly place: EffectPosition;
  readonly lease: Lease;
  readonly request: ModelRequest;
  readonly isEstimated: boolean;
  readonly prefix: RequestPrefix | undefined;
  /** Which of the calls that hooks made of one it is, from 1. Default 1. */
  readonly number?: number;
  /** It is one of several calls under the lease: what it used is charged when it ends, so that none of them waits for room that it holds. */
  readonly isPart?: true;
  /** Default: those of the agent. */
  readonly signals?: CallSignals;
}

/** What ends a model call, and what keeps it from beginning. */
interface CallSignals {
  readonly signal: AbortSignal;
  readonly startSignal: AbortSignal;
}

function startSignalOf(agent: AgentRuntime, { signals }: InferCall): AbortSignal {
  return (signals ?? agent).startSignal;
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

type TurnEnd =
  | InferOutcome
  | (BrokenAttempt & { readonly type: "broken"; readonly spans?: readonly TimeSpan[] });

/** Calls the model until it replies or fails for good. Each turn has a slot, and gives it back before the next one is paid for (S2). Never rejects. */
export async function inferOnce(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  const askedAtMs = agent.nowMs();
  const spans: TimeSpan[] = [];
  let turn: Turn = { call, askedAtMs, after: undefined, charged: NO_USAGE };
  for (;;) {
    const end = await inSlot(agent, turn);
    spans.push(...(end.spans ?? []));
    if (end.type !== "broken") {
      if (call.isPart === true) chargeFor(agent, turn, end.usage);
      return { ...end, ...timed(spans) };
    }
    const next = await paidTurn(agent, turn, end);
    if ("type" in next) return { ...next, ...timed(spans) };
    turn = next;
  }
}

function readable(message: Message): Message {
  return message.role === "assistant" ? withoutData(message) : message;
}

async function inSlot(agent: AgentRuntime, turn: Turn): Promise<TurnEnd> {
  const { call, askedAtMs, after } = turn;
  const end = await agent.run.limiter.model(startSignalOf(agent, call), () => {
    const queuedMs = agent.nowMs() - askedAtMs;
    if (after !== undefined) return timedCall(agent, () => askModel(agent, turn, queuedMs));
    agent.emit(requested(agent, call), at(call));
    const { messages, tools } = call.request;
    agent.recordContent(at(call), () => ({
      type: "request",
      messages: messages.map(readable),
      tools,
    }));
    return timedCall(agent, () => askModel(agent, turn, queuedMs));
  });
  if (end !== undefined) return end;
  if (after !== undefined) return cancelledBetween(agent, turn, after.log);
  return { type: "cancelled", usage: callUsage(agent.model, call.lease, { type: "unsent" }) };
}

/** Charges the attempts that broke, and pays for another one: the next turn, or the end of the call. */
async function paidTurn(
  agent: AgentRuntime,
  turn: Turn,
  { error, log }: BrokenAttempt,
): Promise<Turn | InferOutcome> {
  const { call } = turn;
  const used = callUsage(agent.model, call.lease, { type: "failed", ...log });
  const charged = chargeFor(agent, turn, used);
  const askedAtMs = agent.nowMs();
  const paid = await agent.account.extend(call.lease, agent.model, startSignalOf(agent, call));
  if (paid.type === "granted") {
    await agent.log?.kept(); // As its first request: what a crash loses of it is known, and charged.
    const { lease } = paid;
    const request = Object.freeze({ ...call.request, maxOutputTokens: lease.maxOutputTokens });
    return { call: { ...call, lease, request }, askedAtMs, after: { error, log }, charged };
  }
  if (paid.type === "cancelled") return cancelledBetween(agent, turn, log);
  const failure = { error: errorRecord(error), isRetryable: true, usage: used };
  const { attempts } = log;
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs: 0 }, at(call));
  return { type: "refused", refusal: paid.refusal, usage: used };
}

/** Books what the turn added to the usage of its call; gives what is booked in all. */
function chargeFor(agent: AgentRuntime, { call, charged }: Turn, used: Usage): Usage {
  const { place, number = 1, lease } = call;
  const isCounted = place.aside !== undefined || place.isCounted === true || number > 1;
  const steps = isCounted ? 0 : used.steps;
  const all = { ...used, steps };
  agent.account.charge(lease, subtractUsage(all, charged));
  return all;
}

/** The agent was told to end between two attempts. */
function cancelledBetween(
  agent: AgentRuntime,
  { call }: Turn,
  log: BrokenAttempt["log"],
): InferOutcome {
  const usage = callUsage(agent.model, call.lease, { type: "failed", ...log });
  const { attempts } = log;
  const failure = { error: CANCELLED_CALL, isRetryable: false, usage };
  agent.emit({ type: "model.failed", ...failure, attempts, queuedMs: 0 }, at(call));
  return { type: "cancelled", usage };
}

/** The call with the time that it took. */
async function timedCall(agent: AgentRuntime, work: () => Promise<TurnEnd>): Promise<TurnEnd> {
  const startedAtMs = agent.nowMs();
  const outcome = await work();
  return { ...outcome, ...timed(spanOf("inference", startedAtMs, agent.nowMs())) };
}

async function askModel(agent: AgentRuntime, turn: Turn, queuedMs: number): Promise<TurnEnd> {
  const { call, after } = turn;
  const { signal } = call.signals ?? agent;
  const bounds = { ...agent.bounds, signal };
  const onText = listenerFor(agent, call);
  const { request } = call;
  const place = at(call);
  let attempts = 1;
  let isOver = false;
  const hear = (piece: string): void => {
    if (!isOver) onText?.(piece);
  };
  const streaming: Pick<GenerateOptions, "onText"> = onText === undefined ? {} : { onText: hear };
  const ask = (): Promise<GenerateOutcome> =>
    generateWithRetries(agent.model, request, {
      signal,
      clock: bounds.clock,
      policy: agent.run.settings.retry,
      inputTokens: call.lease.inputTokens,
      ...streaming,
      ...(call.place.aside === undefined ? { cacheKey: agent.cacheKey } : {}),
      after,
      onRetry: ({ attempt, error, delayMs }) => {
        attempts = attempt + 1;
        agent.emit({ type: "model.retried", attempt, error: errorRecord(error), delayMs }, place);
      },
    });
  const bounded = await runBounded(() => agent.within(place, ask), bounds);
  isOver = true;
  const outcome = settledOutcome(agent, turn, bounded);
  if (outcome.type === "broken") return outcome;
  if (outcome.type === "replied") {
    const { usage } = outcome;
    const { warnings = [], ...reply } = outcome.reply;
    const { message, finishReason } = reply;
    for (const warning of warnings.filter((text) => isNew(agent.run, text)))
      agent.emit({ type: "model.warned", warning }, place);
    agent.recordContent(place, () => ({
      type: "reply",
      message: withoutData(message),
      finishReason,
    }));
    agent.emit(repliedEvent(reply, { usage, attempts, queuedMs }), place);
    return { ...outcome, reply };
  }
  const error = outcome.type === "failed" ? outcome.error : CANCELLED_CALL;
  const isRetryable = outcome.type === "failed" && outcome.isRetryable;
  agent.run.noteFailedCall(agent.identity.agentPath, error);
  agent.emit(
    { type: "model.failed", error, isRetryable, usage: outcome.usage, attempts, queuedMs },
    place,
  );
  return outcome;
}

function repliedEvent(
  {
    message,
    finishReason,
    rawFinishReason,
    usage: reported,
    responseId,
    responseModel,
  }: ModelReply,
  measured: Pick<EventBody<"model.replied">, "usage" | "attempts" | "queuedMs">,
): EventBody<"model.replied"> {
  const { cacheWriteInputTokens } = reported ?? {};
  return {
    type: "model.replied",
    finishReason,
    ...(rawFinishReason === undefined ? {} : { rawFinishReason }),
    toolCalls: message.toolCalls.length,
    ...measured,
    ...(cacheWriteInputTokens === undefined ? {} : { cacheWriteInputTokens }),
    ...(responseId === undefined ? {} : { responseId }),
    ...(responseModel === undefined ? {} : { responseModel }),
  };
}

/** What the runs of this process were warned of. */
const warned = new WeakMap<object, Set<string>>();

function isNew(run: object, warning: string): boolean {
  const known = warned.get(run) ?? new Set();
  warned.set(run, known);
  if (known.has(warning) || known.size >= MOST_WARNINGS) return false;
  known.add(warning);
  return true;
}

/** Of one run. A provider that has something else to say of each request says enough with so many. */
const MOST_WARNINGS = 100;

const CANCELLED_CALL = { code: "cancelled", message: "The call was told to end.", data: {} };

function requested(agent: AgentRuntime, call: InferCall): EventBody<"model.requested"> {
  const { lease, request, isEstimated, prefix } = call;
  return {
    type: "model.requested",
    provider: agent.model.provider,
    model: agent.model.id,
    ...serverOf(agent.model),
    messageCount: request.messages.length,
    toolNames: request.tools.map((tool) => tool.name),
    estimatedInputTokens: lease.inputTokens,
    isEstimated,
    ...parametersOf(request),
    streaming: listenerFor(agent, call) !== undefined,
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
function listenerFor(
  agent: AgentRuntime,
  { place }: InferCall,
): ((piece: string) => void) | undefined {
  if (place.aside !== undefined || agent.run.onText === undefined) return undefined;
  return (piece) => agent.emitText(piece);
}

export function at({ place: { stepId, aside }, number = 1 }: InferCall): EventPosition {
  const further = number === 1 ? {} : { modelCallNumber: number };
  if (aside === undefined) return { stepId, ...further };
  return aside.callId === undefined ? further : { stepId, callId: aside.callId, ...further };
}

/** A call that was told to end counts as cancelled even if a reply came in the last moment: its result must not be acted upon. */
function settledOutcome(
  agent: AgentRuntime,
  { call, after }: Turn,
  bounded: BoundedOutcome<GenerateOutcome>,
): TurnEnd {
  const { model } = agent;
  const { lease } = call;
  const { signal } = call.signals ?? agent;
  const settled = bounded.type === "returned" ? bounded.value : undefined;
  if (settled?.type === "replied" && !signal.aborted) {
    return { type: "replied", reply: settled.reply, usage: callUsage(model, lease, settled) };
  }
  if (settled?.type === "failed" && !signal.aborted) {
    const { isRetryable } = settled.error;
    const usage = callUsage(model, lease, settled);
    return { type: "failed", error: errorRecord(settled.error), isRetryable, usage };
  }
  if (settled?.type === "broken" && !signal.aborted) return settled;
  if (!signal.aborted) {
    const error = errorRecord(bounded.type === "threw" ? bounded.error : undefined);
    const usage = callUsage(model, lease, leftBehind(after));
    return { type: "failed", error, isRetryable: false, usage };
  }
  const end = settled?.type === "broken" ? ({ type: "failed", ...settled.log } as const) : settled;
  return { type: "cancelled", usage: callUsage(model, lease, end ?? leftBehind(after)) };
}

/** The end of an attempt that was left behind, with what was lost before it. */
function leftBehind(after: BrokenAttempt | undefined): CallEnd {
  if (after === undefined) return { type: "abandoned" };
  const { lostOutputTokens, brokenAttempts } = after.log;
  return { type: "failed", lostOutputTokens, brokenAttempts: brokenAttempts + 1 };
}
