/**
 * Memoised promise. Creates the value on the first call, and again if the previous attempt failed.
 */
export class MemoizedPromise<T> {
  /** `undefined` before the first call and after a failure. */
  made: Promise<T> | undefined;

  get(make: () => Promise<T>): Promise<T> {
    this.made ??= make().catch((cause: unknown) => {
      this.made = undefined;
      throw cause;
    });
    return this.made;
  }
}
