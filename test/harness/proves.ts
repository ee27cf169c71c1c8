import { test } from "vitest";

import type { RequirementId } from "../requirements.ts";

/**
 * A test that proves requirements. Its ids are a claim: break the promise, and the test must fail. `limitMs`: when it is taken for hung, where
 * it has more to do than most.
 */
export function proves(
  ids: readonly [RequirementId, ...RequirementId[]],
  behaviour: string,
  check: () => void | Promise<void>,
  limitMs?: number,
): void {
  test(`${behaviour} [${ids.join(" ")}]`, check, limitMs);
}
