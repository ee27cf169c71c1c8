// Loaded before every test file. Whatever a test does, no promise may be rejected without an owner, and no warning may pass unseen.

import * as fc from "fast-check";
import { afterEach, expect } from "vitest";

// The same cases everywhere, every time. `FC_SEED=…` looks at others.
fc.configureGlobal({ seed: Number(process.env["FC_SEED"] ?? 20_261_121) });

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
