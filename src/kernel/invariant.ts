/** Throws if an internal rule is broken: a bug in espalier, never a mistake of its user. */
export function invariant(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new Error(`Broken invariant: ${rule}. This is a bug in espalier.`);
}
