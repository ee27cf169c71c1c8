// EventBacklog: one subscriber's view of the events of a run. Owns the events that were not read yet. A slow reader never slows
// the run (E2): when the backlog is full, this reader fails with `event_backlog_overflow`, and no other.

import { EspalierError } from "../../kernel/error.ts";
import { WaitingLine } from "../../kernel/queue.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";

type Reader = {
  readonly resolve: (result: IteratorResult<EspalierEvent, undefined>) => void;
  readonly reject: (cause: unknown) => void;
};

/** Whether more may come. `failed`: what is unread can still be read, then every read rejects with the cause. */
type Intake =
  | { readonly kind: "open" }
  | { readonly kind: "closed" }
  | { readonly kind: "failed"; readonly cause: unknown };

const DONE: IteratorResult<EspalierEvent, undefined> = { done: true, value: undefined };

export class EventBacklog implements EventSink, AsyncIterableIterator<EspalierEvent, undefined> {
  readonly #maxBacklog: number;
  readonly #onClose: () => void;
  readonly #agentId: AgentId | undefined;
  readonly #unread = new WaitingLine<EspalierEvent>();
  #readers: Reader[] = [];
  #intake: Intake = { kind: "open" };

  /** `agentId`: only the events of this agent; the end of the run ends it all the same. */
  constructor(maxBacklog: number, onClose: () => void, agentId?: AgentId) {
    this.#maxBacklog = maxBacklog;
    this.#onClose = onClose;
    this.#agentId = agentId;
  }

  take(event: EspalierEvent): void {
    if (this.#agentId !== undefined && event.agentId !== this.#agentId) return;
    const reader = this.#readers.shift();
    if (reader !== undefined) reader.resolve({ done: false, value: event });
    else if (this.#unread.length < this.#maxBacklog) this.#unread.add(event);
    else this.fail(this.#overflow());
  }

  next(): Promise<IteratorResult<EspalierEvent, undefined>> {
    const event = this.#unread.take();
    if (event !== undefined) return Promise.resolve({ done: false, value: event });
    const intake = this.#intake;
    if (intake.kind === "closed") return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      if (intake.kind === "failed") reject(intake.cause);
      else this.#readers.push({ resolve, reject });
    });
  }

  /** Nothing more will come: the run rests, and all of it is kept. */
  end(): void {
    this.#close({ kind: "closed" });
  }

  /** Nothing more will come, and the reader has to know why. */
  fail(cause: unknown): void {
    this.#close({ kind: "failed", cause });
  }

  return(): Promise<IteratorResult<EspalierEvent, undefined>> {
    this.#unread.clear();
    this.end();
    this.#intake = { kind: "closed" };
    return Promise.resolve(DONE);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #close(intake: Exclude<Intake, { readonly kind: "open" }>): void {
    if (this.#intake.kind !== "open") return;
    this.#intake = intake;
    this.#onClose();
    for (const reader of this.#readers.splice(0)) {
      if (intake.kind === "failed") reader.reject(intake.cause);
      else reader.resolve(DONE);
    }
  }

  #overflow(): EspalierError {
    return new EspalierError({
      code: "event_backlog_overflow",
      message: `Expected at most ${this.#maxBacklog} unread events, got more: this reader is too slow. Read faster, or raise maxBacklog.`,
      data: { maxBacklog: this.#maxBacklog },
    });
  }
}
