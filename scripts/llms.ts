// Makes llms.txt (https://llmstxt.org), which lists the documents for users with their first sentences, for coding agents. The package and the
// site contain the file in their root folder. Both generate it, so no copy can be outdated.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { groupDocuments } from "../site/groups.ts";

export const LLMS_FILE = "llms.txt";

const ROOT = join(import.meta.dirname, "..");

/** The group of the sidebar that becomes the section `Optional`. By the format, readers with a small context may skip it. */
const OPTIONAL_GROUP = "Project";

/** Returns llms.txt. `linkTo` makes the address of a document; by default it is the path in the package. */
export function makeLlmsText(linkTo: (file: string) => string = (file) => file): string {
  const { name, description } = z
    .object({ name: z.string(), description: z.string() })
    .parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));
  const files = globSync(["*.md", "docs/**/*.md", "examples/README.md"], { cwd: ROOT }).toSorted();
  const sections = groupDocuments(files).map(({ text, files: members }) => {
    const lines = members.filter(isForUsers).map((file) => describeDocument(file, linkTo(file)));
    return `## ${text === OPTIONAL_GROUP ? "Optional" : text}\n\n${lines.join("\n")}\n`;
  });
  const start = `To write code with ${name}, read [For coding agents](${linkTo("docs/coding-agents.md")}) first.`;
  return [`# ${name}\n`, `> ${description}\n`, `${start}\n`, ...sections].join("\n");
}

/** True for the documents that the package contains, without the records of decisions. */
function isForUsers(file: string): boolean {
  if (file.startsWith("docs/")) return !file.startsWith("docs/decisions/");
  return ["README.md", "examples/README.md", "CHANGELOG.md"].includes(file);
}

function describeDocument(file: string, link: string): string {
  const text = readFileSync(join(ROOT, file), "utf8");
  const [, title = file] = /^# (.+)$/m.exec(text) ?? [];
  return `- [${title.replaceAll("`", "")}](${link}): ${findFirstSentence(text)}`;
}

/** Returns the first sentence of the first paragraph below the title, without links. */
export function findFirstSentence(document: string): string {
  const blocks = document
    .replaceAll(/^```[\s\S]*?^```$/gm, "")
    .split(/\n{2,}/)
    .map((block) => block.trim());
  const paragraph = blocks.find((block) => /^[^#<|\-!>\s]/.test(block)) ?? "";
  const words = paragraph.replaceAll("\n", " ").replaceAll(/\[([^\]]*)\]\([^)]*\)|\*\*/g, "$1");
  const [sentence = words] = /^.+?[.!?](?=\s|$)/.exec(words) ?? [];
  return sentence.replace(/:$/, ".");
}
