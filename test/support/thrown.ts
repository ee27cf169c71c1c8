// Thrown errors as plain values that a test can compare as a whole.

import { EspalierError, type ErrorCode } from "../../src/kernel/error.ts";
import type { JsonObject } from "../../src/kernel/json.ts";

export interface Thrown {
  readonly code: ErrorCode;
  readonly message: string;
  readonly data: JsonObject;
}

/**
 * Returns the coded error that `work` throws. Throws if nothing is thrown; an error without a code
 * is rethrown.
 */
export function thrownBy(work: () => unknown): Thrown {
  try {
    work();
  } catch (cause) {
    if (!EspalierError.is(cause)) throw cause;
    const { code, message, data } = cause;
    return { code, message, data };
  }
  throw new Error("Expected a coded error, but nothing was thrown.");
}

/** Returns the coded error with which `work` rejects. */
export async function rejectionOf(work: Promise<unknown>): Promise<Thrown> {
  const outcome = await work.then(
    () => undefined,
    (cause: unknown) => ({ cause }),
  );
  return thrownBy(() => {
    if (outcome !== undefined) throw outcome.cause;
  });
}
