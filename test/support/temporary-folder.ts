// A folder on disk for one test: created from a list of files, removed when disposed.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface TemporaryFolder extends Disposable {
  readonly path: string;
  /** Returns the absolute path of an entry. */
  at(name: string): string;
}

/** Files by path, with their text or bytes; a path that ends in `/` is an empty folder. */
export function temporaryFolder(
  files: Readonly<Record<string, string | Uint8Array>> = {},
): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "espalier-survey-"));
  for (const [name, content] of Object.entries(files)) {
    const file = join(path, name);
    if (name.endsWith("/")) mkdirSync(file, { recursive: true });
    else {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
  }
  return {
    path,
    at: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
