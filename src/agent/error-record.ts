import { EspalierError, messageOf } from "../kernel/error.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import type { ErrorRecord } from "../protocol/stop.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";

/** An error as plain data: coded ones keep their code, foreign ones become `internal_error` of the loop. */
export function errorRecord(cause: unknown): ErrorRecord {
  const message = redactSecrets(messageOf(cause));
  try {
    if (EspalierError.is(cause)) {
      const data = JsonObjectSchema.safeParse(cause.data);
      return { code: cause.code, message, data: data.success ? data.data : {} };
    }
  } catch {
    // Something that throws when it is looked at.
  }
  return { code: "internal_error", message, data: {} };
}
