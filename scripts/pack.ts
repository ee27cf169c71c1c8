// `npm run pack [-- <folder>]`: makes the tarball for users from the output of `npm run build`. The files are staged in a temporary folder, with a
// manifest without the fields for development. The working tree is not changed.
// `npm run check:package` makes a tarball and checks it. `npm pack` in the root folder is refused, because it would pack the whole manifest.

import { execFileSync } from "node:child_process";
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { z } from "zod";

import { LLMS_FILE, makeLlmsText } from "./llms.ts";

const SOURCE = "@espalier/source";
/** Files that are packed in addition to `files` of the manifest. */
const ALWAYS = ["README.md", "LICENSE"];
/** Fields of the manifest that only development needs. */
const FOR_DEVELOPMENT = ["private", "scripts", "devDependencies", "allowScripts"];
const EntrySchema = z.record(z.string(), z.string());
/** The fields of the manifest that packing needs. */
export const ManifestSchema = z.looseObject({
  version: z.string(),
  files: z.array(z.string()),
  bin: EntrySchema,
  exports: z.record(z.string(), z.union([z.string(), EntrySchema])),
});
type Manifest = z.infer<typeof ManifestSchema>;

/** One file of a tarball, as npm lists it. */
export interface PackedFile {
  readonly path: string;
  readonly size: number;
}

const PackedSchema = z.object({
  filename: z.string(),
  size: z.number(),
  unpackedSize: z.number(),
  files: z.array(z.object({ path: z.string(), size: z.number() })),
});
export type Packed = z.infer<typeof PackedSchema>;

/** Returns the manifest of the package: that of the repository, without the fields and conditions for development. */
export function createPackageManifest(text: string): Manifest {
  const manifest = ManifestSchema.parse(JSON.parse(text));
  const fields = Object.entries(manifest).filter(([field]) => !FOR_DEVELOPMENT.includes(field));
  const exports = Object.entries(manifest.exports).map(
    ([name, entry]): readonly [string, unknown] => {
      if (typeof entry === "string") return [name, entry];
      return [name, Object.fromEntries(Object.entries(entry).filter(([key]) => key !== SOURCE))];
    },
  );
  return ManifestSchema.parse({
    ...Object.fromEntries(fields),
    exports: Object.fromEntries(exports),
  });
}

