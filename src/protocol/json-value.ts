import type { JsonObject, JsonValue } from "../kernel/json.ts";
import { lazySchema, z } from "./lazy-schema.ts";

/** Any JSON value. */
export const JsonValueSchema: () => z.ZodType<JsonValue> = lazySchema(() => z.json());
/** A JSON object. */
export const JsonObjectSchema: () => z.ZodType<JsonObject> = lazySchema(() =>
  z.record(z.string(), z.json()),
);
