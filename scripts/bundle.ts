// `npm run build`, the part that runs: one file for each entry of package.json, and chunks for what entries share or load when they need
// it. Declarations are `tsc`'s. Why bundles: docs/decisions/2026-11-25-bundles.md.

import { readFileSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import { build, type Plugin } from "esbuild";
import { z } from "zod";

const SOURCE = "@espalier/source";
const ROOT = resolve("src/index.ts");
/** Loaded when they are needed: each is the beginning of a chunk of its own. */
const LOADED_LATE = ["src/model/openai/openai-connection.ts", "src/mcp/mcp-connection.ts"];
const COMMAND = "src/cli/main.ts";
const ManifestSchema = z.object({
  engines: z.object({ node: z.templateLiteral([">=", z.string()]) }),
  exports: z.record(z.string(), z.union([z.string(), z.object({ [SOURCE]: z.string() })])),
});

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
        return { contents: `${await readFile(path, "utf8")}\nimport "the root";\n`, loader: "ts" };
      });
    },
  };
}

/** Writes the bundles into a folder, which stands beside `src` or as deep as that. */
export async function bundle(folder: string): Promise<void> {
  const manifest = ManifestSchema.parse(JSON.parse(readFileSync("package.json", "utf8")));
  const entries = Object.values(manifest.exports).flatMap((entry) =>
    typeof entry === "string" ? [] : [entry[SOURCE]],
  );
  await build({
    // The command is written on the entries of the package, as a program of a user's is: it shares no file with them.
    entryPoints: [...entries, COMMAND],
    plugins: [onOneCore([...entries, ...LOADED_LATE])],
    outdir: folder,
    outbase: "src",
    chunkNames: "chunks/[name]-[hash]",
    bundle: true,
    // A module stands in one file, whichever entries use it: no class exists twice.
    splitting: true,
    format: "esm",
    platform: "node",
    target: `node${manifest.engines.node.slice(2)}`,
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
