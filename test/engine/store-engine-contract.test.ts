// Goal: the store engine fulfils the engine contract.
// Method: the contract suite on an in-memory store and on one in a file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe } from "vitest";

import { storeEngine } from "../../src/engine/store-engine.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { engineContract } from "../../src/testing/engine-contract.ts";
import { proves } from "../harness/proves.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-"));
afterAll(() => rmSync(folder, { recursive: true }));

const stores: Readonly<Record<string, (nth: number) => Store>> = {
  "in memory": () => memoryStore(),
  "in a file": (nth) => sqliteStore(join(folder, `${nth}.db`)),
};

describe.each(Object.entries(stores))("contract: a store %s", (_where, make) => {
  for (const [nth, { name, run }] of engineContract().entries())
    proves(["E91"], name, () =>
      run(async () => {
        const store = make(nth);
        return {
          createEngine: () => storeEngine({ sweepIntervalMs: 50 }),
          store,
          close: () => store.close(),
        };
      }),
    );
});
