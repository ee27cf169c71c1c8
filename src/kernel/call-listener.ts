import { messageOf } from "./error.ts";
import { warnOnce } from "./warn-once.ts";

/**
 * Calls a listener of the user's. What it throws, or rejects with later, must end neither a run nor the process: it is warned of once for
 * each listener, in the words that `warning` makes of it.
 */
export function callListener(
  listener: object,
  call: () => unknown,
  warning: (why: string) => string,
): void {
  const complain = (cause: unknown): void => warnOnce(listener, warning(messageOf(cause)));
  try {
    const given = call();
    if (given instanceof Promise) given.catch(complain);
  } catch (cause) {
    complain(cause);
  }
}
