// JoinedReader: what was before a reader came, then what has come meanwhile and comes live. Of the past it has what it has not read yet.

import type { AgentId } from "../../protocol/ids.ts";
import type { Backlog } from "./backlog.ts";
import type { DONE } from "./feed.ts";

export class JoinedReader<T extends { readonly agentId: AgentId }> implements AsyncIterableIterator<
  T,
  undefined
> {
  #past: AsyncIterator<T, undefined> | undefined;
  readonly #live: Backlog<T>;
  /** Reads are answered one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(past: AsyncIterator<T, undefined>, live: Backlog<T>) {
    this.#past = past;
    this.#live = live;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const next = this.#turn.then(() => this.#next());
    this.#turn = next.catch(() => undefined);
    return next;
  }

  async #next(): Promise<IteratorResult<T, undefined>> {
    if (this.#past === undefined) return await this.#live.next();
    try {
      const read = await this.#past.next();
      if (read.done !== true) return read;
    } catch (cause) {
      await this.return();
      throw cause;
    }
    this.#past = undefined;
    return await this.#live.next();
  }

  /** What is being read of the past is let go once it has come. */
  async return(): Promise<typeof DONE> {
    const past = this.#past;
    this.#past = undefined;
    void past?.return?.().catch(() => undefined);
    return await this.#live.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
