// EventBacklog: one subscriber's view of the events of a run. A slow reader never slows the run (E2): when there are too many events that were
// not read yet, this reader fails with `event_backlog_overflow`, and no other.

import { EspalierError } from "../../kernel/error.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { Feed, type DONE, type FeedFailure } from "./feed.ts";

export class EventBacklog
  extends Feed<EspalierEvent>
  implements EventSink, AsyncIterableIterator<EspalierEvent, undefined>
{
  readonly #maxBacklog: number;
  readonly #onClose: () => void;
  readonly #agentId: AgentId | undefined;

  /** `agentId`: only the events of this agent; the end of the run ends it all the same. */
  constructor(maxBacklog: number, onClose: () => void, agentId?: AgentId) {
    super();
    this.#maxBacklog = maxBacklog;
    this.#onClose = onClose;
    this.#agentId = agentId;
  }

  take(event: EspalierEvent): void {
    if (this.#agentId !== undefined && event.agentId !== this.#agentId) return;
    if (this.isAwaited || this.unreadCount < this.#maxBacklog) this.add(event);
    else this.end({ cause: this.#overflow() });
  }

  /** Nothing more will come: the run rests, and all of it is kept. `failure`: the reader has to know why. */
  override end(failure?: FeedFailure): void {
    if (this.isOver) return;
    super.end(failure);
    this.#onClose();
  }

  return(): Promise<typeof DONE> {
    return Promise.resolve(this.leave());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #overflow(): EspalierError {
    return new EspalierError({
      code: "event_backlog_overflow",
      message: `Expected at most ${this.#maxBacklog} unread events, got more: this reader is too slow. Read faster, or raise maxBacklog.`,
      data: { maxBacklog: this.#maxBacklog },
    });
  }
}
