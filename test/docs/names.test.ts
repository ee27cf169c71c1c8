// Goal: documents for maintainers mention only files and names that exist.
// Method: look up each code span in the repository: a path as a file or a folder, a name as a word
// of the sources.

import { existsSync, globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

const DOCUMENTS = [
  "docs/DESIGN.md",
  "docs/glossary.md",
  "docs/invariants.md",
  "CONTRIBUTING.md",
  ...globSync("docs/decisions/*.md").toSorted(),
];
const SOURCES = globSync(
  [
    "{src,test,scripts,site,viewer-page,examples,bench}/**/*.{ts,tsx,json}",
    "*.{json,ts}",
    ".oxlintrc.json",
  ],
  { exclude: ["**/node_modules/**", "**/dist/**", "test/docs/names.test.ts"] },
);
const FILE_NAMES = new Set(SOURCES.map((file) => file.slice(file.lastIndexOf("/") + 1)));
const WORDS = new Set(SOURCES.flatMap((file) => readFileSync(file, "utf8").match(/\w+/g) ?? []));

/** Words of code spans that no source has, and why. */
const FOREIGN: ReadonlySet<string> = new Set([
  "RunState", // OpenAI Agents.
  "asResponse", // Client of openai.
  "_iterSSEMessages", // Client of openai.
  "coerceTypes", // Ajv.
  "fromJSONSchema", // zod.
  "$id", // JSON Schema.
  "$ref", // JSON Schema.
  "json5", // A package that was not chosen.
  "re2js", // A package that was removed.
  "singleton", // pg-boss.
  "ctx", // Restate.
  "intervalCap", // p-queue.
  "quickSearch", // VitePress.
  "jq", // A command.
]);

const IS_PATH = /^[\w.@*<>/-]+(\.(ts|tsx|json|md)|\/)$/;
const IS_NAME = /^[\w$.]+(\(.*\))?$/;

function findCodeSpans(text: string): readonly string[] {
  const prose = text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
}

/** Returns true for a file or folder of the repository, or of `src`, or the name of one file. */
function isKnownPath(path: string): boolean {
  return existsSync(path) || existsSync(`src/${path}`) || FILE_NAMES.has(path);
}

/** Returns the code spans of a document that name nothing that exists. */
function findUnknownNames(text: string): readonly string[] {
  return findCodeSpans(text).filter((code) => {
    if (IS_PATH.test(code)) return !/[*<]/.test(code) && !isKnownPath(code);
    if (!IS_NAME.test(code) || /^[A-Z]\d+$/.test(code)) return false;
    const words = code.match(/[A-Za-z_$]\w+/g) ?? [];
    return words.some((word) => !WORDS.has(word) && !FOREIGN.has(word));
  });
}

test.for(DOCUMENTS)("%s mentions only existing files and names", (file) => {
  const text = readFileSync(file, "utf8");
  expect(findUnknownNames(text)).toEqual([]);
});

test("finds a missing file, folder or name", () => {
  const text =
    "`agent/run-agent.ts` `run-agent.ts` `src/agent/` `RunRuntime` `run.result` `L3` `npm test`\n" +
    "`agent/no-such-file.ts` `noSuchFile.ts` `no-such-folder/` `NoSuchName` `run.noSuchMethod()`\n" +
    "```ts\n`NoSuchNameInABlock`\n```\n";
  expect(findUnknownNames(text)).toEqual([
    "agent/no-such-file.ts",
    "noSuchFile.ts",
    "no-such-folder/",
    "NoSuchName",
    "run.noSuchMethod()",
  ]);
});
