// Feed: a queue of values and one reader. Owns the values that were not read yet and the reads that wait for a value, each in
// order.

/** Why there is nothing more, where that is a failure. */
export interface FeedFailure {
  readonly cause: unknown;
}

interface Demand<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (cause: unknown) => void;
}

export const DONE: IteratorResult<never, undefined> = { done: true, value: undefined };

export class Feed<T extends object> {
  /** The values to read next, last first: taking the first off a long array would move all others. */
  #unread: T[] = [];
  /** The values after those, in the order in which they came. */
  #arrived: T[] = [];
  readonly #demands: Demand<T>[] = [];
  /** Undefined: more may come. */
  #end: { readonly failure: FeedFailure | undefined } | undefined;

  get unreadCount(): number {
    return this.#unread.length + this.#arrived.length;
  }

  /** True while a reader waits for a value. */
  get isAwaited(): boolean {
    return this.#demands.length > 0;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** Gives a value to the first waiting read, or keeps it for the next. */
  add(value: T): void {
    const demand = this.#demands.shift();
    if (demand === undefined) this.#arrived.push(value);
    else demand.resolve({ done: false, value });
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#unread.length === 0) [this.#unread, this.#arrived] = [this.#arrived.toReversed(), []];
    const value = this.#unread.pop();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    return new Promise((resolve, reject) => {
      if (this.#end === undefined) this.#demands.push({ resolve, reject });
      else answer({ resolve, reject }, this.#end.failure);
    });
  }

  /** Nothing more will come. `failure`: what is unread can still be read, then every read rejects with its cause. */
  end(failure?: FeedFailure): void {
    if (this.isOver) return;
    this.#end = { failure };
    for (const demand of this.#demands.splice(0)) answer(demand, failure);
  }

  /** Drops what is unread. */
  clear(): void {
    this.#unread = [];
    this.#arrived = [];
  }

  /** Ends the feed, and drops what is unread and any failure. */
  leave(): typeof DONE {
    this.clear();
    this.end();
    this.#end = { failure: undefined };
    return DONE;
  }
}

function answer<T>({ resolve, reject }: Demand<T>, failure: FeedFailure | undefined): void {
  if (failure === undefined) resolve(DONE);
  else reject(failure.cause);
}
