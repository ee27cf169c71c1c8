// Goal: the package contains exactly what a user needs, and an invalid package is not built.
// Method: the packed manifest of the repository, and made-up packages with one fault each.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

import {
  findBarePackProblem,
  findBrokenLinks,
  ManifestSchema,
  findPackageProblems,
  createPackageManifest,
  removeSourceMap,
} from "../../scripts/pack.ts";
import { proves } from "../harness/proves.ts";

const text = readFileSync("package.json", "utf8");
const manifest = createPackageManifest(text);
const named = Object.values(manifest.exports).flatMap((entry) =>
  typeof entry === "string" ? [entry] : Object.values(entry),
);
const FILES = [
  ...new Set([...named, ...Object.values(manifest.bin), "./README.md", "./LICENSE"]),
].map((path) => path.replace("./", ""));

proves(
  ["D203"],
  "packs a manifest with everything a user needs and nothing for development",
  () => {
    const fields =
      "name version description keywords license bin files type sideEffects exports dependencies peerDependencies peerDependenciesMeta engines";
    expect(new Set(Object.keys(manifest))).toEqual(new Set(fields.split(" ")));
    const pages = ["CHANGELOG.md", "CONTRIBUTING.md", "REVIEW.md", "SECURITY.md", "VERSIONING.md"];
    expect(manifest.files).toEqual(["dist", "docs", "examples", ...pages, "llms.txt"]);
    expect(JSON.stringify(manifest)).not.toContain("@espalier/source");
    expect(manifest.exports["."]).toEqual({
      types: "./dist/index.d.ts",
      default: "./dist/index.js",
    });
    expect(findPackageProblems(manifest, FILES)).toEqual([]);
  },
);

for (const [what, files] of [
  ["src/index.ts", ["src/index.ts"]],
  ["test/a.test.ts", ["test/a.test.ts"]],
  ["dist/index.js.map", ["dist/index.js.map"]],
  ["examples/apps/chat/chat.db", ["examples/apps/chat/chat.db"]],
  ["knip.json", ["knip.json"]],
] as const)
  proves(["D203"], `refuses a package with ${what}`, () => {
    expect(findPackageProblems(manifest, [...FILES, ...files])).toEqual([
      `${what} is packed, and nobody needs it.`,
    ]);
  });

proves(
  ["D203"],
  "refuses a package without an entry file, or with the manifest of the repository",
  () => {
    expect(
      findPackageProblems(
        manifest,
        FILES.filter((file) => file !== "dist/index.d.ts"),
      ),
    ).toEqual(["dist/index.d.ts is named and not packed."]);
    const raw = z.record(z.string(), z.unknown()).parse(JSON.parse(text));
    const whole = ManifestSchema.parse({ ...raw, bugs: "none" });
    const sources = Object.values(whole.exports).flatMap((entry) =>
      typeof entry === "string" ? [] : [entry["@espalier/source"] ?? ""],
    );
    expect(findPackageProblems(whole, FILES)).toEqual([
      ...sources.map((file) => `${file.replace("./", "")} is named and not packed.`),
      "The manifest has private.",
      "The manifest has scripts.",
      "The manifest has devDependencies.",
      "The manifest has bugs.",
      "The manifest has @espalier/source.",
    ]);
  },
);

proves(["D203"], "finds a document link that leads out of the package", () => {
  const documents = new Map([
    ["README.md", "[a](docs/a.md) [b](https://example.org) [c](#c) [d](CONTRIBUTING.md)"],
    ["docs/a.md", "[a](../examples/) [b](a.md#here) [c](../src/a.ts)"],
  ]);
  expect(findBrokenLinks(documents, ["README.md", "docs/a.md", "examples/a.ts"])).toEqual([
    "README.md leads to CONTRIBUTING.md, which is not packed.",
    "docs/a.md leads to src/a.ts, which is not packed.",
  ]);
});

proves(["D203"], "finds pictures that are not packed, and HTML links", () => {
  const documents = new Map([
    [
      "docs/a.md",
      `<source srcset="b-dark.png, b-large.png 2x">
<img src="b-light.png"> <img src="https://example.org/c.png"> <a href="#d">d</a> <a href="../src/a.ts#e">e</a>`,
    ],
  ]);
  expect(findBrokenLinks(documents, ["docs/a.md", "docs/b-dark.png"])).toEqual([
    "docs/a.md leads to docs/b-light.png, which is not packed.",
    "docs/a.md leads to src/a.ts, which is not packed.",
    "docs/a.md leads to docs/b-large.png, which is not packed.",
  ]);
});

test("removes only the line that names a source map", () => {
  const code = 'const a = "//# sourceMappingURL=b";\n';
  expect(removeSourceMap(`${code}//# sourceMappingURL=a.js.map\n`)).toBe(code);
  expect(removeSourceMap(code)).toBe(code);
});

proves(["D207"], "refuses `npm pack` at the root and names the command to run", () => {
  const { status, stdout, stderr } = spawnSync("npm", ["pack", "--dry-run", "--silent"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  expect([status, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("Expected `npm run pack [-- <folder>]`");
});

proves(["D207"], "lets only `npm run` commands pack the root", () => {
  const may = ["run", "run-script", "pack", "publish", "install", undefined].filter(
    (command) => findBarePackProblem(command) === undefined,
  );
  expect(may).toEqual(["run", "run-script"]);
});
