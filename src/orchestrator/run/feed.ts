// Feed: a queue of values and one reader. Owns the values that were not read yet and the reads that
// wait for a value, each in order. A Backlog is a Feed of events or pieces, and a Stepper one of phases.

import { EspalierError } from "../../kernel/error.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { PhaseReport } from "../../agent/phase-report.ts";
import { deepFreeze } from "../../kernel/json.ts";

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

/**
 * Returns the reads of a generator that can be left while it waits. `leave` ends what it waits for:
 * on its own, a generator is left only once it has what it waits for.
 */
export function leavable<T>(
  reads: AsyncGenerator<T, undefined>,
  leave: () => Promise<unknown>,
): AsyncIterableIterator<T, undefined> {
  return {
    next: () => reads.next(),
    return: async () => {
      await leave();
      reads.return(undefined).catch(() => undefined);
      return DONE;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function answer<T>({ resolve, reject }: Demand<T>, failure: FeedFailure | undefined): void {
  if (failure === undefined) resolve(DONE);
  else reject(failure.cause);
}

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

export class Stepper
  extends Feed<PhaseReport>
  implements AsyncIterableIterator<PhaseReport, undefined>
{
  readonly #abandon: () => Promise<unknown>;
  /** The loop does not wait any more. */
  #isOpen = false;
  #wakeLoop: (() => void) | undefined;

  /** `abandon` ends the run; it is called when the caller breaks off. */
  constructor(abandon: () => Promise<unknown>) {
    super();
    this.#abandon = abandon;
  }

  /** Lets the loop through for good: what has to end must not wait for a caller that asks for no phase. */
  open(): void {
    this.#isOpen = true;
    this.#wakeLoop?.();
  }

  /** Resolves when the loop may run the next phase. */
  pass(): Promise<void> {
    if (this.#isOpen || this.isAwaited) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }

  /** Gives a phase to the first caller that waits for one, or keeps it for the next; resolves when the loop may run on. */
  step(report: PhaseReport): Promise<void> {
    this.add(deepFreeze(report));
    return this.pass();
  }

  override next(): Promise<IteratorResult<PhaseReport, undefined>> {
    const next = super.next();
    if (this.isAwaited) this.#wakeLoop?.();
    return next;
  }

  async return(): Promise<typeof DONE> {
    this.clear();
    if (!this.isOver) await this.#abandon();
    return this.leave();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
