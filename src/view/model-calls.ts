// ModelCalls: the model calls of one agent as spans, with the waits before and within them.

import type { EspalierEvent } from "../protocol/event.ts";
import type { CallId, StepId } from "../protocol/ids.ts";
import type { SpanEnding, SpanList } from "./span-list.ts";

interface OpenCall {
  readonly stepId: StepId | null;
  readonly callId: CallId | null;
  readonly number: number;
  readonly span: number;
  /** Of the last wait for another attempt; -1: there was none. */
  retry: number;
  /** Milliseconds that its first attempt waited for a slot. */
  readonly queuedMs: number;
}

/** The model calls of one agent. Changed in place by its `AgentFold`. */
export class ModelCalls {
  /** The account whose budget the next call waits for. `undefined` if it waits for none. */
  lackingPath: string | undefined;
  readonly #spans: SpanList;
  readonly #open: OpenCall[] = [];
  /** Of the open wait for budget; -1: there is none. */
  #budgetWait = -1;
  /** When the next call got its budget. */
  #reservedAtMs: number | undefined;

  constructor(spans: SpanList) {
    this.#spans = spans;
  }

  /** `account`: the index of the agent whose budget lacks room. */
  awaitBudget(event: EspalierEvent<"budget.queued">, step: number, account?: number): void {
    this.lackingPath = event.accountPath;
    if (this.#budgetWait !== -1) return;
    this.#budgetWait = this.#spans.open("budget", event.atMs, nextStep(event, step), account);
  }

  reserve(event: EspalierEvent<"budget.reserved">, step: number): void {
    const { atMs, waitedMs } = event;
    // Journals written before `budget.queued` existed report the wait at its end.
    if (!this.endWaits(atMs, "ok") && waitedMs > 0) {
      const wait = { beganAtMs: atMs - waitedMs, atMs, end: "ok" } as const;
      this.#spans.add("budget", wait, nextStep(event, step));
    }
    this.#reservedAtMs = atMs;
  }

  /** Returns false if the next call waits for nothing. */
  endWaits(atMs: number, end: SpanEnding): boolean {
    const isWaiting = this.#budgetWait !== -1 || this.#reservedAtMs !== undefined;
    if (this.#budgetWait !== -1) this.#spans.close(this.#budgetWait, atMs, end);
    this.#budgetWait = -1;
    this.lackingPath = undefined;
    this.#reservedAtMs = undefined;
    return isWaiting;
  }

  open(event: EspalierEvent<"model.requested">, step: number): void {
    const { atMs, stepId, callId, modelCallNumber: number = 1, queuedMs = 0 } = event;
    const reservedAtMs = this.#reservedAtMs ?? atMs;
    const slotAtMs = Math.max(reservedAtMs, atMs - queuedMs);
    this.#reservedAtMs = undefined;
    this.#addWait("busy", [reservedAtMs, slotAtMs], step);
    this.#addWait("queue", [slotAtMs, atMs], step);
    if (this.#indexOf(event) !== -1) return;
    const span = this.#spans.open("chat", atMs, step);
    this.#open.push({ stepId, callId, number, span, retry: -1, queuedMs });
  }

  retry(event: EspalierEvent<"model.retried">, step: number): void {
    const { atMs, delayMs } = event;
    const wait = { beganAtMs: atMs, atMs: atMs + delayMs, end: "failed" } as const;
    const span = this.#spans.add("retry", wait, step);
    const call = this.#open[this.#indexOf(event)];
    if (call !== undefined) call.retry = span;
  }

  close(event: EspalierEvent<"model.replied" | "model.failed">, step: number): void {
    const { atMs, queuedMs } = event;
    const at = this.#indexOf(event);
    const call = this.#open[at];
    if (call === undefined) return;
    this.#open.splice(at, 1);
    const isCut = event.type === "model.failed" && event.error.code === "cancelled";
    const isOk = event.type === "model.replied";
    this.#spans.close(call.span, atMs, isOk ? "ok" : isCut ? "cut" : "failed");
    if (call.retry === -1) return;
    // The agent had to end before the next attempt was due.
    if (this.#spans.endsAfter(call.retry, atMs)) this.#spans.close(call.retry, atMs, "failed");
    const retryAtMs = this.#spans.endOf(call.retry);
    this.#addWait("queue", [retryAtMs, Math.min(atMs, retryAtMs + queuedMs - call.queuedMs)], step);
  }

  /** Ends everything under way. */
  cut(atMs: number): void {
    for (const call of this.#open) this.#spans.close(call.span, atMs, "cut");
    this.#open.length = 0;
    this.endWaits(atMs, "cut");
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

/** Returns the step of a call: a call of the agent itself opens the next one. */
function nextStep({ callId }: EspalierEvent, step: number): number {
  return callId === null ? step + 1 : step;
}
