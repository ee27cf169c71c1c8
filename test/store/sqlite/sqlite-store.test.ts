// Goal: the store in a file fulfils the contract of a store, with both drivers.
// Method: the contract suite on files and in memory.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, test } from "vitest";

import { sqliteStore, type SqliteStoreOptions } from "../../../src/store/sqlite/sqlite-store.ts";
import { storeContract } from "../../../src/testing/store-contract.ts";
import { DRIVERS } from "../../support/store/drivers.ts";

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(() => rmSync(folder, { recursive: true }));

const kinds: Readonly<Record<string, { path: string; options: SqliteStoreOptions }>> = {
  "a file": { path: "", options: {} },
  ...Object.fromEntries(
    DRIVERS.slice(1).map((driver) => [`a file, of ${driver}`, { path: "", options: { driver } }]),
  ),
  "a file, kept for the process": { path: "", options: { durability: "process" } },
  "no file": { path: ":memory:", options: {} },
};

describe.each(Object.entries(kinds))("the contract with %s", (kind, { path, options }) => {
  for (const [index, { name, run }] of storeContract().entries())
    test(name, () =>
      run(async () => sqliteStore(path || join(folder, `${kind}-${index}.db`), options)),
    );
});
