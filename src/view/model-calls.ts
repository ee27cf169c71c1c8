// ModelCalls: the model calls of one agent as spans, with the waits before and within them.
// Several calls can be under way at once. A wait belongs to a call, never to the agent.

import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { SpanEnding, SpanList } from "./span-list.ts";

/** How far a call is. `queued`: it has its budget, and its next attempt has not begun. */
type CallState = "awaiting_budget" | "queued" | "thinking" | "retrying";

interface ModelCallFold {
  /** The tool call that it serves. `null`: it is a call of the agent itself. */
  readonly callId: CallId | null;
  readonly step: number;
  state: CallState;
  /** The account whose budget lacks room, while it waits for budget. */
  accountPath: string | undefined;
  /** Of the present wait for budget; -1: there is none. */
  wait: number;
  /** When it got its budget. `undefined`: no event told, or its first attempt has begun. */
  reservedAtMs: number | undefined;
  /** True once its first request is on record. */
  hasBegun: boolean;
  /** Of its attempts; -1: none is open. */
  chat: number;
  /** Of the last wait for another attempt; -1: there was none. */
  retry: number;
  /** Milliseconds that it waited for slots, as far as that is drawn. */
  queuedMs: number;
}

/** The state of an agent with several calls, in order of precedence. */
const STATES: readonly CallState[] = ["thinking", "retrying", "queued", "awaiting_budget"];

/** The model calls of one agent. Changed in place by its `AgentFold`. */
export class ModelCalls {
  readonly #spans: SpanList;
  /** Those under way, by the tool call that they serve and by their number. */
  readonly #calls = new Map<string, ModelCallFold>();

  constructor(spans: SpanList) {
    this.#spans = spans;
  }

  /** The account whose budget the first call waits for. `undefined` if none waits for budget. */
  get lackingPath(): string | undefined {
    for (const { accountPath } of this.#calls.values())
      if (accountPath !== undefined) return accountPath;
    return undefined;
  }

  /** `undefined` if no call is under way. */
  get state(): CallState | undefined {
    if (this.#calls.size === 0) return undefined;
    const states = new Set([...this.#calls.values()].map(({ state }) => state));
    return STATES.find((state) => states.has(state));
  }

  /** `account`: the index of the agent whose budget lacks room. */
  awaitBudget(event: EspalierEvent<"budget.queued">, step: number, account?: number): void {
    const { atMs, accountPath } = event;
    const call = this.#find(event) ?? this.#add(event, step);
    if (call.wait !== -1) return;
    // The next attempt of a call that is under way waits: the last one broke.
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

  /** The wait of another attempt or of a further call is over. */
  endBudgetWait(event: EspalierEvent<"budget.dequeued">): void {
    const { atMs, outcome } = event;
    const call = this.#find(event);
    if (call === undefined) return;
    this.#endBudgetWait(call, atMs, BUDGET_ENDS[outcome]);
    call.state = "queued";
    if (call.hasBegun) return; // `model.retried` or `model.failed` follows.
    call.reservedAtMs = atMs;
    if (outcome !== "granted") this.#calls.delete(keyOf(event));
  }

  /** The lease of a call is given back or refused: ends its waits, those of further calls too. */
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
    this.#calls.delete(keyOf(event));
    const isCut = event.type === "model.failed" && event.error.code === "cancelled";
    const end = event.type === "model.replied" ? "ok" : isCut ? "cut" : "failed";
    this.#endBudgetWait(call, atMs, end);
    if (call.chat !== -1) this.#spans.close(call.chat, atMs, end);
    this.#cutRetry(call, atMs, isCut ? "cut" : "failed");
    this.#addQueued(call, queuedMs - call.queuedMs, atMs, isCut ? "cut" : "ok");
  }

  /** Ends everything under way. */
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
    return this.#calls.get(keyOf(event));
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
    this.#calls.set(keyOf(event), call);
    return call;
  }

  #endBudgetWait(call: ModelCallFold, atMs: number, end: SpanEnding): void {
    if (call.wait === -1) return;
    this.#spans.close(call.wait, atMs, end);
    call.wait = -1;
    call.accountPath = undefined;
  }

  /** The call ended while it waited for the slot of its first attempt. */
  #cutQueued({ reservedAtMs, step }: ModelCallFold, atMs: number): void {
    if (reservedAtMs !== undefined && reservedAtMs < atMs)
      this.#spans.add("queue", { beganAtMs: reservedAtMs, atMs, end: "cut" }, step);
  }

  /** The agent had to end, or the reply came, before the next attempt was due. */
  #cutRetry({ retry }: ModelCallFold, atMs: number, end: SpanEnding): void {
    if (retry !== -1 && this.#spans.endsAfter(retry, atMs)) this.#spans.close(retry, atMs, end);
  }

  /** Draws how long the attempt that is over at `atMs` waited for its slot: after the retry. */
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

/** How a wait for budget ended, by its outcome. */
const BUDGET_ENDS = { granted: "ok", refused: "failed", cancelled: "cut" } as const;

function keyOf({ callId, modelCallNumber = 1 }: EspalierEvent): string {
  return `${callId} ${modelCallNumber}`;
}
