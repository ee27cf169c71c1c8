import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { isJsonObject, cloneJson } from "../kernel/json.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";

/** Maximum depth of an error's data. Deeper data helps no reader, and may be circular. */
const MOST_LEVELS = 100;

/**
 * Returns an error as plain data. A coded error keeps its code, and any other value becomes
 * `internal_error`.
 */
export function serializeError(cause: unknown): ErrorRecord {
  const message = redactSecrets(getErrorMessage(cause));
  try {
    if (EspalierError.is(cause)) {
      const data = cloneJson(cause.data, MOST_LEVELS);
      return { code: cause.code, message, data: isJsonObject(data) ? data : {} };
    }
  } catch {
    // A getter of the error threw.
  }
  return { code: "internal_error", message, data: {} };
}
