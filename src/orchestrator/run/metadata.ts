// The metadata of a run: plain data of the user's, checked to survive JSON.

import { mismatch } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import { deepFreeze, type JsonObject } from "../../kernel/json.ts";
import { jsonCopy, NotJsonError } from "../../kernel/json-copy.ts";
import { JsonObjectSchema } from "../../protocol/json-value.ts";

/** A copy. Throws `invalid_option`, naming the part that would not. */
export function frozenMetadata(metadata: unknown): JsonObject {
  const parsed = JsonObjectSchema.safeParse(metadataCopy(metadata));
  if (parsed.success) return deepFreeze(parsed.data);
  throw mismatch("metadata", "an object of JSON values", metadata, PLAIN_DATA);
}

const PLAIN_DATA =
  "Hand in plain data: text, numbers, true, false, null, lists and objects of these.";

function metadataCopy(metadata: unknown): unknown {
  try {
    return jsonCopy(metadata);
  } catch (cause) {
    const { place, got } =
      cause instanceof NotJsonError ? cause : { place: "", got: `an error: ${messageOf(cause)}` };
    const field = `metadata${place}`;
    const expected = "a JSON value";
    const advice = got === "a date" ? "Hand in its text: date.toISOString()." : PLAIN_DATA;
    throw new EspalierError({
      code: "invalid_option",
      message: `Expected ${field} to be ${expected}, got ${got}. ${advice}`,
      data: { field, expected, got },
      cause,
    });
  }
}
