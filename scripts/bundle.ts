// `npm run build`, the part that runs: one file for each entry of package.json, and chunks for what entries share or load when they need
// it. Declarations are `tsc`'s. Why bundles: docs/decisions/2026-11-25-bundles.md.

import { readFileSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, resolve } from "node:path";

import { build, transform, type Plugin } from "esbuild";
import { z } from "zod";

const SOURCE = "@espalier/source";
const ROOT = resolve("src/index.ts");
/** Loaded when they are needed: each is the beginning of a chunk of its own. */
const LOADED_LATE = [
  "src/agent/hooked-model-call.ts",
  "src/agent/phases/compact.ts",
  "src/cli/print-error.ts",
  "src/model/openai/openai-connection.ts",
  "src/mcp/mcp-connection.ts",
  "src/orchestrator/durability/fold-journal.ts",
  "src/orchestrator/durability/run-record.ts",
  "src/orchestrator/run/execute-request.ts",
  "src/orchestrator/run/find-argument-problems.ts",
  "src/orchestrator/run/send-answers.ts",
  "src/orchestrator/run/resume-lost-runs.ts",
  "src/orchestrator/run/recover-run.ts",
  "src/orchestrator/run/worker.ts",
  "src/orchestrator/sessions/session-fork.ts",
  "src/orchestrator/sessions/session-import.ts",
];
const COMMAND = "src/cli/main.ts";
/** Imported by commands beside the entries. What they share with the root is in its file. */
const USED_BY_COMMANDS = [
  "src/read-model/agent-row.ts",
  "src/read-model/amounts.ts",
  "src/read-model/run-row.ts",
];
const ManifestSchema = z.object({
  engines: z.object({ node: z.templateLiteral([">=", z.string()]) }),
  exports: z.record(z.string(), z.union([z.string(), z.object({ [SOURCE]: z.string() })])),
});

/**
 * Removes indented docstrings. esbuild keeps those of class members, but their readers have the
 * declarations. Lines keep their numbers, for the source maps.
 */
export function removeDocstrings(source: string): string {
  return source.replace(/^ +\/\*\*[^]*?\*\/$/gm, (text) => text.replace(/[^\n]/g, ""));
}

async function readSource(path: string): Promise<string> {
  return removeDocstrings(await readFile(path, "utf8"));
}

/** Removes docstrings from the sources that no other plugin loads. */
const withoutDocstrings: Plugin = {
  name: "without docstrings",
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => ({
      contents: await readSource(path),
      loader: "ts",
    }));
  },
};

/**
 * Has every entry load the root, as a user of one does anyway. Else the bundler would cut what they share into a chunk for each set of
 * entries that shares it, and importing the root would load forty files instead of two.
 */
function onOneCore(entries: readonly string[]): Plugin {
  const withRoot = new Set(entries.map((entry) => resolve(entry)).filter((file) => file !== ROOT));
  return {
    name: "on one core",
    setup: ({ onLoad, onResolve }) => {
      onResolve({ filter: /^the root$/ }, () => ({ path: ROOT }));
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (!withRoot.has(path)) return undefined;
        return { contents: `${await readSource(path)}\nimport "the root";\n`, loader: "ts" };
      });
    },
  };
}

/**
 * Has what `await using` becomes stand in the files of the command that say it. Else the bundler would make a chunk of it, which every entry
 * would load.
 */
function disposalIn(folder: string, target: string): Plugin {
  return {
    name: "disposal in place",
    setup: ({ onLoad }) => {
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (!path.startsWith(resolve(folder))) return undefined;
        const source = await readSource(path);
        if (!source.includes("await using ")) return undefined;
        const { code } = await transform(source, {
          loader: "ts",
          target,
          sourcefile: basename(path),
          sourcemap: "inline",
          sourcesContent: false,
        });
        return { contents: code, loader: "js" };
      });
    },
  };
}

/** Writes the bundles into a folder, which stands beside `src` or as deep as that. */
export async function bundle(folder: string): Promise<void> {
  const manifest = ManifestSchema.parse(JSON.parse(readFileSync("package.json", "utf8")));
  const target = `node${manifest.engines.node.slice(2)}`;
  const entries = Object.values(manifest.exports).flatMap((entry) =>
    typeof entry === "string" ? [] : [entry[SOURCE]],
  );
  await build({
    entryPoints: [...entries, COMMAND],
    plugins: [
      onOneCore([...entries, ...LOADED_LATE, ...USED_BY_COMMANDS]),
      disposalIn("src/cli", target),
      withoutDocstrings,
    ],
    outdir: folder,
    outbase: "src",
    chunkNames: "chunks/[name]-[hash]",
    bundle: true,
    // A module stands in one file, whichever entries use it: no class exists twice.
    splitting: true,
    format: "esm",
    platform: "node",
    target,
    packages: "external",
    // `sideEffects` in package.json is for the bundlers of users: here it would drop the import of the root.
    ignoreAnnotations: true,
    // The sources are in the package.
    sourcemap: true,
    sourcesContent: false,
    logLevel: "warning",
  });
}

if (import.meta.main) {
  rmSync("dist", { recursive: true, force: true });
  await bundle("dist");
}
