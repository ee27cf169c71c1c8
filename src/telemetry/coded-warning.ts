// Process warnings that have a code. Owns which were given.

import { emitWarning } from "../kernel/warn-once.ts";

const given = new Set<string>();

/** Warns once in a process of each `matter`: of each message, if it is left out. */
export function warnWithCode(code: string, message: string, matter = message): void {
  if (given.has(matter)) return;
  given.add(matter);
  emitWarning(message, code);
}
