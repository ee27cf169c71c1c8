// Process warnings about foreign code that must not stop a run. Each offender is reported once.

import { getErrorMessage } from "./error.ts";
import { omitUndefined } from "./json.ts";

/**
 * Emits a process warning. Text of a server in it cannot steer the terminal that shows it.
 *
 * @param code - The `code` of the warning, for programs that handle it.
 */
export function emitWarning(message: string, code?: string): void {
  const harmless = message.replace(STEERING, " ");
  process.emitWarning(harmless, { type: "EspalierWarning", ...omitUndefined({ code }) });
}

/**
 * Control characters except line breaks and tabs, and marks that change the direction of writing.
 */
const STEERING = /[^\P{Cc}\n\t]|[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

const offenders = new WeakSet<object>();

/** Warns about `offender`, unless that was done before. */
export function warnOnce(offender: object, message: string): void {
  if (offenders.has(offender)) return;
  offenders.add(offender);
  emitWarning(message);
}

/** Offenders without an object, known by name. Names must be few, since each is stored. */
export class NamedOffenders {
  readonly #known = new Set<string>();

  /** Warns about the offender with this name, unless it was reported before. */
  warn(name: string, message: string, code?: string): void {
    if (this.#known.has(name)) return;
    this.#known.add(name);
    emitWarning(message, code);
  }
}

/**
 * Calls a user's listener. An error that it throws, or rejects with later, ends neither a run nor
 * the process. It causes one warning per listener, with the text that `warning` returns.
 */
export function callListener(
  listener: object,
  call: () => unknown,
  warning: (why: string) => string,
): void {
  const complain = (cause: unknown): void => warnOnce(listener, warning(getErrorMessage(cause)));
  try {
    const returned = call();
    if (returned instanceof Promise) returned.catch(complain);
  } catch (cause) {
    complain(cause);
  }
}
