// Goal: whoever writes what a document shows has written something that runs (R187).
// Method: every TypeScript sample of the documents stands, word for word, in an example that runs in the same check.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { SETTING_FIELDS } from "../../src/tools/tool-settings.ts";
import { proves } from "../harness/proves.ts";

const examples = globSync("examples/*.ts").map((file) => readFileSync(file, "utf8"));
const documents = globSync("docs/*.md").map((file) => ({ file, text: readFileSync(file, "utf8") }));
const samples = documents.flatMap(({ file, text }) =>
  [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, sample = ""]) => ({ file, sample })),
);

proves(["R187"], "every sample of the documents stands in an example that runs", () => {
  const lost = samples.filter(({ sample }) => !examples.some((text) => text.includes(sample)));
  expect(lost).toEqual([]);
});

proves(
  ["R187"],
  "there is a sample of a stop condition, of a guard, of a filter and of a tool",
  () => {
    const shown = samples.map(({ sample }) => sample).join("\n");
    for (const word of ["StopCondition =", "toolGuard(", "toolFilter(", "defineTool({"])
      expect(shown, word).toContain(word);
  },
);

test("every setting of a tool is in the document", () => {
  const tools = documents.find(({ file }) => file.endsWith("tools.md"))?.text ?? "";
  const rows = [...tools.matchAll(/^\| `(\w+)` +\|[^|]+\| /gm)].map(([, name]) => name);
  expect(new Set(rows.filter((name) => name !== "needsApproval"))).toEqual(new Set(SETTING_FIELDS));
});
