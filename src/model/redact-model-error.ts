// Removes secrets from errors of models: a server or a client may have quoted what was sent.

import type { JsonObject } from "../kernel/json.ts";
import { quotesSecret, redactCutValues, type KnownSecret } from "../kernel/redact-values.ts";
import { changedError } from "./http-errors.ts";
import type { ModelError } from "./model-error.ts";

/** Returns the error without the secrets. An error that contained one loses its cause. */
export function redactModelError(error: ModelError, secrets: readonly KnownSecret[]): ModelError {
  if (secrets.length === 0) return error;
  const message = redactCutValues(error.message, secrets);
  if (message === error.message && !quotesSecret(error, secrets)) return error;
  const data = redactData(error.data, secrets);
  return changedError(error, { message, data, cause: undefined });
}

/** Redacts the texts of the data. A nested field that contains a secret is left out. */
function redactData(data: JsonObject, secrets: readonly KnownSecret[]): JsonObject {
  const fields = Object.entries(data).map(([name, value]) => {
    const text = typeof value === "string" ? redactCutValues(value, secrets) : value;
    return [name, text] as const;
  });
  return Object.fromEntries(fields.filter(([, value]) => !quotesSecret(value, secrets)));
}
