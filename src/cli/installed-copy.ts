// Finds the copy of the package to use. A project's own copy takes precedence: its configuration
// imports from it, and two copies would have two versions of each class.

import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** Returns the version of this copy. */
export function getPackageVersion(): string {
  const file = findManifest(import.meta.filename);
  return file === undefined ? "unknown" : String(readManifestField(file, "version"));
}

/** Returns the folder of this copy. */
export function getPackageFolder(): string {
  return dirname(findManifest(import.meta.filename) ?? "");
}

/**
 * Returns the command of the copy that `folder` resolves to. `undefined` if that is this copy, does
 * not exist, or is too old to have a command.
 */
export function findOtherCopy(folder: string): string | undefined {
  const theirs = findManifest(join(folder, "any.js"));
  if (theirs === undefined || theirs === findManifest(import.meta.filename)) return undefined;
  const bin = readManifestField(theirs, "bin");
  const file: unknown = typeof bin === "string" ? bin : Reflect.get(Object(bin), "espalier");
  return typeof file === "string" ? join(dirname(theirs), file) : undefined;
}

/** Returns the package.json of the espalier package that a file would import. */
function findManifest(file: string): string | undefined {
  try {
    return realpathSync(createRequire(file).resolve("espalier/package.json"));
  } catch {
    return undefined;
  }
}

function readManifestField(manifest: string, field: string): unknown {
  const fields: unknown = JSON.parse(readFileSync(manifest, "utf8"));
  return Reflect.get(Object(fields), field);
}
