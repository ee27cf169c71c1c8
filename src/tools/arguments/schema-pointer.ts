// JSON Pointers, by which a schema refers to its parts.

import { findValueAtPath, type JsonValue } from "../../kernel/json.ts";

/** Returns the part of a schema that a reference within the document points to, or `undefined`. */
export function lookUp(root: JsonValue, reference: string): JsonValue | undefined {
  if (reference !== "#" && !reference.startsWith("#/")) return undefined;
  const keys = reference.split("/").slice(1);
  try {
    return findValueAtPath(
      root,
      keys.map((key) => unescapeKey(decodeURIComponent(key))),
    );
  } catch {
    return undefined; // The reference contains an invalid percent encoding.
  }
}

/** Returns a key without the escapes of a pointer. */
export function unescapeKey(key: string): string {
  return key.replaceAll("~1", "/").replaceAll("~0", "~");
}
