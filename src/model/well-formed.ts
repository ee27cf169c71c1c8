// Half of a surrogate pair, as a text has that was cut in the middle of a character, is no JSON to most servers: they refuse the request,
// and with it each later one over the same history. What a model is sent has U+FFFD in its place.

/** The same value without halves of surrogate pairs in its texts; itself, if there are none. What is no plain data stays as it is. */
export function wellFormed<T>(value: T): T;
export function wellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    const formed = items.map((item) => wellFormed(item));
    return formed.every((item, index) => item === items[index]) ? items : formed;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  const fields = Object.entries<unknown>({ ...value });
  const formed = fields.map(([key, field]) => [key.toWellFormed(), wellFormed(field)] as const);
  const isSame = formed.every(
    ([key, field], at) => key === fields[at]?.[0] && field === fields[at][1],
  );
  return isSame ? value : Object.fromEntries(formed);
}

/** A value as JSON text that every server can read. */
export function wireText(value: unknown): string {
  const text = JSON.stringify(value);
  return text.includes(String.raw`\ud`) ? JSON.stringify(wellFormed(value)) : text;
}
