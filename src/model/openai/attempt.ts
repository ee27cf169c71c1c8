// Attempt: whether one attempt at a call has to end, and why. Its caller, its deadline or its reader end it; at most one piece of work
// is aborted, the one under way. An abort controller for that would take several times as much: one is made for a `fetch` of the user's alone.

/** What an attempt waits for. */
export interface Work {
  /** Ends it. Called once at most. */
  abort(reason: unknown): void;
}

export class Attempt {
  #work: Work | undefined;
  #controller: AbortController | undefined;
  #end: { readonly reason: unknown } | undefined;

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** For code that knows no attempts. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#end !== undefined) this.#controller.abort(this.#end.reason);
    return this.#controller.signal;
  }

  /** Throws the reason if it is over. */
  throwIfOver(): void {
    if (this.#end !== undefined) throw this.#end.reason;
  }

  /** Ends it, unless it is over. */
  end(reason: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { reason };
    this.#controller?.abort(reason);
    this.#work?.abort(reason);
  }

  /** `work` is under way from now on, in place of any other. */
  begin(work: Work): void {
    this.#work = work;
  }

  /** `work` is over. */
  leave(work: Work): void {
    if (this.#work === work) this.#work = undefined;
  }
}
