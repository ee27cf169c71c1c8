// Goal: a bundler omits what a program does not import.
// Method: bundle and minify programs with one import each from the files that `npm run build`
// creates; packages stay external. Sizes have limits.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { build } from "esbuild";
import { afterAll, beforeAll, expect } from "vitest";
import { z } from "zod";

import { bundle } from "../../scripts/bundle.ts";
import { proves } from "../harness/proves.ts";

const KIB = 1024;

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tree-shaking-"));
  // Bundles are built from paths in this project, whose `package.json` declares that modules have
  // no side effects.
  await bundle(folder);
  const { type, sideEffects } = z
    .record(z.string(), z.unknown())
    .parse(JSON.parse(await readFile("package.json", "utf8")));
  await writeFile(join(folder, "package.json"), JSON.stringify({ type, sideEffects }));
});
afterAll(() => rm(folder, { recursive: true }));

async function bundled(name: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: `import { ${name} } from "./index.js";\nconsole.log(${name});`,
      resolveDir: resolve(folder),
    },
    bundle: true,
    minifySyntax: true,
    minifyWhitespace: true,
    format: "esm",
    platform: "node",
    packages: "external",
    write: false,
    logLevel: "silent",
  });
  return outputFiles.map(({ text }) => text).join("\n");
}

/** Returns whether a bundle contains a function, a class or a constant of this name. */
const has = (text: string, part: string): boolean =>
  new RegExp(`(?:function|class) ${part}\\b|\\b${part} ?=[^=]`).test(text);

for (const [name, most] of [
  ["defineTool", 150],
  ["defineAgent", 190],
  ["memoryStore", 130],
] as const)
  proves(["D205"], `bundles ${name} alone in at most ${most} KiB, without the loop`, async () => {
    const text = await bundled(name);
    expect(text.length).toBeLessThan(most * KIB);
    const parts = ["runAgent", "Supervisor", "EventSchema"];
    expect(parts.filter((part) => has(text, part))).toEqual([]);
  });

proves(["D205"], "bundles the loop with an orchestrator", async () => {
  const text = await bundled("Orchestrator");
  expect([has(text, "runAgent"), has(text, "Supervisor")]).toEqual([true, true]);
});
