// Goal: no document is forgotten on the site.
// Method: ask for the groups of the sidebar with the files that there are, with one more, and with one less.

import { globSync } from "node:fs";

import { expect, test } from "vitest";

import { groupsOf } from "../../site/groups.ts";

const documents = globSync(["*.md", "docs/**/*.md", "examples/README.md"]);

test("every document is in one group of the sidebar", () => {
  const placed = groupsOf(documents).flatMap(({ files }) => files);
  expect(placed.toSorted()).toEqual(documents.toSorted());
});

test("a document that is in no group is named, and so is one that is gone", () => {
  expect(() => groupsOf([...documents, "docs/new.md"])).toThrow(/docs\/new\.md is in none/);
  const less = documents.filter((file) => file !== "docs/tools.md");
  expect(() => groupsOf(less)).toThrow(/no docs\/tools\.md/);
});

test("guides, references and decisions are placed by their folder", () => {
  const more = ["docs/guides/zzz.md", "docs/reference/zzz.md", "docs/decisions/zzz.md"];
  const groups = groupsOf([...documents, ...more]);
  expect(
    groups.flatMap(({ text, files }) =>
      files.some((file) => file.endsWith("zzz.md")) ? text : [],
    ),
  ).toEqual(["Guides", "Reference", "Project"]);
});
