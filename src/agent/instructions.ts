// Instructions that follow from the context of a run. The roles of most agents have a text instead.

import { shown } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";

/** Throws `instructions_failed`. `role`: its name. */
export function madeInstructions(
  role: string,
  make: (context: unknown) => unknown,
  context: unknown,
): string {
  let text: unknown;
  try {
    text = make(context);
  } catch (cause) {
    throw failed(role, `it threw: ${messageOf(cause)}`, cause);
  }
  if (typeof text === "string" && text.trim() !== "") return text;
  void Promise.resolve(text).catch(() => undefined); // A promise that is not waited for must not be rejected without an owner.
  throw failed(role, `it gave ${shown(text)}`, undefined);
}

function failed(role: string, what: string, cause: unknown): EspalierError {
  return new EspalierError({
    code: "instructions_failed",
    message: `Expected ${role}.instructions to give text that is not empty, but ${what}. Make it a function of the context that answers at once.`,
    data: { role },
    cause,
  });
}
