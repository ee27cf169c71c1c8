// Goal: the site contains every document, and a newcomer finds the way (D685 to D688). `npm run
// docs` checks the pages in Chromium.
// Method: call the functions that build the pages with the documents and with changed ones, and
// read the animation.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { groupDocuments } from "../../site/groups.ts";
import { parseHome } from "../../site/home.ts";
import { boostPage, tokenizeQuery } from "../../site/search.ts";
import { proves } from "../harness/proves.ts";

const documents = globSync(["*.md", "docs/**/*.md", "examples/README.md"]);

test("places every document in one group of the sidebar", () => {
  const placed = groupDocuments(documents).flatMap(({ files }) => files);
  expect(placed.toSorted()).toEqual(documents.toSorted());
});

test("reports a document without a group, and a missing document", () => {
  expect(() => groupDocuments([...documents, "docs/new.md"])).toThrow(/docs\/new\.md is in none/);
  const less = documents.filter((file) => file !== "docs/tools.md");
  expect(() => groupDocuments(less)).toThrow(/no docs\/tools\.md/);
});

test("places guides, references and decisions by their folder", () => {
  const more = ["docs/guides/zzz.md", "docs/reference/zzz.md", "docs/decisions/zzz.md"];
  const groups = groupDocuments([...documents, ...more]);
  expect(
    groups.flatMap(({ text, files }) =>
      files.some((file) => file.endsWith("zzz.md")) ? text : [],
    ),
  ).toEqual(["Guides", "Reference", "Project"]);
});

proves(["D685"], "orders the groups of the sidebar for a newcomer", () => {
  expect(groupDocuments(documents).map(({ text }) => text)).toEqual([
    "Get started",
    "Core concepts",
    "Guides",
    "Reference",
    "Operations",
    "Project",
  ]);
});

proves(["D686"], "searches for the words of a query and their synonyms, without stop words", () => {
  expect(
    ["How to approve: human in the loop?", "Cost", "resume", "max turns", "humanity", "to be"].map(
      (query) => tokenizeQuery(query),
    ),
  ).toEqual([
    ["approve", "human", "loop", "approvals", "questions"],
    ["cost", "budgets", "costusd", "prices"],
    ["resume", "crash", "recovery"],
    ["max", "turns", "budgets", "limits", "steps"],
    ["humanity"],
    ["be"],
  ]);
});

proves(
  ["D686"],
  "ranks guides above concepts, concepts above the reference, and decisions last",
  () => {
    const pages = [
      "/decisions/2026-11-22-prices.html#cost",
      "/reference/start.html",
      "/budgets.html#cost",
      "/guides/approvals.html",
    ];
    expect(pages.toSorted((a, b) => boostPage(b) - boostPage(a))).toEqual(pages.toReversed());
  },
);

proves(["D687"], "divides README.md into a hero, commands and the rest for the home page", () => {
  const readme =
    "# name\n\nOne\nsentence.\n\nInstall:\n\n```sh\nnpm install espalier zod\n```\n\n## More\n";
  const { hero, commands, body } = parseHome(readme);
  expect(hero).toMatchObject({ name: "name", tagline: "One sentence." });
  expect({ commands, body }).toEqual({
    commands: "npm install espalier zod",
    body: "\n## More\n",
  });
  expect(parseHome(readFileSync("README.md", "utf8")).commands).toContain("npx espalier demo");
});

proves(["D687"], "refuses a README.md without commands or without a title", () => {
  expect(() => parseHome("# name\n\nOne sentence.\n")).toThrow(/npm install espalier/);
  expect(() => parseHome("name\n\n```sh\nnpm install espalier\n```\n")).toThrow(/a title/);
});

proves(
  ["D688"],
  "keeps the animation of the demo small and short, and its still image static",
  () => {
    const animation = readFileSync("site/public/demo.svg");
    expect(animation.length).toBeLessThanOrEqual(2_000_000);
    const [, seconds] =
      /animation:play ([\d.]+)s step-end infinite/.exec(animation.toString()) ?? [];
    expect(Number(seconds)).toBeGreaterThan(5);
    expect(Number(seconds)).toBeLessThanOrEqual(20);
    expect(readFileSync("site/public/demo-still.svg", "utf8")).not.toContain("animation");
  },
);
