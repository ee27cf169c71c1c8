import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { isJsonObject, cloneJson } from "../kernel/json.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";

/** Deeper data helps no reader, and may refer to itself. */
const MOST_LEVELS = 100;

/** An error as plain data: coded ones keep their code, foreign ones become `internal_error` of the loop. */
export function serializeError(cause: unknown): ErrorRecord {
  const message = redactSecrets(getErrorMessage(cause));
  try {
    if (EspalierError.is(cause)) {
      const data = cloneJson(cause.data, MOST_LEVELS);
      return { code: cause.code, message, data: isJsonObject(data) ? data : {} };
    }
  } catch {
    // Something that throws when it is looked at.
  }
  return { code: "internal_error", message, data: {} };
}
