// The project in which a command is run: its folder, and its configuration.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

import type { EspalierConfig } from "espalier/config";

import { importFile } from "./import-file.ts";
import type { Shell } from "./shell.ts";
import { describeCause, UsageError } from "./usage-error.ts";

export interface Project {
  /** That of the configuration; without one that of package.json or .git; without these the working folder. */
  readonly folder: string;
  readonly config: EspalierConfig;
  /** Undefined: there is none, and `config` is empty. */
  readonly configFile: string | undefined;
}

const CONFIG_NAMES = ["espalier.config.ts", "espalier.config.js", "espalier.config.mjs"];
/** Where a project ends: nothing above is looked at. */
const ENDS = ["package.json", ".git"];

/**
 * Finds the project of the working folder, and loads its configuration.
 *
 * @throws UsageError for a configuration that cannot be loaded; what `defineConfig` throws.
 */
export async function findProject(shell: Shell): Promise<Project> {
  const { cwd } = shell;
  for (let folder = cwd; ; folder = dirname(folder)) {
    const configFile = firstIn(folder, CONFIG_NAMES);
    if (configFile !== undefined) {
      const config = await checkedConfig(await importFile(configFile, shell), configFile);
      return { folder, config, configFile };
    }
    if (firstIn(folder, ENDS) !== undefined) return bare(folder);
    if (dirname(folder) === folder) return bare(cwd);
  }
}

function bare(folder: string): Project {
  return { folder, config: {}, configFile: undefined };
}

/** What a file has exported, if it is a configuration. Throws UsageError. */
export async function checkedConfig(given: unknown, file: string): Promise<EspalierConfig> {
  const { defineConfig } = await import("espalier/config");
  try {
    if (mayBeConfig(given)) return defineConfig(given);
  } catch (cause) {
    throw new UsageError(`${file}: ${describeCause(cause)}`, {
      cause,
    });
  }
  throw new UsageError(
    `${file}: Expected the default export to be defineConfig({ … }), got something else.`,
  );
}

/** \`defineConfig\` checks every field. */
function mayBeConfig(given: unknown): given is EspalierConfig {
  return typeof given === "object" && given !== null;
}

function firstIn(folder: string, names: readonly string[]): string | undefined {
  return names.map((name) => join(folder, name)).find((file) => existsSync(file));
}
