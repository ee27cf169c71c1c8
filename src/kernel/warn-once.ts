// Complaints about foreign code that must not stop a run: said once for each offender, as a process warning.

const offenders = new WeakSet<object>();

/** Warns about `offender`, unless that was done before. */
export function warnOnce(offender: object, message: string): void {
  if (offenders.has(offender)) return;
  offenders.add(offender);
  process.emitWarning(message, "EspalierWarning");
}
