// Goal: names, messages, test titles, comments and documents do not become harder to read.
// Method: count the words and forms that CONTRIBUTING.md warns of, in the project and in made-up
// texts.

import { expect } from "vitest";

import {
  findProseProblems,
  readProseBounds,
  readProseTexts,
  tightenBounds,
} from "../../scripts/check-prose.ts";
import { countProse, type ProseTexts } from "../../scripts/prose/count.ts";
import { readCode, readTestTitles } from "../../scripts/prose/read-code.ts";
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

const TEST = 'proves(["R1"], "adds two numbers", () => undefined);\n';

/** Texts without a hard form. */
const PLAIN: ProseTexts = {
  sources: new Map([["src/a.ts", SOURCE]]),
  tests: new Map([["test/a.test.ts", TEST]]),
  documents: new Map([["docs/a.md", DOCUMENT]]),
  decisions: new Map([["docs/decisions/a.md", DOCUMENT]]),
  changelog: DOCUMENT,
  readme: README,
};

function valuesOf(texts: ProseTexts): Readonly<Record<string, number>> {
  return Object.fromEntries(countProse(texts).map(({ name, value }) => [name, value]));
}

function zerosOf(kind: string): Readonly<Record<string, number>> {
  const forms = ["what", "of it, of them", "say, tell", "stand", "one that, those that"];
  const rows = [...forms, "is none, is no", "sentences over 30 words"];
  return Object.fromEntries(rows.map((row) => [`${kind}: ${row}`, 0]));
}

const CLEAN: Readonly<Record<string, number>> = {
  ...zerosOf("comments"),
  "comments that begin with a pronoun, %": 0,
  "comment lines over 100 columns, %": 0,
  ...zerosOf("messages"),
  ...zerosOf("test titles"),
  "test titles that begin with a pronoun, %": 0,
  ...zerosOf("documents"),
  ...zerosOf("decisions"),
  ...zerosOf("CHANGELOG"),
  "functions named by a preposition, %": 0,
  "functions named by a participle, %": 0,
  "functions that begin with a verb, %": 100,
  "function names in several files": 0,
  "type names in several files": 0,
  "invariants stated in several files": 0,
  "examples in docstrings": 1,
  "README: words": 8,
  "README: line of the first npm install": 4,
};

proves(
  ["D701"],
  "keeps the documents and comments of the project within their bounds",
  () => {
    expect(findProseProblems(countProse(readProseTexts()), readProseBounds())).toEqual([]);
  },
  60_000,
);

proves(["D701"], "counts nothing in plain texts and in code of documents", () => {
  expect(valuesOf(PLAIN)).toEqual(CLEAN);
});

/** A sentence with each hard form. */
const HARD = `What stands here is said of it, and all that wait are none ${"many ".repeat(30)}`;

proves(["D701"], "exceeds its bound for each hard form of a name or a text", () => {
  const source = `/** ${HARD} */\n// L1. Here.\nexport const listOf = (): string => "${HARD}";\nfunction made() {}\nexport class A {}\n`;
  const bad: ProseTexts = {
    sources: new Map([
      ["src/a.ts", source],
      ["src/b.ts", source],
    ]),
    tests: new Map([["test/a.test.ts", `test("${HARD}", () => undefined);`]]),
    documents: new Map([["docs/a.md", HARD]]),
    decisions: new Map([["docs/decisions/a.md", HARD]]),
    changelog: HARD,
    readme: `# A\n\n${"word ".repeat(20)}\n`,
  };
  const problems = findProseProblems(countProse(bad), CLEAN);
  expect(problems.map((problem) => /"(.+?)"/.exec(problem)?.[1])).toEqual(Object.keys(CLEAN));
  expect(problems.at(-3)).toBe(
    'Expected "examples in docstrings" to be at least 1, got 0. Rewrite what you added.',
  );
  expect(problems.at(-1)).toBe(
    'Expected "README: line of the first npm install" to be at most 4, got 5. Rewrite what you added.',
  );
});

proves(["D701"], "reads the names and the texts of a source", () => {
  const source = `import { a } from "./a.ts";
export function add(b: number): string { return "the sum of " + b + " and more"; }
const list = (): string => \`a list of \${add(1)}\`;
const SQL = "SELECT a FROM b";
const key = "model.replied";
export interface Sum { readonly key: "a key" }
type Part = "one part";
export class Adder { add(): void {} }
`;
  expect(readCode("a.tsx", source)).toEqual({
    functions: ["add", "list"],
    types: ["Sum", "Part", "Adder"],
    texts: ["the sum of … and more", "a list of …"],
  });
});

proves(["D701"], "reads the titles of tests and groups", () => {
  const source = `describe("a group", () => {
  test("first", () => {});
  test.for([["a", "b"]])("adds $sum", () => {});
  proves(
    ["R1"],
    "proves \\"it\\"",
    () => {},
  );
  it(\`takes \${count} steps\`, () => {});
});
expect(add("other", 2)).toBe("text");
`;
  expect(readTestTitles(source)).toEqual([
    "a group",
    "first",
    "adds …",
    'proves \\"it\\"',
    "takes … steps",
  ]);
});

proves(["D701"], "reports a count without a bound", () => {
  const { "comments: what": _bound, ...others } = CLEAN;
  const problems = findProseProblems(countProse(PLAIN), others);
  expect(problems).toEqual(['Expected a bound for "comments: what" in scripts/prose/bounds.json.']);
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
