// Backlog: one reader's view of the events of a run, or of its pieces. A slow reader never slows the run (E2): when there are too many that were
// not read yet, this reader fails with `backlog_overflow`, and no other.

import { EspalierError } from "../../kernel/error.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { Feed, type DONE, type FeedFailure } from "./feed.ts";

/** What a reader is given, and how much of it may wait. */
export interface BacklogOptions {
  readonly maxBacklog: number;
  /** Only what is of this agent; the end of the run ends it all the same. */
  readonly agentId?: AgentId | undefined;
  readonly onClose: () => void;
}

export class Backlog<T extends { readonly agentId: AgentId }>
  extends Feed<T>
  implements AsyncIterableIterator<T, undefined>
{
  readonly #options: BacklogOptions;

  constructor(options: BacklogOptions) {
    super();
    this.#options = options;
  }

  take(value: T): void {
    const { agentId, maxBacklog } = this.#options;
    if (agentId !== undefined && value.agentId !== agentId) return;
    if (this.isAwaited || this.unreadCount < maxBacklog) this.add(value);
    else this.end({ cause: overflow(maxBacklog) });
  }

  /** Nothing more will come: the run rests, and all of it is kept. `failure`: the reader has to know why. */
  override end(failure?: FeedFailure): void {
    if (this.isOver) return;
    super.end(failure);
    this.#options.onClose();
  }

  return(): Promise<typeof DONE> {
    return Promise.resolve(this.leave());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function overflow(maxBacklog: number): EspalierError {
  return new EspalierError({
    code: "backlog_overflow",
    message: `Expected at most ${maxBacklog} unread, got more: this reader is too slow. Read faster, or raise maxBacklog.`,
    data: { maxBacklog },
  });
}
