// Goal: code samples in documents run (R187).
// Method: every TypeScript sample of the documents occurs, word for word, in an example that runs
// in the same check.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

import { SETTING_FIELDS } from "../../src/tools/tool-settings.ts";
import { proves } from "../harness/proves.ts";

// An example runs the roles of a folder.
const examples = globSync(["examples/*.ts", "examples/{scale-out,service}/*.ts"]).map((file) =>
  unindented(readFileSync(file, "utf8")),
);
const documents = globSync([
  "CONTRIBUTING.md",
  "SECURITY.md",
  "docs/**/*.md",
  "examples/apps/*/README.md",
]).map((file) => ({
  file: file.replaceAll("\\", "/"),
  text: readFileSync(file, "utf8"),
}));
// Code of other libraries, in the guides for their users, is marked as `typescript`. The same
// applies to declarations in the reference, which `npm run check:reference` compares with the
// source.
const isOther = (file: string): boolean =>
  /^docs\/(guides\/coming-from-[\w-]+\.md|reference\/)/.test(file);
const samples = documents.flatMap(({ file, text }) =>
  samplesOf(text)
    .filter(({ language }) => language !== "typescript" || !isOther(file))
    .map(({ sample }) => ({ file, sample })),
);

/** TypeScript code blocks, however they are marked. */
function samplesOf(
  text: string,
): readonly { readonly language: string; readonly sample: string }[] {
  const blocks = text.matchAll(/^ *```(ts|tsx|mts|cts|typescript)\b.*\n([\s\S]*?)^ *```/gim);
  return [...blocks].map(([, language = "", sample = ""]) => ({ language, sample }));
}

const BLOCK = /^ *```\w.*\n([\s\S]*?)^ *```/gm;

/** Lines that may be wider than 80 columns. */
const WIDE: readonly RegExp[] = [
  // The formatter puts an import into one line of up to 100 columns.
  /^[^:]+: import /,
  // The guide shows the table and the report of the demo as a terminal of 120 columns prints them.
  /^docs\/guides\/first-tree\.md: (?:agent {2}|lead|[├│└]|here\.)/,
  // A message and a tag that espalier prints without a line break.
  /^docs\/budgets\.md: stopped: /,
  /^docs\/context\.md: <subagent-result /,
];

/** A sample may be an excerpt of a function. */
function unindented(text: string): string {
  return text.replaceAll(/^ +/gm, "");
}

proves(["R187"], "contains every sample of the documents in an example that runs", () => {
  const lost = samples.filter(
    ({ sample }) => !examples.some((text) => text.includes(unindented(sample))),
  );
  expect(lost).toEqual([]);
});

test("shows code and output of at most 80 columns, so that no block scrolls", () => {
  const texts = [...documents, { file: "README.md", text: readFileSync("README.md", "utf8") }];
  const long = texts
    .filter(({ file }) => !/^docs\/(reference|decisions)\//.test(file))
    .flatMap(({ file, text }) =>
      [...text.matchAll(BLOCK)]
        .flatMap(([, code = ""]) => code.split("\n"))
        .filter((line) => line.length > 80)
        .map((line) => `${file}: ${line}`),
    )
    .filter((line) => !WIDE.some((exempt) => exempt.test(line)));
  expect(long).toEqual([]);
});

proves(
  ["R187"],
  "shows samples of a stop condition, a guard, a filter, a tool and a delegation",
  () => {
    const shown = samples.map(({ sample }) => sample).join("\n");
    for (const word of [
      "StopCondition =",
      "toolGuard(",
      "toolFilter(",
      "defineTool({",
      "defineDelegation({",
    ])
      expect(shown, word).toContain(word);
  },
);

test("documents every setting of a tool", () => {
  const tools = documents.find(({ file }) => file === "docs/tools.md")?.text ?? "";
  const rows = [...tools.matchAll(/^\| `(\w+)` +\|[^|]+\| /gm)].map(([, name]) => name);
  expect(new Set(rows.filter((name) => name !== "needsApproval"))).toEqual(new Set(SETTING_FIELDS));
});

test("documents every option of a wrapper, every distinguished error and the filter of leaks", () => {
  const tools = documents.find(({ file }) => file === "docs/tools.md")?.text ?? "";
  const words = ["timeoutMs", "maxAttempts", "initialDelayMs", "maxDelayMs", "shouldRetry"];
  words.push("maxCalls", "windowMs", 'exceededPolicy: "refuse"', "reason", "isToolTimeout");
  words.push("ToolRetryError", "reply.filtered");
  expect(words.filter((word) => !tools.includes(word))).toEqual([]);
});

test("packs every file that the README links to", () => {
  const manifest: unknown = JSON.parse(readFileSync("package.json", "utf8"));
  const { files } = z.object({ files: z.array(z.string()) }).parse(manifest);
  const links = [...readFileSync("README.md", "utf8").matchAll(/\]\((?!http)([\w-]+)/g)];
  const places = new Set(links.map(([, place = ""]) => place));
  expect([...places].map((place) => [place, files.some((file) => file.startsWith(place))])).toEqual(
    [...places].map((place) => [place, true]),
  );
});
