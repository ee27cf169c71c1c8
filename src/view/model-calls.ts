// ModelCalls: the model calls of one agent as spans, with the waits before and within them.

import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId, StepId } from "../protocol/ids.ts";
import type { SpanEnding, SpanList } from "./span-list.ts";

interface OpenCall {
  readonly stepId: StepId | null;
  readonly callId: CallId | null;
  readonly number: number;
  span: number;
  /** Of the last wait for another attempt; -1: there was none. */
  retry: number;
  /** Milliseconds that its first attempt waited for a slot. */
  readonly queuedMs: number;
}

/** A call that waits before it is requested, or between two of its attempts. */
interface WaitingCall {
  readonly callId: CallId | null;
  /** The account whose budget lacks room. `undefined` if the call has its budget. */
  readonly accountPath?: string;
  /** Of the wait for budget; -1: there is none. */
  readonly span: number;
  /** When the call got its budget. */
  readonly reservedAtMs?: number;
}

/** The model calls of one agent. Changed in place by its `AgentFold`. */
export class ModelCalls {
  readonly #spans: SpanList;
  readonly #open: OpenCall[] = [];
  /** By the tool call that they serve, and by their number: several can wait at a time. */
  readonly #waiting = new Map<string, WaitingCall>();

  constructor(spans: SpanList) {
    this.#spans = spans;
  }

  /** The account whose budget the first call waits for. `undefined` if none waits for budget. */
  get lackingPath(): string | undefined {
    for (const { accountPath } of this.#waiting.values())
      if (accountPath !== undefined) return accountPath;
    return undefined;
  }

  /** `account`: the index of the agent whose budget lacks room. */
  awaitBudget(event: EspalierEvent<"budget.queued">, step: number, account?: number): void {
    const { atMs, accountPath } = event;
    const key = keyOf(event.callId, event.modelCallNumber);
    if (this.#waiting.has(key)) return;
    const call = this.#open[this.#indexOf(event)];
    // The next attempt of a call that is under way waits: the last one broke.
    if (call !== undefined) this.#spans.close(call.span, atMs, "failed");
    const at = call === undefined ? nextStep(event, step) : step;
    const span = this.#spans.open("budget", atMs, at, account);
    this.#waiting.set(key, { callId: event.callId, accountPath, span });
  }

  reserve(event: EspalierEvent<"budget.reserved">, step: number): void {
    const { atMs, callId, waitedMs } = event;
    // Journals written before `budget.queued` existed report the wait at its end.
    if (!this.#endWait(event, "ok") && waitedMs > 0) {
      const wait = { beganAtMs: atMs - waitedMs, atMs, end: "ok" } as const;
      this.#spans.add("budget", wait, nextStep(event, step));
    }
    this.#waiting.set(keyOf(callId), { callId, span: -1, reservedAtMs: atMs });
  }

  /** Ends all waits of a call, those of its further attempts too. Returns false if there are none. */
  endWaits({ callId, atMs }: EspalierEvent, end: SpanEnding): boolean {
    const ended = [...this.#waiting].filter(([, waiting]) => waiting.callId === callId);
    for (const [key, { span }] of ended) {
      if (span !== -1) this.#spans.close(span, atMs, end);
      this.#waiting.delete(key);
    }
    return ended.length > 0;
  }

  /** Returns false if the attempt waits for nothing. */
  #endWait({ callId, modelCallNumber, atMs }: EspalierEvent, end: SpanEnding): boolean {
    const key = keyOf(callId, modelCallNumber);
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return false;
    if (waiting.span !== -1) this.#spans.close(waiting.span, atMs, end);
    return this.#waiting.delete(key);
  }

  open(event: EspalierEvent<"model.requested">, step: number): void {
    const { atMs, stepId, callId, modelCallNumber: number = 1, queuedMs = 0 } = event;
    const reservedAtMs = this.#endWaitBefore(event);
    const slotAtMs = Math.max(reservedAtMs, atMs - queuedMs);
    this.#addWait("busy", [reservedAtMs, slotAtMs], step);
    this.#addWait("queue", [slotAtMs, atMs], step);
    if (this.#indexOf(event) !== -1) return;
    const span = this.#spans.open("chat", atMs, step);
    this.#open.push({ stepId, callId, number, span, retry: -1, queuedMs });
  }

  /** Returns when a call that is requested had its budget. */
  #endWaitBefore(event: EspalierEvent<"model.requested">): number {
    const { atMs, callId, modelCallNumber, queuedMs = 0 } = event;
    const key = keyOf(callId, modelCallNumber);
    const { span = -1, reservedAtMs = atMs } = this.#waiting.get(key) ?? {};
    this.#waiting.delete(key);
    if (span === -1) return reservedAtMs;
    // No event tells when a further call of a hook got its budget.
    this.#spans.close(span, atMs - queuedMs, "ok");
    return atMs - queuedMs;
  }

  retry(event: EspalierEvent<"model.retried">, step: number): void {
    const { atMs, delayMs } = event;
    const wait = { beganAtMs: atMs, atMs: atMs + delayMs, end: "failed" } as const;
    const span = this.#spans.add("retry", wait, step);
    const call = this.#open[this.#indexOf(event)];
    const hasWaited = this.#endWait(event, "ok");
    if (call === undefined) return;
    call.retry = span;
    if (hasWaited) call.span = this.#spans.open("chat", atMs, step);
  }

  close(event: EspalierEvent<"model.replied" | "model.failed">, step: number): void {
    const { atMs, queuedMs } = event;
    const at = this.#indexOf(event);
    const call = this.#open[at];
    if (call === undefined) return;
    this.#open.splice(at, 1);
    const isCut = event.type === "model.failed" && event.error.code === "cancelled";
    const end = event.type === "model.replied" ? "ok" : isCut ? "cut" : "failed";
    // A call that ends while it waits for budget has no attempt under way.
    if (!this.#endWait(event, end)) this.#spans.close(call.span, atMs, end);
    if (call.retry === -1) return;
    // The agent had to end before the next attempt was due.
    if (this.#spans.endsAfter(call.retry, atMs)) this.#spans.close(call.retry, atMs, "failed");
    const retryAtMs = this.#spans.endOf(call.retry);
    this.#addWait("queue", [retryAtMs, Math.min(atMs, retryAtMs + queuedMs - call.queuedMs)], step);
  }

  /** Ends everything under way. */
  cut(atMs: number): void {
    for (const call of this.#open)
      if (!this.#waiting.has(keyOf(call.callId, call.number)))
        this.#spans.close(call.span, atMs, "cut");
    for (const { span } of this.#waiting.values())
      if (span !== -1) this.#spans.close(span, atMs, "cut");
    this.#open.length = 0;
    this.#waiting.clear();
  }

  #addWait(
    kind: "busy" | "queue",
    [beganAtMs, atMs]: readonly [from: number, to: number],
    step: number,
  ): void {
    if (beganAtMs < atMs) this.#spans.add(kind, { beganAtMs, atMs, end: "ok" }, step);
  }

  #indexOf({ stepId, callId, modelCallNumber = 1 }: EspalierEvent): number {
    return this.#open.findIndex(
      (call) => call.stepId === stepId && call.callId === callId && call.number === modelCallNumber,
    );
  }
}

function keyOf(callId: CallId | null, number = 1): string {
  return `${callId} ${number}`;
}

/** Returns the step of a call: a call of the agent itself opens the next one. */
function nextStep({ callId }: EspalierEvent, step: number): number {
  return callId === null ? step + 1 : step;
}
