/** What survives JSON: the only values that events, results and journals hold. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** A JSON object, as metadata and error data are. */
export type JsonObject = { readonly [key: string]: JsonValue };

/** JSON text with the keys of every object in order, so that equal values give equal text. */
export function canonicalJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, sortKeys, indent) ?? "null";
}

function sortKeys(_key: string, value: unknown): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .toSorted()
      .map((key) => [key, value[key]]),
  );
}

/** True for objects that are not arrays: what JSON calls an object. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Freezes a plain value and all that it holds. Stops at what is frozen already, so that shared parts cost nothing. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}
