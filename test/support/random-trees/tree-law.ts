// Assertions for laws.

/** Throws, naming the law, unless it holds. */
export function law(holds: boolean, rule: string | (() => string)): void {
  if (!holds) throw new Error(`Broken: ${typeof rule === "string" ? rule : rule()}.`);
}

/** Throws, naming the law, unless both are the same as JSON. */
export function same(left: unknown, right: unknown, rule: string): void {
  const [one, other] = [JSON.stringify(left), JSON.stringify(right)];
  law(one === other, () => `${rule}: ${one} is not ${other}`);
}
