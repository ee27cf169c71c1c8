// Golden files: what a run must look like, as text that is read and committed. Written on demand only, and never in CI.

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
 * Compares a text with its golden file, whole. A file that is missing or different is an error. `UPDATE_GOLDEN=1` writes it instead;
 * where `CI` is set, too, nothing is written, and the difference stays an error.
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
