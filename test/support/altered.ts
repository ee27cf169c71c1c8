// Alters named fields of a JSON document: `accounts.*.limits` is a field of every account.

/** Returns the document as text, with other values in the fields. Throws if a field is not there. */
export function altered(text: string, changes: Readonly<Record<string, unknown>>): string {
  const document: unknown = JSON.parse(text);
  for (const [path, value] of Object.entries(changes)) {
    const isMany = path.includes("*");
    if (set(document, path.split("."), value) === 0)
      throw new Error(`The document has no ${path}${isMany ? " anywhere" : ""}.`);
  }
  return JSON.stringify(document);
}

/** Returns how many fields it has set. */
function set(holder: unknown, [key = "", ...rest]: readonly string[], value: unknown): number {
  if (typeof holder !== "object" || holder === null) return 0;
  const keys = key === "*" ? Object.keys(holder) : [key];
  let count = 0;
  for (const one of keys) {
    if (!(one in holder)) continue;
    if (rest.length > 0) count += set(Reflect.get(holder, one), rest, value);
    else count += Reflect.set(holder, one, structuredClone(value)) ? 1 : 0;
  }
  return count;
}
