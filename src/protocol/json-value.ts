import type { JsonObject, JsonValue } from "../kernel/json.ts";
import { z } from "./late-zod.ts";

/** Any JSON value. */
export const JsonValueSchema: z.ZodType<JsonValue> = z.json();
/** A JSON object. */
export const JsonObjectSchema: z.ZodType<JsonObject> = z.record(z.string(), z.json());
