/**
 * Returns true if a name is probably a misspelling of the other: they differ in case, in `_` and
 * `-`, by one letter or by two swapped letters. Two-letter names are excluded, because too many
 * names differ from them by one letter.
 */
export function isMisspelt(name: string, other: string): boolean {
  if (Math.abs(name.length - other.length) > 3) return false;
  const [a, b] = [normalizeName(name), normalizeName(other)];
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < shorter - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  if (x === y) return true;
  const longer = Math.max(x.length, y.length);
  return shorter > 2 && (longer < 2 || (longer === 2 && x === `${y[1]}${y[0]}`));
}

/** Returns the name in lower case, without `_` and `-`. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "");
}
