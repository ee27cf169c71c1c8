import { deepStrictEqual, ok } from "node:assert/strict";

import type { Store } from "../store/store.ts";
import {
  ALWAYS_MS,
  check,
  checkOfRun,
  claimBy,
  next,
  NO_PROCESS_ID,
  ownerOf,
  run1,
  run2,
  type StoreCheck,
} from "./store-contract-support.ts";

/** A claim that finds every owner stale. */
const ofStale = { staleAfterMs: ALWAYS_MS };

/** What a store promises about owners that were lost. */
export const crashChecks: readonly StoreCheck[] = [
  checkOfRun("a claim from an owner that was lost counts a crash, once", async (store) => {
    const { createdAtMs = Infinity } = (await store.find(run1)) ?? {};
    for (const [index, token] of ["b", "c"].entries()) {
      await store.claim(run1, claimBy(token, ofStale));
      const { lastCrashAtMs } = (await store.find(run1)) ?? {};
      ok(Number.isSafeInteger(lastCrashAtMs) && Number(lastCrashAtMs) >= createdAtMs);
      // The owner that never got the answer may ask again.
      await store.claim(run1, claimBy(token, ofStale));
      deepStrictEqual(await crashesOf(store), index + 1);
    }
    deepStrictEqual(
      (await store.list()).map(({ crashes }) => crashes),
      [2],
    );
  }),

  check("an owner whose process has ended was lost", async (store) => {
    await store.create(run1, "", { ...ownerOf("a"), processId: NO_PROCESS_ID });
    await store.claim(run1, claimBy("b"));
    deepStrictEqual(await crashesOf(store), 1);
    await store.create(run2, "", { ...ownerOf("a"), processId: NO_PROCESS_ID });
    await store.claim(run2, claimBy("b", { takeOver: true }));
    deepStrictEqual((await store.find(run2))?.crashes, 1);
  }),

  checkOfRun("an owner that its supervisor has given up was lost", async (store) => {
    await store.claim(run1, claimBy("b", { isOwnerLost: true }));
    deepStrictEqual(await crashesOf(store), 1);
    deepStrictEqual((await store.find(run1))?.owner, ownerOf("b"));
  }),

  checkOfRun("a takeover from a live owner is no crash", async (store) => {
    await store.claim(run1, claimBy("b", { takeOver: true }));
    const { crashes, lastCrashAtMs } = (await store.find(run1)) ?? {};
    deepStrictEqual([crashes, lastCrashAtMs], [0, null]);
  }),

  checkOfRun("a claim of a run that was given up is no crash", async (store, first) => {
    await store.release(first, "open");
    await store.claim(run1, claimBy("b", ofStale));
    deepStrictEqual(await crashesOf(store), 0);
    const third = await store.claim(run1, claimBy("c", ofStale));
    await store.release(third, "open");
    await store.claim(run1, claimBy("d", { isOwnerLost: true }));
    deepStrictEqual(await crashesOf(store), 1);
  }),

  checkOfRun("a batch with progress resets the crashes, and no other batch does", async (store) => {
    const held = await store.claim(run1, claimBy("b", ofStale));
    const { lastCrashAtMs } = (await store.find(run1)) ?? {};
    await store.append(held, next(1, "1"));
    await store.beat(held);
    await store.append(held, { ...next(2, "2"), hasProgress: false });
    await store.post(run1, { key: "a", body: "1" });
    deepStrictEqual(await crashesOf(store), 1);
    await store.append(held, { ...next(3, "3"), hasProgress: true });
    deepStrictEqual(await crashesOf(store), 0);
    await store.claim(run1, claimBy("c", ofStale));
    const found = await store.find(run1);
    deepStrictEqual(found?.crashes, 1);
    ok(Number(found.lastCrashAtMs) >= Number(lastCrashAtMs));
  }),

  checkOfRun("a run that rests has no crashes any more", async (store) => {
    for (const status of ["paused", "ended"] as const) {
      const held = await store.claim(run1, claimBy(`before ${status}`, { isOwnerLost: true }));
      await store.release(held, status);
      deepStrictEqual([status, await crashesOf(store)], [status, 0]);
      await store.claim(run1, claimBy(`after ${status}`));
    }
  }),
];

async function crashesOf(store: Store): Promise<number | undefined> {
  return (await store.find(run1))?.crashes;
}
