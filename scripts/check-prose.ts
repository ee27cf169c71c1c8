// `npm run check:prose`: counts words and forms that make the documents and the comments hard to read, and fails if a count is worse than its bound
// in prose-bounds.json. With `--write` it tightens the bounds to the current counts; a bound is never loosened.
// The counts are a thermometer. Writing rules: CONTRIBUTING.md.

import { globSync, readFileSync, writeFileSync } from "node:fs";

import { z } from "zod";

/** The texts that are counted, by file. */
export interface ProseTexts {
  readonly sources: ReadonlyMap<string, string>;
  readonly documents: ReadonlyMap<string, string>;
  readonly readme: string;
}

export interface ProseCount {
  readonly name: string;
  readonly value: number;
  /** Granularity of the bound, so that a small edit elsewhere does not exceed it. */
  readonly grain: number;
  /** True if more is better. */
  readonly isMinimum?: true;
}

export type ProseBounds = Readonly<Record<string, number>>;

const BOUNDS_FILE = `${import.meta.dirname}/prose-bounds.json`;
const MAX_COLUMNS = 100;
/** Minimum distance between a count and its new bound, in grains. */
const ROOM = 0.25;
const WHAT = /\bwhat\b/gi;
const OF_PRONOUN = /\bof (it|them|one|that|those|its own)\b/gi;
const SAY = /\b(say|says|said|tell|tells|told)\b/gi;
const STAND = /\b(stand|stands|stood)\b/gi;
const ONE_THAT = /\b(one|those|all) (that|who|which)\b/gi;
const IS_NONE = /\b(is|are|was) (none|no)\b/gi;
const BAD_START =
  /^(What|Who|Whose|Those|One|Of|So many|So much|The same|That|It|None|Nothing of)\b/;

/** Returns the counts, in the order in which they are printed. */
export function countProse({ sources, documents, readme }: ProseTexts): readonly ProseCount[] {
  const lines = [...sources.values()].flatMap((text) => text.split("\n"));
  const commentLines = [...sources.values()].flatMap(readCommentLines);
  const comments = [...sources.values()].flatMap(readComments).filter((text) => text !== "");
  const badStarts = comments.filter((text) => BAD_START.test(text));
  const longLines = commentLines.filter((line) => line.length > MAX_COLUMNS);
  const inComments = (pattern: RegExp): number => perThousandWords(comments.join(" \n "), pattern);
  const prose = [...documents.values()]
    .map((text) => text.replaceAll(/```[\s\S]*?```/g, ""))
    .join("\n");
  const readmeLines = readme.split("\n");
  const install = readmeLines.findIndex((line) => /npm (install|i|add) espalier/.test(line));
  return [
    { name: "comments: what", value: inComments(WHAT), grain: 0.5 },
    { name: "comments: of it, of them", value: inComments(OF_PRONOUN), grain: 0.5 },
    { name: "comments: say, tell", value: inComments(SAY), grain: 0.5 },
    { name: "comments: stand", value: inComments(STAND), grain: 0.25 },
    { name: "comments: one that, those that", value: inComments(ONE_THAT), grain: 0.25 },
    { name: "comments: is none, is no", value: inComments(IS_NONE), grain: 0.25 },
    {
      name: "comments that begin with a pronoun, %",
      value: percent(badStarts.length, comments.length),
      grain: 0.5,
    },
    {
      name: "comment lines over 100 columns, %",
      value: percent(longLines.length, commentLines.length),
      grain: 0.5,
    },
    { name: "documents: what", value: perThousandWords(prose, WHAT), grain: 0.25 },
    { name: "documents: of it, of them", value: perThousandWords(prose, OF_PRONOUN), grain: 0.25 },
    { name: "documents: say, tell", value: perThousandWords(prose, SAY), grain: 0.25 },
    {
      name: "examples in docstrings",
      value: lines.filter((line) => line.includes("@example")).length,
      grain: 25,
      isMinimum: true,
    },
    { name: "README: words", value: readme.replaceAll("\n", " ").split(/\s+/).length, grain: 50 },
    {
      name: "README: line of the first npm install",
      value: (install === -1 ? readmeLines.length : install) + 1,
      grain: 5,
    },
  ];
}

/** Returns the lines of a source that belong to comments. A comment after code does not count. */
function readCommentLines(source: string): readonly string[] {
  let isInBlock = false;
  return source.split("\n").filter((raw) => {
    const line = raw.trim();
    const isComment = isInBlock || /^(\/\/|\/?\*)/.test(line);
    if (isInBlock || line.startsWith("/*")) isInBlock = !line.includes("*/");
    return isComment;
  });
}

/** Returns the text of each comment; adjacent line comments are one. */
function readComments(source: string): readonly string[] {
  const comments: string[] = [];
  let open: "block" | "lines" | undefined;
  const append = (text: string): void => {
    comments.push(`${comments.pop() ?? ""} ${text}`);
  };
  for (const raw of source.split("\n")) {
    const line = raw.trim();
    if (open === "block") {
      append(line.replace(/\*\/.*$/, "").replace(/^\*\s?/, ""));
      if (line.includes("*/")) open = undefined;
    } else if (line.startsWith("/*")) {
      comments.push(line.replace(/^\/\*+\s?/, "").replace(/\s*\*\/.*$/, ""));
      open = line.includes("*/") ? undefined : "block";
    } else if (line.startsWith("//")) {
      const text = line.replace(/^\/\/\s?/, "");
      if (open === "lines") append(text);
      else comments.push(text);
      open = "lines";
    } else open = undefined;
  }
  return comments;
}

function perThousandWords(text: string, pattern: RegExp): number {
  return Math.round(((text.match(pattern) ?? []).length * 10_000) / text.split(/\s+/).length) / 10;
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((1000 * part) / whole) / 10;
}

/** Returns a sentence for each count that is worse than its bound, and for each count without one. */
export function findProseProblems(
  counts: readonly ProseCount[],
  bounds: ProseBounds,
): readonly string[] {
  return counts.flatMap(({ name, value, isMinimum }) => {
    const bound = bounds[name];
    if (bound === undefined) return [`Expected a bound for "${name}" in prose-bounds.json.`];
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
  const read = (files: readonly string[]): ReadonlyMap<string, string> =>
    new Map(files.map((file) => [file, readFileSync(file, "utf8")]));
  const sources = globSync("{src,viewer}/**/*.{ts,tsx}", { exclude: ["**/node_modules/**"] });
  const documents = globSync(["README.md", "docs/**/*.md"], {
    exclude: ["docs/reference/api/**", "docs/decisions/**"],
  });
  return {
    sources: read(sources.filter((file) => !/\.d\.tsx?$/.test(file))),
    documents: read(documents),
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
