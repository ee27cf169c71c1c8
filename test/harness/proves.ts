import { test } from "vitest";

import type { RequirementId } from "../requirements.ts";

/**
 * A test that proves requirements. Its ids are a claim: if the promise is broken, the test must
 * fail. `limitMs` is the time limit of a test that takes longer than most.
 */
export function proves(
  ids: readonly [RequirementId, ...RequirementId[]],
  behaviour: string,
  check: () => void | Promise<void>,
  limitMs?: number,
): void {
  test(`${behaviour} [${ids.join(" ")}]`, check, limitMs);
}
