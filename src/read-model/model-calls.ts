// ModelCalls: the model calls of an agent as spans, with the waits before and within them. Several
// calls can be in flight at once, so a wait belongs to a call, not to the agent.

import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { SpanEnding, SpanList } from "./span-list.ts";

/** State of a model call. `queued`: the call has budget, and waits for its next attempt. */
type CallState = "awaiting_budget" | "queued" | "thinking" | "retrying";

interface ModelCallFold {
  /** Tool call that the model call serves. `null` for a call of the agent itself. */
  readonly callId: CallId | null;
  readonly step: number;
  state: CallState;
  /** Account whose budget lacks room, while the call waits for budget. */
  accountPath: string | undefined;
  /** Position of the present budget wait; -1 without a wait. */
  wait: number;
  /** Time of the budget reservation. `undefined` if unknown, or after the first attempt began. */
  reservedAtMs: number | undefined;
  /** True after the first request. */
  hasBegun: boolean;
  /** Position of the span of its attempts; -1 if none is open. */
  chat: number;
  /** Position of the last wait for another attempt; -1 without a wait. */
  retry: number;
  /** Milliseconds of waits for slots that already have spans. */
  queuedMs: number;
}

/** States in order of precedence, for an agent with several calls. */
const STATES: readonly CallState[] = ["thinking", "retrying", "queued", "awaiting_budget"];

/** Model calls of an agent. Updated in place by its `AgentFold`. */
export class ModelCalls {
  readonly #spans: SpanList;
  /** Calls in flight, by the tool call that they serve and by their number. */
  readonly #calls = new Map<string, ModelCallFold>();

  constructor(spans: SpanList) {
    this.#spans = spans;
  }

