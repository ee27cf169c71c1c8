// JSON Pointers, by which a schema refers to its parts.

/** Returns the part of a schema that a reference within the same document points to, or undefined. */
export function lookUp(root: unknown, reference: string): unknown {
  if (reference !== "#" && !reference.startsWith("#/")) return undefined;
  try {
    const keys = reference.split("/").slice(1).map(decodeURIComponent);
    return keys.reduce<unknown>((at, key) => {
      const name = unescapeKey(key);
      const isOwn = typeof at === "object" && at !== null && Object.hasOwn(at, name);
      return isOwn ? Reflect.get(at, name) : undefined;
    }, root);
  } catch {
    return undefined; // A percent sign that begins no escape.
  }
}

/** Returns a key as it was before it was written into a pointer. */
export function unescapeKey(key: string): string {
  return key.replaceAll("~1", "/").replaceAll("~0", "~");
}
