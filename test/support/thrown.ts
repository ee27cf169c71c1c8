// What a piece of work throws, as plain values that a test can compare whole.

import { EspalierError, type ErrorCode } from "../../src/kernel/error.ts";
import type { JsonObject } from "../../src/kernel/json.ts";

export interface Thrown {
  readonly code: ErrorCode;
  readonly message: string;
  readonly data: JsonObject;
}

/** The coded error that `work` throws. Fails if it throws nothing; an error without a code comes through as it is. */
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

/** The same for work that is waited for. */
export async function rejectionOf(work: Promise<unknown>): Promise<Thrown> {
  const outcome = await work.then(
    () => undefined,
    (cause: unknown) => ({ cause }),
  );
  return thrownBy(() => {
    if (outcome !== undefined) throw outcome.cause;
  });
}
