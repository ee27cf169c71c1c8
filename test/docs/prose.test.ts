// Goal: documents and comments do not become harder to read.
// Method: count the words and forms that CONTRIBUTING.md warns of, in the project and in made-up
// texts.

import { expect } from "vitest";

import {
  countProse,
  findProseProblems,
  readProseBounds,
  readProseTexts,
  tightenBounds,
  type ProseTexts,
} from "../../scripts/check-prose.ts";
import { proves } from "../harness/proves.ts";

const README = "# A\n\n```sh\nnpm install espalier\n```\n";
const SOURCE = `/**
 * Returns the sum of two numbers.
 *
 * @example add(1, 2)
 */
export const add = (a: number, b: number): number => a + b; // what
// Prices are whole millionths,
// so that sums are exact.
/** The largest sum. */
export const MAX = 10;
`;
const DOCUMENT = "# Runs\n\nA run has a result.\n\n```ts\nconst what = 1;\n```\n";

function textsOf(source: string, document: string, readme: string): ProseTexts {
  return {
    sources: new Map([["src/a.ts", source]]),
    documents: new Map([["docs/a.md", document]]),
    readme,
  };
}

function valuesOf(texts: ProseTexts): Readonly<Record<string, number>> {
  return Object.fromEntries(countProse(texts).map(({ name, value }) => [name, value]));
}

const CLEAN = {
  "comments: what": 0,
  "comments: of it, of them": 0,
  "comments: say, tell": 0,
  "comments: stand": 0,
  "comments: one that, those that": 0,
  "comments: is none, is no": 0,
  "comments that begin with a pronoun, %": 0,
  "comment lines over 100 columns, %": 0,
  "documents: what": 0,
  "documents: of it, of them": 0,
  "documents: say, tell": 0,
  "examples in docstrings": 1,
  "README: words": 8,
  "README: line of the first npm install": 4,
};

proves(["D701"], "keeps the documents and comments of the project within their bounds", () => {
  expect(findProseProblems(countProse(readProseTexts()), readProseBounds())).toEqual([]);
});

proves(["D701"], "counts nothing in plain texts and in code of documents", () => {
  expect(valuesOf(textsOf(SOURCE, DOCUMENT, README))).toEqual(CLEAN);
});

proves(
  ["D701"],
  "exceeds its bound for each hard form in a document, a comment or the README",
  () => {
    const comments = [
      "What stands here is said of it",
      "Those that wait; one that waits is none.",
      `It has ${"many ".repeat(20)}words.`,
    ];
    const source = comments.map((text) => `/** ${text} */\nconst a = 1;\n`).join("");
    const document = "# What of it\n\nThe run says what is told.\n";
    const bad = textsOf(source, document, `# A\n\n${"word ".repeat(20)}\n`);
    const problems = findProseProblems(countProse(bad), CLEAN);
    expect(problems.map((problem) => /"(.+?)"/.exec(problem)?.[1])).toEqual(Object.keys(CLEAN));
    expect(problems.at(-3)).toBe(
      'Expected "examples in docstrings" to be at least 1, got 0. Rewrite what you added.',
    );
    expect(problems.at(-1)).toBe(
      'Expected "README: line of the first npm install" to be at most 4, got 5. Rewrite what you added.',
    );
  },
);

proves(["D701"], "reports a count without a bound", () => {
  const { "comments: what": _bound, ...others } = CLEAN;
  const problems = findProseProblems(countProse(textsOf(SOURCE, DOCUMENT, README)), others);
  expect(problems).toEqual(['Expected a bound for "comments: what" in prose-bounds.json.']);
});

proves(["D701"], "tightens bounds in steps, with some room, and never loosens them", () => {
  const counts = [
    { name: "better", value: 1.2, grain: 0.5 },
    { name: "close", value: 2, grain: 0.5 },
    { name: "worse", value: 9, grain: 0.5 },
    { name: "more", value: 617, grain: 25, isMinimum: true },
    { name: "fewer", value: 3, grain: 25, isMinimum: true },
    { name: "new", value: 7, grain: 5 },
  ] as const;
  const bounds = { better: 4, close: 4, worse: 2, more: 100, fewer: 50 };
  expect(tightenBounds(counts, bounds)).toEqual({
    better: 1.5,
    close: 2.5,
    worse: 2,
    more: 600,
    fewer: 50,
    new: 10,
  });
});
