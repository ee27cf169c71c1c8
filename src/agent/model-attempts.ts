// The attempts of one model call in this process: a slot in the limiter, retries, their price, events.
//
// S2. The lease comes before the slot: an attempt that has to be paid for once more gives its slot back before it asks for room.

import { withinBounds } from "../kernel/cancel.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { messageOf } from "../kernel/error.ts";
import type { GenerateOptions, Model, ModelReply } from "../model/model.ts";
import { generateWithRetries, type GenerateOutcome } from "../model/retry.ts";
import { withoutData } from "../model/written-by.ts";
import type { EventBody } from "../protocol/event.ts";
import type { Message } from "../protocol/message.ts";
import { spanOf, timed, type TimeSpan } from "../protocol/step-timing.ts";
import { NO_USAGE } from "../protocol/usage.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { cancelledBetween, chargeFor, endWithoutReply, paidTurn } from "./broken-calls.ts";
import { callUsage } from "./call-usage.ts";
import type { InferOutcome } from "./effects.ts";
import { errorRecord } from "./error-record.ts";
import type { InferCall, Turn, TurnEnd } from "./infer-call.ts";
import { recordWarnings } from "./model-warnings.ts";
import { parametersOf } from "./make-step-context.ts";

/** Calls the model until it replies or fails for good. Each turn has a slot, and gives it back before the next one is paid for (S2). Never rejects. */
export async function inferOnce(agent: AgentRuntime, call: InferCall): Promise<InferOutcome> {
  let turn: Turn = {
    call,
    askedAtMs: agent.run.clock.nowMs(),
    after: undefined,
    charged: NO_USAGE,
  };
  const spans: TimeSpan[] = [];
  const { stopSignal } = call.signals ?? agent;
  for (;;) {
    const asked = turn;
    const end =
      (await agent.run.limiter.model(stopSignal, () => askModel(agent, asked, spans))) ??
      withoutSlot(agent, turn);
    if (end.type !== "broken") {
      if (call.isPart === true) chargeFor(agent, turn, end.usage);
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
  return { type: "cancelled", usage: callUsage(agent.model, call.lease, { type: "unsent" }) };
}

/** The attempts of a turn, between the events that say so. The time that they took is added to `spans`. */
async function askModel(agent: AgentRuntime, turn: Turn, spans: TimeSpan[]): Promise<TurnEnd> {
  const { call, after } = turn;
  const { position, request, place } = call;
  const startedAtMs = agent.run.clock.nowMs();
  const queuedMs = startedAtMs - turn.askedAtMs;
  const isStreaming = place.sideCall === undefined && agent.run.onText !== undefined;
  if (after === undefined) recordRequest(agent, call, isStreaming);
  let attempts = 1;
  let isOver = false;
  const onText = (piece: string): void => {
    if (!isOver) handText(agent, piece);
  };
  const streaming: Pick<GenerateOptions, "onText"> = isStreaming ? { onText } : {};
  const { signal } = call.signals ?? agent;
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

/** A listener that throws harms no run (E2). */
function handText({ run: { onText }, identity }: AgentRuntime, text: string): void {
  const { agentId, agentPath } = identity;
  try {
    onText?.({ agentId, agentPath, text });
  } catch (cause) {
    if (onText !== undefined)
      warnOnce(onText, `onText threw (${messageOf(cause)}); the run continues.`);
  }
}

function recordRequest(agent: AgentRuntime, call: InferCall, streaming: boolean): void {
  const { lease, request, isEstimated, prefix, position } = call;
  const { messages, tools } = request;
  const { provider, id, server } = agent.model;
  agent.emit(
    {
      type: "model.requested",
      provider,
      model: id,
      ...(server === undefined ? {} : { server: addressOf(server) }),
      messageCount: messages.length,
      toolNames: tools.map((tool) => tool.name),
      estimatedInputTokens: lease.inputTokens,
      isEstimated,
      ...parametersOf(request),
      streaming,
      ...(prefix === undefined ? {} : { prefix }),
    },
    position,
  );
  agent.recordContent(position, () => ({
    type: "request",
    messages: messages.map(readable),
    tools,
  }));
}

function readable(message: Message): Message {
  return message.role === "assistant" ? withoutData(message) : message;
}

/** Where the model is served; what it says besides is left out. */
function addressOf({ address, port }: NonNullable<Model["server"]>): {
  address: string;
  port?: number;
} {
  return { address, ...(port === undefined ? {} : { port }) };
}

/** The reply with what it cost, recorded. */
function replied(
  agent: AgentRuntime,
  { lease, position }: InferCall,
  settled: Extract<GenerateOutcome, { readonly type: "replied" }>,
  tries: { readonly attempts: number; readonly queuedMs: number },
): InferOutcome {
  const usage = callUsage(agent.model, lease, settled);
  const { warnings, ...reply } = settled.reply;
  const { message, finishReason } = reply;
  if (warnings !== undefined) recordWarnings(agent, warnings, position);
  agent.recordContent(position, () => ({
    type: "reply",
    message: withoutData(message),
    finishReason,
  }));
  agent.emit(repliedEvent(reply, { usage, ...tries }), position);
  return { type: "replied", reply, usage };
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
