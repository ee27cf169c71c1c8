// What must hold for the site as it was built: nothing is loaded from elsewhere, and every link leads to a page, and to a heading where it names one.

import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

const DIST = join(import.meta.dirname, "dist");
const read = (file: string): string => readFileSync(join(DIST, file), "utf8");

/** Places where a browser would load something from elsewhere. Links that are followed by hand are none. */
const LOADS = [
  /<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?\/\//gi,
  /<link\b[^>]*\bhref=["']?(?:https?:)?\/\//gi,
  /@import\s*(?:url\()?["']?(?:https?:)?\/\//gi,
  /url\(\s*["']?(?:https?:)?\/\//gi,
  /\b(?:fetch|import|importScripts|sendBeacon|EventSource|WebSocket)\(\s*["'`](?:(?:https?|wss?):)?\/\//gi,
];

const problems: string[] = [];
for (const file of globSync("**/*.{html,css,js}", { cwd: DIST })) {
  const text = read(file);
  // What pages show as code is no code of theirs.
  const own = file.endsWith(".html")
    ? text.replaceAll(/<pre\b[\s\S]*?<\/pre>|<code\b[\s\S]*?<\/code>/g, "")
    : text;
  for (const pattern of LOADS)
    for (const [load] of own.matchAll(pattern))
      problems.push(`${file} loads from elsewhere: ${load}`);
}

const pages = new Map<string, ReadonlySet<string>>();
for (const file of globSync("**/*.html", { cwd: DIST }))
  pages.set(
    `/${file}`,
    new Set([...read(file).matchAll(/\bid="([^"]+)"/g)].map(([, id = ""]) => id)),
  );
for (const page of pages.keys()) {
  for (const [, href = ""] of read(page).matchAll(/<a\b[^>]*\bhref="([^"]+)"/g)) {
    if (/^\w+:/.test(href)) continue;
    const [path = "", anchor = ""] = decodeURI(href).replaceAll("&amp;", "&").split("#");
    const aim =
      path === ""
        ? page
        : posix.join(
            posix.dirname(page),
            path.startsWith("/") ? posix.relative(posix.dirname(page), path) : path,
          );
    const ids = pages.get(
      aim.endsWith("/") || path.endsWith("/") ? posix.join(aim, "index.html") : aim,
    );
    if (ids === undefined) problems.push(`${page} links to ${href}, which is not there`);
    else if (anchor !== "" && !ids.has(anchor))
      problems.push(`${page} links to ${href}, which has no such heading`);
  }
}

const bytes = globSync("**/*.*", { cwd: DIST }).reduce((sum, file) => sum + read(file).length, 0);
for (const problem of new Set(problems)) console.error(problem);
console.log(
  `${pages.size} pages, ${(bytes / 1_000_000).toFixed(1)} MB, ${new Set(problems).size} problems.`,
);
if (problems.length > 0) process.exitCode = 1;
