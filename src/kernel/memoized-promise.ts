/**
 * Memoised promise. Creates the value on the first call, and again if the previous attempt failed.
 */
export class MemoizedPromise<T> {
  /** `undefined` before the first call and after a failure. */
  current: Promise<T> | undefined;

  get(make: () => Promise<T>): Promise<T> {
    this.current ??= make().catch((cause: unknown) => {
      this.current = undefined;
      throw cause;
    });
    return this.current;
  }
}
