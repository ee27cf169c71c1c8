// Goal: a coding agent finds each document by llms.txt.
// Method: generate the file as the package and the site do, and parse it as https://llmstxt.org
// describes the format.

import { existsSync, globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

import { findFirstSentence, makeLlmsText } from "../../scripts/llms.ts";
import { proves } from "../harness/proves.ts";

const { description } = z
  .object({ description: z.string() })
  .parse(JSON.parse(readFileSync("package.json", "utf8")));
const LINK = /^- \[[^\]]+\]\(([^)]+)\): \S.*[.!?]$/;

proves(["D704"], "has a title, a summary, and sections with a link and a sentence each", () => {
  const [title, summary, start, ...sections] = makeLlmsText().trimEnd().split("\n\n");
  expect([title, summary, start]).toEqual([
    "# espalier",
    `> ${description}`,
    "To write code with espalier, read [For coding agents](docs/coding-agents.md) first.",
  ]);
  const headings = sections.filter((_text, at) => at % 2 === 0);
  expect(headings.filter((heading) => !/^## \w[\w ]+$/.test(heading))).toEqual([]);
  expect(headings.at(-1)).toBe("## Optional");
  const lines = sections.filter((_text, at) => at % 2 === 1).flatMap((text) => text.split("\n"));
  expect(lines.filter((line) => !LINK.test(line))).toEqual([]);
});

proves(["D704"], "links each document of the package once, by the address of its place", () => {
  const linksOf = (text: string): readonly string[] =>
    text.split("\n").flatMap((line) => LINK.exec(line)?.[1] ?? []);
  const documents = globSync("docs/**/*.md", { exclude: ["docs/decisions/**"] });
  const expected = [...documents, "README.md", "CHANGELOG.md", "examples/README.md"].toSorted();
  expect(linksOf(makeLlmsText()).toSorted()).toEqual(expected);
  expect(expected.filter((file) => !existsSync(file))).toEqual([]);
  const onSite = linksOf(makeLlmsText((file) => `/${file.replace(".md", "")}`));
  expect(onSite).toContain("/docs/budgets");
});

test("takes the first sentence of a document as plain text after its title, picture and code", () => {
  const document = `# Title

<picture>
  <img src="a.png">
</picture>

\`\`\`ts
const first = "Not this.";
\`\`\`

**Limits** bound a [tree](a.md) of 1.5
agents: depth. Not this.
`;
  expect(findFirstSentence(document)).toBe("Limits bound a tree of 1.5 agents: depth.");
  expect(findFirstSentence("# Title\n\nThe names:\n\n- one\n")).toBe("The names.");
});
