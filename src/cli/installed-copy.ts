// Which copy of the package is used. A project has a copy of its own: that one is, since its configuration imports from it, and two copies
// would be two of each class.

import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** The version of this copy. */
export function ownVersion(): string {
  const file = manifestFor(import.meta.filename);
  return file === undefined ? "unknown" : String(fieldOf(file, "version"));
}

/** The folder of this copy. */
export function ownFolder(): string {
  return dirname(manifestFor(import.meta.filename) ?? "");
}

/** The command of the copy that `folder` sees, if it is another than ours; undefined: there is none, or it is too old to have one. */
export function otherCopy(folder: string): string | undefined {
  const theirs = manifestFor(join(folder, "any.js"));
  if (theirs === undefined || theirs === manifestFor(import.meta.filename)) return undefined;
  const bin = fieldOf(theirs, "bin");
  const file: unknown = typeof bin === "string" ? bin : Reflect.get(Object(bin), "espalier");
  return typeof file === "string" ? join(dirname(theirs), file) : undefined;
}

/** The package.json of the espalier that a file would import. */
function manifestFor(file: string): string | undefined {
  try {
    return realpathSync(createRequire(file).resolve("espalier/package.json"));
  } catch {
    return undefined;
  }
}

function fieldOf(manifest: string, field: string): unknown {
  const fields: unknown = JSON.parse(readFileSync(manifest, "utf8"));
  return Reflect.get(Object(fields), field);
}
