// Loaded before every test file. Whatever a test does, no promise may be rejected without an owner, and no warning may pass unseen.

import { afterEach, expect } from "vitest";

const unowned: unknown[] = [];
const warnings: string[] = [];

process.on("unhandledRejection", (reason) => unowned.push(reason));
process.on("warning", (warning) => warnings.push(`${warning.name}: ${warning.message}`));

/** Takes the warnings that a test expects, so that they do not fail it. */
export function takeWarnings(): readonly string[] {
  return warnings.splice(0);
}

afterEach(async () => {
  // Rejections are reported after the microtasks of the tick in which they happened.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unowned.splice(0), "unhandled rejections").toEqual([]);
  expect(
    warnings.splice(0).filter((warning) => !warning.startsWith("ExperimentalWarning")),
    "warnings",
  ).toEqual([]);
});
