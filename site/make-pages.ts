// Makes the pages of the site out of the documents of the project, and one out of every example and file that they link to. Links between files of the
// repository become links between pages; one that leads nowhere is an error.

import {
  cpSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, posix } from "node:path";

import { LLMS_FILE, makeLlmsText } from "../scripts/llms.ts";
import { groupDocuments } from "./groups.ts";
import { parseHome } from "./home.ts";

const ROOT = join(import.meta.dirname, "..");
const PAGES = join(import.meta.dirname, "pages");

const documents = globSync(["*.md", "docs/**/*.md", "examples/README.md"], {
  cwd: ROOT,
}).toSorted();
const examples = globSync(["examples/**/*.{ts,md,json,yaml}"], {
  cwd: ROOT,
  exclude: ["examples/README.md"],
}).toSorted();
/** What is shown as it is: examples, and whatever else a document links to. */
const listings = new Set(examples);

/** Returns the path of the page of a file, without an ending. */
function getPagePath(file: string): string {
  if (file === "README.md") return "/index";
  if (file === "examples/README.md") return "/examples/index";
  if (file.startsWith("docs/")) return `/${file.slice("docs/".length).replace(/\.md$/, "")}`;
  return `/${file.replace(/\.(?:md|ts)$/, "").replaceAll(/\.(?=\w+$)/g, "-")}`; // no ending that a browser would take for another kind of file
}

const FOLDERS = new Map([
  ["docs/decisions", "/decisions/"],
  ["examples", "/examples/"],
]);

function resolveLink(file: string, target: string): string {
  const [path = "", anchor] = target.split("#");
  const aim = path === "" ? file : posix.normalize(posix.join(posix.dirname(file), path));
  const folder = FOLDERS.get(aim.replace(/\/$/, ""));
  if (folder === undefined && !documents.includes(aim)) {
    if (statSync(join(ROOT, aim), { throwIfNoEntry: false })?.isFile() !== true)
      throw new Error(`Expected links to files of the project, got ${target} in ${file}.`);
    listings.add(aim);
  }
  const page = folder ?? getPagePath(aim).replace(/\/index$/, "/");
  return anchor === undefined ? page : `${page}#${anchor}`;
}

/** Copies a picture to the site, and returns its path there. */
function copyPicture(file: string, target: string): string {
  const aim = posix.normalize(posix.join(posix.dirname(file), target));
  cpSync(join(ROOT, aim), join(PAGES, "public", aim), { recursive: true });
  return `/${aim}`;
}

/** Replaces links to files, outside of code, by links to pages. */
function rewriteLinks(file: string, text: string): string {
  const parts = text.split(/(^```[\s\S]*?^```$)/m);
  const written = parts.map((part, index) =>
    index % 2 === 1
      ? part
      : part.replaceAll(
          /\]\((?!\w+:)([^)\s]+)\)/g,
          (_link, target: string) =>
            `](${target.endsWith(".png") ? copyPicture(file, target) : resolveLink(file, target)})`,
        ),
  );
  return showPicturesByTheme(written.join("")).replaceAll(/(?<=\bsrc=")[^":]+(?=")/g, (aim) =>
    copyPicture(file, aim),
  );
}

/** Two pictures for one in two colour schemes: the reader can choose the scheme on the site, which `<picture>` does not follow. */
function showPicturesByTheme(text: string): string {
  return text.replaceAll(
    /<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*<\/picture>/g,
    (_picture, dark: string, alt: string, light: string) =>
      `<img class="light-only" loading="lazy" alt="${alt}" src="${light}">\n<img class="dark-only" loading="lazy" alt="${alt}" src="${dark}">`,
  );
}

/** The longest line of code for which a page has its outline beside the text. */
const MAX_COLUMNS = 80;

/** Writes a page. One with long lines of code gives the place of its outline to them. */
function write(page: string, text: string, options: Readonly<Record<string, unknown>> = {}): void {
  const file = join(PAGES, `${page}.md`);
  const blocks = text.match(/^ *```[\s\S]*?^ *```/gm) ?? [];
  const columns = Math.max(
    0,
    ...blocks.flatMap((block) => block.split("\n")).map((line) => line.length),
  );
  const frontmatter = JSON.stringify({
    ...options,
    ...(columns > MAX_COLUMNS && { aside: false }),
  });
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `---\n${frontmatter}\n---\n\n${text}`);
}

function formatListing(file: string): string {
  const language = /\.(\w+)$/.exec(file)?.[1] ?? "text";
  const text = readFileSync(join(ROOT, file), "utf8").trimEnd();
  return `# ${file}\n\n\`\`\`\`${language}\n${text}\n\`\`\`\`\n`;
}

function readTitle(file: string): string {
  const [, title = file] = /^# (.+)$/m.exec(readFileSync(join(ROOT, file), "utf8")) ?? [];
  return title.replaceAll("`", "");
}

rmSync(PAGES, { recursive: true, force: true });
cpSync(join(import.meta.dirname, "public"), join(PAGES, "public"), { recursive: true });
for (const file of documents) {
  const text = rewriteLinks(file, readFileSync(join(ROOT, file), "utf8"));
  if (file === "README.md") {
    const { hero, commands, body } = parseHome(text);
    write("/index", body, { layout: "home", hero, commands });
  } else write(getPagePath(file), text);
}
for (const file of listings)
  write(getPagePath(file), formatListing(file), examples.includes(file) ? {} : { search: false });
const formatList = (files: readonly string[]): string =>
  files.map((file) => `- [${readTitle(file)}](${getPagePath(file)})`).join("\n");
write(
  "/decisions/index",
  `# Decisions\n\n${formatList(documents.filter((file) => file.startsWith("docs/decisions/")))}\n`,
);

/** Folders whose pages are in a list of their own, which the reader opens. */
const NESTED = [
  ["docs/reference/api/", "API by entry point"],
  ["docs/decisions/", "Decisions"],
] as const;

const createSidebarItem = (file: string) => ({
  text: file === "README.md" ? "What it is" : readTitle(file),
  link: getPagePath(file).replace(/\/index$/, "/"),
});
const sidebar = groupDocuments(documents).map(({ text, files }) => ({
  text,
  collapsed: false,
  items: [
    ...files
      .filter((file) => NESTED.every(([folder]) => !file.startsWith(folder)))
      .map(createSidebarItem),
    ...NESTED.flatMap(([folder, name]) => {
      const items = files.filter((file) => file.startsWith(folder)).map(createSidebarItem);
      return items.length === 0 ? [] : [{ text: name, collapsed: true, items }];
    }),
  ],
}));
writeFileSync(join(PAGES, "sidebar.json"), JSON.stringify(sidebar));

mkdirSync(join(PAGES, "public"), { recursive: true });
writeFileSync(
  join(PAGES, "public", LLMS_FILE),
  makeLlmsText((file) => `${getPagePath(file)}.html`),
);
