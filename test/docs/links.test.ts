// Goal: every link in a document leads to a file, and to the heading that it names.
// Method: read every document as the pages of a repository do, and follow each link outside of
// code.

import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { posix } from "node:path";

import { expect, test } from "vitest";

import { slugOf } from "../../site/slug.ts";

const documents = globSync(["*.md", "docs/**/*.md", "examples/**/README.md"]).toSorted();

/** Returns the document without code, which may contain brackets of its own. */
function prose(file: string): string {
  return readFileSync(file, "utf8")
    .replaceAll(/^ *```[\s\S]*?^ *```$/gm, "")
    .replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll(/[[\]()]/g, ""));
}

/** An inline link, a reference link, and an HTML link or picture. */
const LINKS = [
  /\]\((?!\w+:)([^)\s]+)\)/g,
  /^ {0,3}\[[^\]\n]+\]: *<?(?!\w+:)([^\s>]+)/gm,
  /\b(?:src|href)="(?!\w+:)([^"]+)"/g,
  /\bsrcset="(?!\w+:)([^"\s]+)"/g,
];

/** Returns the targets of the links of a text, without external ones. */
function linksOf(text: string): readonly string[] {
  return LINKS.flatMap((form) => [...text.matchAll(form)].map(([, link = ""]) => link));
}

/** Returns the names of reference links without a definition. */
function unnamedIn(text: string): readonly string[] {
  const names = new Set(
    [...text.matchAll(/^ {0,3}\[([^\]\n]+)\]:/gm)].map(([, name = ""]) => name.toLowerCase()),
  );
  return [...text.matchAll(/\[([^\]\n]+)\]\[([^\]\n]*)\]/g)]
    .map(([, shown = "", name = ""]) => (name === "" ? shown : name))
    .filter((name) => !names.has(name.toLowerCase()));
}

/** Returns the anchors of a document; repeated ones are numbered. */
function anchorsOf(file: string): ReadonlySet<string> {
  const counts = new Map<string, number>();
  const text = readFileSync(file, "utf8").replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");
  const anchors = [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) => {
    const slug = slugOf(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)|[`*]/g, "$1"));
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
  return new Set(anchors);
}

/** Returns the problem of a link, or undefined. */
function problemOf(file: string, link: string): string | undefined {
  const [path = "", anchor] = link.split("#");
  const aim = path === "" ? file : posix.join(posix.dirname(file), path);
  if (!existsSync(aim)) return "no such file";
  if (anchor === undefined) return undefined;
  if (statSync(aim).isDirectory() || !aim.endsWith(".md")) return "an anchor in what has none";
  return anchorsOf(aim).has(anchor) ? undefined : "no such heading";
}

test("links every document only to existing files and headings", () => {
  const problems: string[] = [];
  let count = 0;
  for (const file of documents) {
    const text = prose(file);
    problems.push(...unnamedIn(text).map((name) => `${file}: [${name}]: no such address`));
    for (const link of linksOf(text)) {
      count += 1;
      const problem = problemOf(file, link);
      if (problem !== undefined) problems.push(`${file}: ${link}: ${problem}`);
    }
  }
  expect(problems).toEqual([]);
  expect(count).toBeGreaterThan(300);
});

test("finds a link in each form that documents use", () => {
  const text = `[a](a.md#b) [b](https://example.org) [c][] [d][E]
<a href="f.md">f</a> <picture><source srcset="g.png"><img src="h.png"></picture> <img src="https://example.org/i.png">

[c]: c.md
[j]: https://example.org`;
  expect(linksOf(text)).toEqual(["a.md#b", "c.md", "f.md", "h.png", "g.png"]);
  expect(unnamedIn(text)).toEqual(["E"]);
});
