import { statSync } from "node:fs";
import { resolve } from "node:path";

import type { Shell } from "./shell.ts";
import { UsageError } from "./usage-error.ts";

/** A folder that was named, absolute; the working folder if none was. Throws UsageError if it is none, or cannot be read. */
export function readableFolder({ cwd }: Shell, named: string | undefined): string {
  const folder = resolve(cwd, named ?? ".");
  const name = JSON.stringify(named ?? ".");
  let isFolder: boolean | undefined;
  try {
    isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory();
  } catch (cause) {
    throw new UsageError(
      `Expected a folder that can be read, but ${name} cannot (${String(cause)}). Check its permissions.`,
      { cause },
    );
  }
  if (isFolder === undefined)
    throw new UsageError(`Expected a folder, but there is no ${name}. Check the path.`);
  if (!isFolder)
    throw new UsageError(`Expected a folder, but ${name} is none. Name the folder it lies in.`);
  return folder;
}
