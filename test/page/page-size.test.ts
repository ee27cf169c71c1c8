// Goal: the page stays small and self-contained: three files that request nothing else.
// Method: build the page and inspect the files.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { expect } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { buildPage } from "./built-page.ts";

const KIB = 1_024;

proves(
  ["V90"],
  "consists of HTML, script and style sheet of at most 250 KiB, 80 compressed, without external addresses",
  async () => {
    const { folder, remove } = await buildPage();
    afterwards(remove);
    const names = readdirSync(folder).toSorted();
    expect(names).toEqual(["index.html", "viewer.css", "viewer.js"]);
    const files = names.map((name) => readFileSync(join(folder, name)));
    const sum = (sizes: readonly number[]): number => sizes.reduce((all, size) => all + size, 0);
    expect(sum(files.map(({ length }) => length))).toBeLessThan(250 * KIB);
    expect(sum(files.map((file) => gzipSync(file).length))).toBeLessThan(80 * KIB);
    const [html = "", css = "", script = ""] = files.map(String);
    expect([...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, address]) => address)).toEqual([
      "./viewer.js",
      "./viewer.css",
    ]);
    expect(html).not.toMatch(/<style|<script(?! type="module" crossorigin src)| style=| on\w+=/);
    expect(css).not.toMatch(/url\(|@import/);
    // Namespace names are not requested addresses.
    const addresses = [...script.matchAll(/https?:\/\/[^"'`\s)]+/g)].map(([address]) => address);
    expect(addresses.filter((address) => !address.startsWith("http://www.w3.org/"))).toEqual([]);
    expect(script).not.toMatch(/\beval\(|new Function\(/);
  },
);
