// Paths of fields as error messages write them: `.budget.steps`, `.tools[0]`. A path is read from the left, part by part.

/** The longest of `parts` (`.budget`, `[0]`) with which a path begins; undefined if there is none. Keys may have dots themselves. */
export function firstPart(path: string, parts: Iterable<string>): string | undefined {
  let longest: string | undefined;
  for (const part of parts) {
    if (!isFirst(path, part) || part.length <= (longest?.length ?? -1)) continue;
    longest = part;
  }
  return longest;
}

function isFirst(path: string, part: string): boolean {
  if (!path.startsWith(part)) return false;
  const next = path[part.length];
  return next === undefined || next === "." || next === "[";
}
