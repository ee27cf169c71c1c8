// Goal: only the README states which Node is needed, in agreement with the manifests.
// Method: compare each version of Node that a document names with `engines` and the pinned Node.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

/** Dated documents may name the versions of their time. */
const documents = globSync([
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "docs/*.md",
  "docs/guides/*.md",
  "examples/apps/*/README.md",
])
  .filter((file) => file !== "docs/BENCHMARKS.md")
  .toSorted();

/** Versions that single features need; each names what happens before them. */
const FEATURES = ["docs/openai.md: 24.5", "docs/stores.md: 24"];

const read = (file: string): unknown => JSON.parse(readFileSync(file, "utf8"));
const { engines } = z
  .object({ engines: z.object({ node: z.string() }) })
  .parse(read("package.json"));
const development = z.object({ version: z.string() }).parse(read("scripts/node/package.json"));

test("states the required Node versions only in the README, as in the manifests", () => {
  const [needed = ""] = /\d+\.\d+/.exec(engines.node) ?? [];
  const [pinned = ""] = development.version.split(".");
  const named = documents.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/\bnode(?:\.js)? (?:v|≥ |>= )?(\d+(?:\.\d+)*)/gi)].map(
      ([, version = ""]) => `${file}: ${version}`,
    ),
  );
  const required = [needed, "20", pinned].map((version) => `README.md: ${version}`);
  expect(named).toEqual([...required, ...FEATURES]);
  expect(readFileSync("README.md", "utf8")).toContain(
    `Needs Node ${needed} or newer. In a clone, Node 20 is enough, since \`npm ci\` adds Node ${pinned} (not on macOS).`,
  );
});

test("never names the required version without the word Node", () => {
  const [needed = ""] = /\d+\.\d+/.exec(engines.node) ?? [];
  const naming = documents.filter((file) => readFileSync(file, "utf8").includes(needed));
  expect(naming).toEqual(["README.md"]);
});
