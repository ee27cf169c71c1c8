// Warnings about foreign code that must not stop a run: given once for each offender, as a process warning.

const offenders = new WeakSet<object>();

/** Warns about `offender`, unless that was done before. */
export function warnOnce(offender: object, message: string): void {
  if (offenders.has(offender)) return;
  offenders.add(offender);
  process.emitWarning(message, "EspalierWarning");
}

/** Offenders that have no more than a name. The names must be few: each is kept. */
export class NamedOffenders {
  readonly #known = new Set<string>();

  /** Warns about what has this name, unless that was done before. */
  warn(name: string, message: string): void {
    if (this.#known.has(name)) return;
    this.#known.add(name);
    process.emitWarning(message, "EspalierWarning");
  }
}
