// The outcomes of a run's calls, and a search for text anywhere in a value, for tests of tool
// calls.

import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { Fixture } from "../harness/run-scripted.ts";
import { quiet } from "../harness/scripted-agents.ts";

/** Returns tool, outcome, failure code and text of every call of the root, in call order. */
export function outcomes(
  result: RunResult,
): readonly (readonly [string, string, string, string])[] {
  return result.steps.flatMap(({ tools }) =>
    tools.executions.map(
      ({ call, type, errorCode = "", text }) => [call.toolName, type, errorCode, text] as const,
    ),
  );
}

/** True if `needle` is in any text, or any key, anywhere in `value`. */
export function mentions(value: unknown, needle: string): boolean {
  const seen = new Set<unknown>();
  const isIn = (part: unknown): boolean => {
    if (typeof part === "string") return part.includes(needle);
    if (typeof part !== "object" || part === null || seen.has(part)) return false;
    seen.add(part);
    return Object.entries(part).some(([key, below]) => key.includes(needle) || isIn(below));
  };
  return isIn(value);
}

/** Lets the run continue, advances the time, and lets the run continue again. */
export async function pass(fixture: Fixture, byMs: number): Promise<void> {
  await quiet();
  fixture.clock.advance(byMs);
  await quiet();
}
