import { crashChecks, sessionStoreChecks } from "./store-contract-crashes.ts";
import { journalChecks } from "./store-contract-journals.ts";
import { postChecks } from "./store-contract-posts.ts";
import { runStoreChecks } from "./store-contract-runs.ts";
import type { StoreCheck } from "./store-contract-support.ts";

export type { StoreCheck } from "./store-contract-support.ts";

/**
 * What every store promises, as checks that any test runner can run: for stores of your own.
 * `for (const { name, run } of storeContract()) test(name, () => run(() => makeMyStore()));`
 */
export function storeContract(): readonly StoreCheck[] {
  return [
    ...runStoreChecks,
    ...crashChecks,
    ...journalChecks,
    ...postChecks,
    ...sessionStoreChecks,
  ];
}
