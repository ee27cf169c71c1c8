// Looks for parts of a value that could still be changed.

/** Paths of all objects in `value` that are not frozen; empty if the whole is. */
export function unfrozenParts(value: unknown, path = "value"): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  const below = Object.entries(value).flatMap(([key, part]) =>
    unfrozenParts(part, `${path}.${key}`),
  );
  return Object.isFrozen(value) ? below : [path, ...below];
}

/**
 * Tries to overwrite, delete and add properties in every part of `value`. Returns the paths at
 * which that succeeded.
 */
export function vandalised(value: unknown, path = "value"): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  const attempts = [Reflect.set(value, "added", 1), Reflect.setPrototypeOf(value, { added: 1 })];
  const below = Object.entries(value).flatMap(([key, part]) => {
    attempts.push(Reflect.deleteProperty(value, key), Reflect.set(value, key, "changed"));
    return vandalised(part, `${path}.${key}`);
  });
  return attempts.includes(true) ? [path, ...below] : below;
}
