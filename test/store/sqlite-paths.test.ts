// Goal: a path that can be no store is said to be none, in words of the store. Method: a folder, and a name that no file can have.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect, test } from "vitest";

import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(() => rmSync(folder, { recursive: true }));

const CANNOT_OPEN = { code: "store_failed", data: { reason: "cannot_open", isTransient: false } };

test("a folder is said to be none", async () => {
  for (const access of ["write", "read"] as const) {
    const store = sqliteStore(folder, { access });
    await expect(store.list()).rejects.toMatchObject({
      ...CANNOT_OPEN,
      message: `Expected the store ${JSON.stringify(folder)} to be a file, got a folder. Name a file in it.`,
    });
    await store.close();
  }
});

test("a path that cannot even be looked at is an error of the store", async () => {
  const store = sqliteStore(join(folder, "x".repeat(300)));
  await expect(store.list()).rejects.toMatchObject(CANNOT_OPEN);
  await store.close();
});
