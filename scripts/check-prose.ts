// `npm run check:prose`: counts words and forms that make the project hard to read, and fails if a count is worse than its bound in
// prose/bounds.json. With `--write` it tightens the bounds to the current counts; a bound is never loosened.

import { globSync, readFileSync, writeFileSync } from "node:fs";

import { z } from "zod";

import { countProse, type ProseCount, type ProseTexts } from "./prose/count.ts";

export type ProseBounds = Readonly<Record<string, number>>;

const BOUNDS_FILE = `${import.meta.dirname}/prose/bounds.json`;
/** Minimum distance between a count and its new bound, in grains. */
const ROOM = 0.25;

/** Returns a sentence for each count that is worse than its bound, and for each count without one. */
export function findProseProblems(
  counts: readonly ProseCount[],
  bounds: ProseBounds,
): readonly string[] {
  return counts.flatMap(({ name, value, isMinimum }) => {
    const bound = bounds[name];
    if (bound === undefined)
      return [`Expected a bound for "${name}" in scripts/prose/bounds.json.`];
    if (isMinimum ? value >= bound : value <= bound) return [];
    const expected = `${isMinimum ? "at least" : "at most"} ${bound}`;
    return [`Expected "${name}" to be ${expected}, got ${value}. Rewrite what you added.`];
  });
}

/** Returns bounds for these counts, none looser than before. */
export function tightenBounds(counts: readonly ProseCount[], bounds: ProseBounds): ProseBounds {
  return Object.fromEntries(
    counts.map(({ name, value, grain, isMinimum }) => {
      const next = isMinimum
        ? Math.floor(value / grain - ROOM) * grain
        : Math.ceil(value / grain + ROOM) * grain;
      const bound = bounds[name] ?? next;
      return [name, isMinimum ? Math.max(bound, next) : Math.min(bound, next)];
    }),
  );
}

export function readProseBounds(): ProseBounds {
  return z.record(z.string(), z.number()).parse(JSON.parse(readFileSync(BOUNDS_FILE, "utf8")));
}

/** Reads the texts of the project in the working folder. */
export function readProseTexts(): ProseTexts {
  const read = (
    files: string | readonly string[],
    exclude: readonly string[] = [],
  ): ReadonlyMap<string, string> => {
    const found = globSync(files, { exclude: ["**/node_modules/**", "**/*.d.ts", ...exclude] });
    return new Map(found.toSorted().map((file) => [file, readFileSync(file, "utf8")]));
  };
  return {
    sources: read("{src,viewer}/**/*.{ts,tsx}"),
    tests: read("test/**/*.test.ts"),
    documents: read(["README.md", "docs/**/*.md"], ["docs/reference/api/**", "docs/decisions/**"]),
    decisions: read("docs/decisions/*.md"),
    changelog: readFileSync("CHANGELOG.md", "utf8"),
    readme: readFileSync("README.md", "utf8"),
  };
}

if (import.meta.main) {
  const counts = countProse(readProseTexts());
  const bounds = readProseBounds();
  for (const { name, value } of counts)
    console.log(`${name}: ${value} (bound ${String(bounds[name])})`);
  if (process.argv.includes("--write"))
    writeFileSync(BOUNDS_FILE, `${JSON.stringify(tightenBounds(counts, bounds), null, 2)}\n`);
  else {
    const problems = findProseProblems(counts, bounds);
    for (const problem of problems) console.error(problem);
    if (problems.length > 0) process.exitCode = 1;
  }
}
