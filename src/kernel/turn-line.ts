// TurnLine: a queue for turns, first come, first served. Owns the waiters; what a turn takes, and whether it is there, its owner knows.

import { onAbort, type AnySignal } from "./cancel.ts";

interface Waiter<Ask> {
  readonly ask: Ask;
  readonly admit: () => void;
}

/** What a line does for its owner. */
export interface TurnLineOptions<Ask> {
  /** True: the waiter has its turn, and has taken what it needs. */
  readonly take: (ask: Ask) => boolean;
  /** Called whenever the line has moved, or has a new member. */
  readonly onMoved?: () => void;
}

const NONE = new Set<never>();

export class TurnLine<Ask> {
  readonly #options: TurnLineOptions<Ask>;
  /** In the order in which they came. Made when the first has to wait. */
  #waiting: Set<Waiter<Ask>> | undefined;

  constructor(options: TurnLineOptions<Ask>) {
    this.#options = options;
  }

  /** The one whose turn is next. */
  get first(): Ask | undefined {
    for (const { ask } of this.#waiting ?? NONE) return ask;
    return undefined;
  }

  /** True: it has its turn. False: the signal was aborted before. A promise of either: it waits. */
  enter(ask: Ask, signal: AnySignal): boolean | Promise<boolean> {
    if (signal.aborted) return false;
    const { size } = this.#waiting ?? NONE;
    if (size === 0 && this.#options.take(ask)) return true;
    const waiting = (this.#waiting ??= new Set());
    return new Promise((resolve) => {
      const stopListening = onAbort(signal, () => {
        waiting.delete(waiter);
        resolve(false);
        this.serve();
      });
      const waiter: Waiter<Ask> = {
        ask,
        admit: () => {
          stopListening();
          resolve(true);
        },
      };
      waiting.add(waiter);
      this.#options.onMoved?.();
    });
  }

  /** Something may have become free: gives turns, in order, up to the first that has to wait on. */
  serve(): void {
    const waiting = this.#waiting ?? NONE;
    for (const waiter of waiting) {
      if (!this.#options.take(waiter.ask)) break;
      waiting.delete(waiter);
      waiter.admit();
    }
    this.#options.onMoved?.();
  }
}
