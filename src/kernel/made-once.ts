/** Holds what is made once, when it is first asked for. What could not be made is forgotten: who asks next tries anew. */
export class MadeOnce<T> {
  /** Undefined: nobody has asked yet, or in vain. */
  made: Promise<T> | undefined;

  get(make: () => Promise<T>): Promise<T> {
    this.made ??= make().catch((cause: unknown) => {
      this.made = undefined;
      throw cause;
    });
    return this.made;
  }
}
