import { crashChecks, sessionStoreChecks } from "./store-contract-crashes.ts";
import { journalChecks } from "./store-contract-journals.ts";
import { mailChecks } from "./store-contract-mail.ts";
import { runStoreChecks } from "./store-contract-runs.ts";
import type { StoreCheck } from "./store-contract-support.ts";

export type { StoreCheck } from "./store-contract-support.ts";

/**
 * Returns the checks that every store must pass, for tests of your own store with any test runner.
 *
 * @example
 * ```ts
 * import { test } from "node:test";
 *
 * for (const { name, run } of storeContract()) test(name, () => run(async () => memoryStore()));
 * ```
 */
export function storeContract(): readonly StoreCheck[] {
  return [
    ...runStoreChecks,
    ...crashChecks,
    ...journalChecks,
    ...mailChecks,
    ...sessionStoreChecks,
  ];
}
