// `npm run docs:reference` writes docs/reference/ out of the source; `npm run check:reference` fails if a page is not what the source says.
// What a page says of a name is its docstring: correct it there. environment.md alone is written by hand, since no declaration has
// variables; test/docs/reference.test.ts holds it against the source.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { z } from "zod";

import { Source } from "./reference/declarations.ts";
import { listExamples } from "./reference/examples.ts";
import { pagesOf } from "./reference/pages.ts";

const FOLDER = "docs/reference/";
const BY_HAND = new Set(["environment.md"]);

const ManifestSchema = z.object({
  name: z.string(),
  exports: z.record(
    z.string(),
    z.union([z.string(), z.object({ "@espalier/source": z.string() })]),
  ),
});
const { name, exports } = ManifestSchema.parse(JSON.parse(readFileSync("package.json", "utf8")));
const entries = Object.entries(exports).flatMap(([entry, target]) =>
  typeof target === "string"
    ? []
    : [{ specifier: name + entry.slice(1), file: target["@espalier/source"] }],
);

const NAMES = "scripts/reference/example-names.ts";
const files = [...entries.map(({ file }) => file), "src/telemetry/metric-names.ts", NAMES];
const source = new Source(files);
const pages = pagesOf(source, entries);
const present = existsSync(FOLDER)
  ? readdirSync(FOLDER, { recursive: true, encoding: "utf8" }).filter((file) =>
      file.endsWith(".md"),
    )
  : [];
const superfluous = present.filter((file) => !pages.has(file) && !BY_HAND.has(file));

const examples = listExamples(
  entries.flatMap(({ specifier, file }) => source.exportsOf(specifier, file)),
  source.exportsOf(NAMES, NAMES).map((declaration) => declaration.name),
);
const problems = source.compileExamples(examples);
for (const problem of problems) console.error(problem);
console.log(`${examples.length} examples in docstrings, ${problems.length} errors`);
if (problems.length > 0) process.exitCode = 1;

if (process.argv.includes("--write")) {
  for (const file of superfluous) rmSync(FOLDER + file);
  for (const [file, text] of pages) {
    mkdirSync(dirname(FOLDER + file), { recursive: true });
    writeFileSync(FOLDER + file, text);
  }
} else {
  const changed = [...pages].filter(
    ([file, text]) => !existsSync(FOLDER + file) || readFileSync(FOLDER + file, "utf8") !== text,
  );
  for (const file of [...changed.map(([page]) => page), ...superfluous])
    console.error(`${FOLDER}${file} is not what the source says. Run: npm run docs:reference`);
  if (changed.length + superfluous.length > 0) process.exitCode = 1;
}
