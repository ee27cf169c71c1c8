// Goal: a path that cannot hold a store is refused with an error of the store.
// Method: a folder, and a name that is too long for a file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect, test } from "vitest";

import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(() => rmSync(folder, { recursive: true }));

const CANNOT_OPEN = { code: "store_failed", data: { reason: "cannot_open", isTransient: false } };

test("refuses a folder as a store", async () => {
  for (const access of ["write", "read"] as const) {
    const store = sqliteStore(folder, { access });
    await expect(store.list()).rejects.toMatchObject({
      ...CANNOT_OPEN,
      message: `Expected the store ${JSON.stringify(folder)} to be a file, got a folder. Name a file in it.`,
    });
    await store.close();
  }
});

test("reports a path that is too long as `cannot_open`", async () => {
  const store = sqliteStore(join(folder, "x".repeat(300)));
  await expect(store.list()).rejects.toMatchObject(CANNOT_OPEN);
  await store.close();
});
