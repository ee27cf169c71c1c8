/** Throws if a rule of our own is broken: a bug in espalier, never a mistake of its user. */
export function invariant(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new Error(`Broken invariant: ${rule}. This is a bug in espalier.`);
}

/** Closes a `switch` over a union: a case that was added and not handled is a compile error here. */
export function assertNever(value: never, what: string): never {
  throw new Error(`Unhandled ${what}: ${JSON.stringify(value)}. This is a bug in espalier.`);
}
