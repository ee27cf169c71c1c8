import { test } from "vitest";
import { storeEngine } from "../../src/engine/store-engine.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { engineContract } from "../../src/testing/engine-contract.ts";

for (const { name, run } of engineContract())
  test(name, () =>
    run(async () => {
      const store = memoryStore();
      return { engine: () => storeEngine(), store, close: () => store.close() };
    }),
  );
