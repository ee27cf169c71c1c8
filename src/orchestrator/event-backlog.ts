// EventBacklog: one subscriber's view of the events of a run. Owns the events that were not read yet. A slow reader never slows
// the run (E2): when the backlog is full, this reader fails with `event_backlog_overflow`, and nobody else notices.

import { EspalierError } from "../kernel/error.ts";
import { WaitingLine } from "../kernel/waiting-line.ts";
import type { EventSink } from "../protocol/event-sink.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AgentId } from "../protocol/ids.ts";

type Reader = {
  readonly resolve: (result: IteratorResult<EspalierEvent, undefined>) => void;
  readonly reject: (error: Error) => void;
};

const DONE: IteratorResult<EspalierEvent, undefined> = { done: true, value: undefined };

export class EventBacklog implements EventSink, AsyncIterableIterator<EspalierEvent, undefined> {
  readonly #maxBacklog: number;
  readonly #onClose: () => void;
  readonly #agentId: AgentId | undefined;
  readonly #unread = new WaitingLine<EspalierEvent>();
  #readers: Reader[] = [];
  #end: "open" | "closed" | "overflown" = "open";

  /** `agentId`: only the events of this agent; the end of the run ends it all the same. */
  constructor(maxBacklog: number, onClose: () => void, agentId?: AgentId) {
    this.#maxBacklog = maxBacklog;
    this.#onClose = onClose;
    this.#agentId = agentId;
  }

  take(event: EspalierEvent): void {
    if (this.#agentId === undefined || event.agentId === this.#agentId) this.#keep(event);
    if (event.type === "run.ended" || event.type === "run.paused") this.#close("closed");
  }

  #keep(event: EspalierEvent): void {
    const reader = this.#readers.shift();
    if (reader !== undefined) reader.resolve({ done: false, value: event });
    else if (this.#unread.length < this.#maxBacklog) this.#unread.add(event);
    else this.#close("overflown");
  }

  next(): Promise<IteratorResult<EspalierEvent, undefined>> {
    const event = this.#unread.take();
    if (event !== undefined) return Promise.resolve({ done: false, value: event });
    if (this.#end === "closed") return Promise.resolve(DONE);
    if (this.#end === "overflown") return Promise.reject(this.#overflow());
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }

  /** Nothing more will come. */
  end(): void {
    this.#close("closed");
  }

  return(): Promise<IteratorResult<EspalierEvent, undefined>> {
    this.#unread.clear();
    this.#close("closed");
    this.#end = "closed";
    return Promise.resolve(DONE);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #close(end: "closed" | "overflown"): void {
    if (this.#end !== "open") return;
    this.#end = end;
    this.#onClose();
    for (const reader of this.#readers.splice(0)) reader.resolve(DONE);
  }

  #overflow(): EspalierError {
    return new EspalierError({
      code: "event_backlog_overflow",
      message: `Expected at most ${this.#maxBacklog} unread events, got more: this reader is too slow. Read faster, or raise maxBacklog.`,
      data: { maxBacklog: this.#maxBacklog },
    });
  }
}
