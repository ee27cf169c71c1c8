// Which copy of the package is used. A project has a copy of its own: that one is, since its configuration imports from it, and two copies
// would be two of each class.

import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** The version of this copy. */
export function getPackageVersion(): string {
  const file = findManifest(import.meta.filename);
  return file === undefined ? "unknown" : String(readManifestField(file, "version"));
}

/** The folder of this copy. */
export function getPackageFolder(): string {
  return dirname(findManifest(import.meta.filename) ?? "");
}

/** The command of the copy that `folder` sees, if it is another than ours; undefined: there is none, or it is too old to have one. */
export function findOtherCopy(folder: string): string | undefined {
  const theirs = findManifest(join(folder, "any.js"));
  if (theirs === undefined || theirs === findManifest(import.meta.filename)) return undefined;
  const bin = readManifestField(theirs, "bin");
  const file: unknown = typeof bin === "string" ? bin : Reflect.get(Object(bin), "espalier");
  return typeof file === "string" ? join(dirname(theirs), file) : undefined;
}

/** The package.json of the espalier that a file would import. */
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
