// Golden files: the expected text of a run, which is reviewed and committed. They are written on
// request only, and never in CI.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { expect } from "vitest";

/** Where golden files are, and whether they may be written. */
export interface GoldenPlace {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const HERE: GoldenPlace = { folder: "test/fixtures/golden", environment: process.env };

/**
 * Compares the whole text with its golden file. A missing or different file is an error.
 * `UPDATE_GOLDEN=1` writes the file, except if `CI` is set, too.
 */
export function checkGolden(name: string, text: string, place: GoldenPlace = HERE): void {
  const file = join(place.folder, `${name}.txt`);
  const { UPDATE_GOLDEN: update, CI: isCi } = place.environment;
  if (update === "1" && (isCi === undefined || isCi === "")) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  expect(text, `${file}; if the change is meant, run with UPDATE_GOLDEN=1 and read the diff`).toBe(
    stored(file),
  );
}

function stored(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    throw new Error(`Expected the golden file ${file}, got none. Write it with UPDATE_GOLDEN=1.`);
  }
}
