/** Makes a value once, when it is first asked for. A failure is forgotten: the next caller tries anew. */
export class MadeOnce<T> {
  /** Undefined: not asked for yet, or the attempt failed. */
  made: Promise<T> | undefined;

  get(make: () => Promise<T>): Promise<T> {
    this.made ??= make().catch((cause: unknown) => {
      this.made = undefined;
      throw cause;
    });
    return this.made;
  }
}
