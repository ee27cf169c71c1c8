// Goal: the first pictures and commands that a newcomer sees exist and are safe to type (V130,
// V131).
// Method: read the documents and the files that they name.

import { globSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";

const MAX_BYTES = 150_000;
const documents = ["README.md", ...globSync("docs/{,decisions/,guides/}*.md")].map((file) => ({
  file,
  text: readFileSync(file, "utf8"),
}));
const manifest = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync("package.json", "utf8")));

proves(
  ["V130"],
  "has each picture in a light and a dark version, small, and shown by a document",
  () => {
    const shown = documents.flatMap(({ file, text }) =>
      [...text.matchAll(/<picture>([\s\S]*?)<\/picture>/g)].map(([, inner = ""]) => {
        const [, dark = ""] =
          /media="\(prefers-color-scheme: dark\)" srcset="([^"]+)"/.exec(inner) ?? [];
        const [, words = "", light = ""] = /<img alt="([^"]+)" src="([^"]+)"/.exec(inner) ?? [];
        expect([file, light], words).toEqual([file, dark.replace("-dark.", "-light.")]);
        return [light, dark].map((path) => join(dirname(file), path));
      }),
    );
    const there = globSync("docs/pictures/*");
    expect(new Set(shown.flat())).toEqual(new Set(there));
    expect(there.filter((file) => statSync(file).size > MAX_BYTES)).toEqual([]);
  },
);

proves(
  ["V131"],
  "shows the browser demo as the first command, whose script builds the page",
  () => {
    const readme = documents[0]?.text ?? "";
    expect(/```sh\n(.*?) {2,}#/.exec(readme)?.[1]).toBe("npm ci && npm run demo -- --view");
    expect(manifest.scripts["demo"]).toMatch(/^vite build viewer-page .*&& node /);
  },
);

proves(["V131"], "never runs a package with npx before it is installed", () => {
  for (const { file, text } of documents) {
    const first = text.indexOf("npx espalier");
    const installed = text.search(/npm install espalier\b/);
    expect([file, first === -1 || (installed !== -1 && installed < first)]).toEqual([file, true]);
  }
});