  /** Account whose budget the first waiting call needs. `undefined` if no call waits for budget. */
  get lackingPath(): string | undefined {
    for (const { accountPath } of this.#calls.values())
      if (accountPath !== undefined) return accountPath;
    return undefined;
  }

  /** State with the highest precedence. `undefined` if no call is in flight. */
  get state(): CallState | undefined {
    if (this.#calls.size === 0) return undefined;
    const states = new Set([...this.#calls.values()].map(({ state }) => state));
    return STATES.find((state) => states.has(state));
  }

  /** Starts a wait for budget. `account` is the index of the agent whose budget lacks room. */
  awaitBudget(event: EspalierEvent<"budget.queued">, step: number, account?: number): void {
    const { atMs, accountPath } = event;
    const call = this.#find(event) ?? this.#add(event, step);
    if (call.wait !== -1) return;
    // The next attempt of a call in flight waits, because the previous one failed.
    if (call.chat !== -1) this.#spans.close(call.chat, atMs, "failed");
    call.chat = -1;
    call.state = "awaiting_budget";
    call.accountPath = accountPath;
    call.wait = this.#spans.open("budget", atMs, call.step, account);
  }

  reserve(event: EspalierEvent<"budget.reserved">, step: number): void {
    const { atMs } = event;
    const call = this.#find(event) ?? this.#add(event, step);
    this.#endBudgetWait(call, atMs, "ok");
    call.state = "queued";
    call.reservedAtMs = atMs;
  }

  /** Ends the budget wait of another attempt or of a further call. */
  endBudgetWait(event: EspalierEvent<"budget.dequeued">): void {
    const { atMs, outcome } = event;
    const call = this.#find(event);
    if (call === undefined) return;
    this.#endBudgetWait(call, atMs, BUDGET_ENDS[outcome]);
    call.state = "queued";
    if (call.hasBegun) return; // `model.retried` or `model.failed` follows.
    call.reservedAtMs = atMs;
    if (outcome !== "granted") this.#calls.delete(buildModelCallKey(event));
  }

  /**
   * Ends all waits of a call whose reservation was released or refused, also those of further
   * calls.
   */
  endWaits({ callId, atMs }: EspalierEvent, end: SpanEnding): void {
    for (const [key, call] of this.#calls) {
      if (call.callId !== callId || call.state === "thinking" || call.state === "retrying")
        continue;
      this.#endBudgetWait(call, atMs, end);
      this.#cutQueued(call, atMs);
      this.#calls.delete(key);
    }
  }

  open(event: EspalierEvent<"model.requested">, step: number): void {
    const { atMs, queuedMs = 0 } = event;
    const call = this.#find(event) ?? this.#add(event, step);
    if (call.chat !== -1) return;
    const { reservedAtMs = atMs - queuedMs } = call;
    const slotAtMs = Math.max(reservedAtMs, atMs - queuedMs);
    this.#addWait("busy", [reservedAtMs, slotAtMs], call);
    this.#addWait("queue", [slotAtMs, atMs], call);
    call.reservedAtMs = undefined;
    call.hasBegun = true;
    call.queuedMs = queuedMs;
    call.state = "thinking";
    call.chat = this.#spans.open("chat", atMs, call.step);
  }

  retry(event: EspalierEvent<"model.retried">): void {
    const { atMs, delayMs, queuedMs = 0 } = event;
    const call = this.#find(event);
    if (call === undefined) return;
    this.#addQueued(call, queuedMs, atMs, "ok");
    const wait = { beganAtMs: atMs, atMs: atMs + delayMs, end: "failed" } as const;
    call.retry = this.#spans.add("retry", wait, call.step);
    call.state = "retrying";
    if (call.chat === -1) call.chat = this.#spans.open("chat", atMs, call.step);
  }

  close(event: EspalierEvent<"model.replied" | "model.failed">): void {
    const { atMs, queuedMs } = event;
    const call = this.#find(event);
    if (call === undefined) return;
    this.#calls.delete(buildModelCallKey(event));
    const isCut = event.type === "model.failed" && event.error.code === "cancelled";
    const failure = isCut ? "cut" : "failed";
    const end = event.type === "model.replied" ? "ok" : failure;
    this.#endBudgetWait(call, atMs, end);
    if (call.chat !== -1) this.#spans.close(call.chat, atMs, end);
    this.#cutRetry(call, atMs, failure);
    this.#addQueued(call, queuedMs - call.queuedMs, atMs, isCut ? "cut" : "ok");
  }

  /** Ends everything in flight. */
  cut(atMs: number): void {
    for (const call of this.#calls.values()) {
      this.#endBudgetWait(call, atMs, "cut");
      this.#cutQueued(call, atMs);
      if (call.chat !== -1) this.#spans.close(call.chat, atMs, "cut");
      this.#cutRetry(call, atMs, "cut");
    }
    this.#calls.clear();
  }

  #find(event: EspalierEvent): ModelCallFold | undefined {
    return this.#calls.get(buildModelCallKey(event));
  }

  #add(event: EspalierEvent, step: number): ModelCallFold {
    const call: ModelCallFold = {
      callId: event.callId,
      step,
      state: "queued",
      accountPath: undefined,
      wait: -1,
      reservedAtMs: undefined,
      hasBegun: false,
      chat: -1,
      retry: -1,
      queuedMs: 0,
    };
    this.#calls.set(buildModelCallKey(event), call);
    return call;
  }

  #endBudgetWait(call: ModelCallFold, atMs: number, end: SpanEnding): void {
    if (call.wait === -1) return;
    this.#spans.close(call.wait, atMs, end);
    call.wait = -1;
    call.accountPath = undefined;
  }

  /** Ends a call that waited for the slot of its first attempt. */
  #cutQueued({ reservedAtMs, step }: ModelCallFold, atMs: number): void {
    if (reservedAtMs !== undefined && reservedAtMs < atMs)
      this.#spans.add("queue", { beganAtMs: reservedAtMs, atMs, end: "cut" }, step);
  }

  /** Shortens the wait for another attempt, if the agent ended or the reply came before. */
  #cutRetry({ retry }: ModelCallFold, atMs: number, end: SpanEnding): void {
    if (retry !== -1 && this.#spans.endsAfter(retry, atMs)) this.#spans.close(retry, atMs, end);
  }

  /** Adds a span for the slot wait of the attempt that ended at `atMs`, after its retry delay. */
  #addQueued(call: ModelCallFold, queuedMs: number, atMs: number, atEnd: SpanEnding): void {
    if (call.retry === -1 || queuedMs <= 0) return;
    const beganAtMs = this.#spans.getEndMs(call.retry);
    const untilMs = Math.min(atMs, beganAtMs + queuedMs);
    call.queuedMs += queuedMs;
    if (beganAtMs >= untilMs) return;
    const end = untilMs === atMs ? atEnd : "ok";
    this.#spans.add("queue", { beganAtMs, atMs: untilMs, end }, call.step);
  }

  #addWait(
    kind: "busy" | "queue",
    [beganAtMs, atMs]: readonly [from: number, to: number],
    { step }: ModelCallFold,
  ): void {
    if (beganAtMs < atMs) this.#spans.add(kind, { beganAtMs, atMs, end: "ok" }, step);
  }
}

/** Ending of a budget wait, by its outcome. */
const BUDGET_ENDS = { granted: "ok", refused: "failed", cancelled: "cut" } as const;

function buildModelCallKey({ callId, modelCallNumber = 1 }: EspalierEvent): string {
  return `${callId} ${modelCallNumber}`;
}