/** Removes the line that names a source map, because the package contains neither maps nor sources. */
export function removeSourceMap(text: string): string {
  return text.replace(/\n\/\/# sourceMappingURL=\S+\s*$/, "\n");
}

/** Writes the files of the package to a folder. */
export function stagePackage(folder: string): void {
  const manifest = createPackageManifest(readFileSync("package.json", "utf8"));
  for (const path of [...manifest.files, ...ALWAYS].filter((file) => file !== LLMS_FILE))
    cpSync(path, join(folder, path), { recursive: true, filter: (file) => !file.endsWith(".map") });
  for (const name of globSync("dist/**/*.{js,d.ts}", { cwd: folder })) {
    const file = join(folder, name);
    writeFileSync(file, removeSourceMap(readFileSync(file, "utf8")));
  }
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  writeFileSync(join(folder, LLMS_FILE), makeLlmsText());
}

/** Lists the faults of a package: unneeded files, files that the manifest names but the package lacks, and fields for development. */
export function findPackageProblems(
  manifest: Manifest,
  files: readonly string[],
): readonly string[] {
  const listed = new Set(files);
  const expected = new RegExp(`^(package\\.json|${[...ALWAYS, ...manifest.files].join("|")})(/|$)`);
  const strange = files.filter(
    (file) =>
      !expected.test(file) ||
      /\.(map|log|tgz|db|tsbuildinfo)$|(^|\/)(src|test|node_modules)\//.test(file),
  );
  const entries = Object.values(manifest.exports).flatMap((entry) =>
    typeof entry === "string" ? [entry] : Object.values(entry),
  );
  const named = [...entries, ...Object.values(manifest.bin)].map((path) =>
    path.replace(/^\.\//, ""),
  );
  const fields = [...FOR_DEVELOPMENT, "repository", "homepage", "bugs", "funding"];
  return [
    ...strange.map((file) => `${file} is packed, and nobody needs it.`),
    ...named.filter((file) => !listed.has(file)).map((file) => `${file} is named and not packed.`),
    ...fields.filter((field) => field in manifest).map((field) => `The manifest has ${field}.`),
    ...(JSON.stringify(manifest).includes(SOURCE) ? [`The manifest has ${SOURCE}.`] : []),
  ];
}

/** Lists the relative links and pictures of a document, without anchors. */
function listLinks(text: string): readonly string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)/g), ...text.matchAll(/\b(?:src|href)="([^"]+)"/g)];
  const sets = [...text.matchAll(/\bsrcset="([^"]+)"/g)].flatMap(([, set = ""]) =>
    set.split(",").map((candidate) => candidate.trim().split(/\s/)[0] ?? ""),
  );
  return [...links.map(([, link = ""]) => link), ...sets]
    .filter((link) => !/^(\w+:|#)/.test(link))
    .map((link) => link.split("#")[0] ?? "");
}

/** Lists the links of packed documents to files that are not packed. */
export function findBrokenLinks(
  documents: ReadonlyMap<string, string>,
  files: readonly string[],
): readonly string[] {
  const there = new Set(
    files.flatMap((file) =>
      file.split("/").map((_name, at, all) => all.slice(0, at + 1).join("/")),
    ),
  );
  return [...documents].flatMap(([document, text]) =>
    listLinks(text)
      .map((link) => join(document, "..", link).replace(/\/$/, ""))
      .filter((path) => path !== "." && !there.has(path))
      .map((path) => `${document} leads to ${path}, which is not packed.`),
  );
}

/** Packs a folder or a tarball into the folder `into`. With `isDry` it lists the files only. */
export function packFolder(folder: string, into: string, isDry = false): Packed {
  const args = [
    "pack",
    resolve(folder),
    "--json",
    "--pack-destination",
    into,
    ...(isDry ? ["--dry-run"] : []),
  ];
  const text = execFileSync("npm", args, { encoding: "utf8", maxBuffer: 2 ** 27 });
  const output: unknown = JSON.parse(text);
  const [packed] = z
    .array(PackedSchema)
    .parse(Object.values(z.record(z.string(), z.unknown()).or(z.array(z.unknown())).parse(output)));
  if (packed === undefined)
    throw new Error(
      "Expected npm to report the packed files, got nothing. Run `npm pack --json` to see its output.",
    );
  return packed;
}

/** Matches the id of a promise or an invariant, such as `(R125)`, which only maintainers know. */
const PRIVATE_MARK = /\([A-Z]{1,2}\d+(?:\.\d+)?(?:,[^()]*)?\)/;

/** Throws an error with all faults of a package. */
function checkPackage(folder: string, packed: Packed): void {
  const files = packed.files.map(({ path }) => path);
  const manifest = ManifestSchema.parse(
    JSON.parse(readFileSync(join(folder, "package.json"), "utf8")),
  );
  const documents = files.filter((file) => file.endsWith(".md") || file === LLMS_FILE);
  const texts = new Map(documents.map((file) => [file, readFileSync(join(folder, file), "utf8")]));
  const marked = files.filter(
    (file) => file.endsWith(".d.ts") && PRIVATE_MARK.test(readFileSync(join(folder, file), "utf8")),
  );
  const problems = [
    ...findPackageProblems(manifest, files),
    ...findBrokenLinks(texts, files),
    ...marked.map((file) => `${file} cites a promise or an invariant by its number.`),
  ];
  if (problems.length > 0)
    throw new Error(
      `Expected a valid package, got these faults; fix them and pack again:\n${problems.join("\n")}`,
    );
}

/** Imports the package by its name from an ES module and from a CommonJS module. */
function checkImports(folder: string): void {
  for (const [type, program] of [
    ["module", 'import { Orchestrator } from "espalier"; new Orchestrator();'],
    ["commonjs", 'const { Orchestrator } = require("espalier"); new Orchestrator();'],
  ] as const)
    execFileSync(process.execPath, [`--input-type=${type}`, "--eval", program], {
      cwd: folder,
      stdio: "inherit",
    });
}

/** Returns why npm must not pack the root folder, or `undefined` for `npm run`. The hook `prepack` also precedes `npm run pack`. */
export function findBarePackProblem(command: string | undefined): string | undefined {
  return command === "run" || command === "run-script"
    ? undefined
    : "Expected `npm run pack [-- <folder>]`, which leaves out the fields for development, got a command that packs the root folder. Use `npm run pack`.";
}

function pack(): void {
  const isCheck = process.argv.includes("--check");
  const into = isCheck ? "temp" : (process.argv[2] ?? ".");
  mkdirSync(into, { recursive: true });
  // A check stages inside the project, so that node_modules is found.
  const folder = mkdtempSync(
    isCheck ? join("temp", "package-") : join(tmpdir(), "espalier-package-"),
  );
  try {
    stagePackage(folder);
    const packed = packFolder(folder, into);
    checkPackage(folder, packed);
    const tarball = join(into, packed.filename);
    console.log(
      `${tarball}: ${packed.files.length} files, ${Math.ceil(packed.size / 1024)} KiB packed.`,
    );
    if (isCheck) {
      checkImports(folder);
      const options = { stdio: "inherit" } as const;
      execFileSync("publint", ["--strict", tarball], options);
      execFileSync("attw", ["--profile", "esm-only", tarball], options);
      rmSync(tarball);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (import.meta.main) {
  const isAsked = process.argv.includes("--refuse-root");
  const problem = isAsked ? findBarePackProblem(process.env["npm_command"]) : undefined;
  if (problem !== undefined) {
    console.error(problem);
    process.exitCode = 1;
  } else if (!isAsked) pack();
}
