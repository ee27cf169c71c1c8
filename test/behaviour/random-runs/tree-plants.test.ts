// Goal: the tree property finds each bug that is planted on purpose, and reports nothing if none is
// planted.
// Method: every plant is inserted into the sources of a separate process while they are loaded.
// Worlds are played there until a law is violated: first the world that found the plant before,
// then, in case worlds have changed since, as many others as needed.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, expect, test, vi } from "vitest";

import { PLANTS } from "../../support/random-trees/tree-plants.ts";

vi.setConfig({ testTimeout: 600_000 });

const HUNT = fileURLToPath(
  new URL("../../support/random-trees/tree-plants-hunt.ts", import.meta.url),
);
const MOST_WORLDS = 600;
/** The number of parallel processes. */
const WIDTH = 2;

const run = promisify(execFile);

/** Later processes reuse the code that one process has compiled. */
const cache = mkdtempSync(join(tmpdir(), "espalier-plants-"));
afterAll(() => rmSync(cache, { recursive: true, force: true }));

/** Returns the last output of a process with this plant, or the error if it cannot be planted. */
async function hunted(plant: number, seeds: readonly number[], more: number): Promise<string> {
  const args = [
    "--disable-warning=ExperimentalWarning",
    HUNT,
    `${plant}`,
    seeds.join(","),
    `${more}`,
  ];
  const { stdout } = await run(process.execPath, args, {
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
  return stdout.trim().split("\n").at(-1) ?? "";
}

test("finds each planted bug by the expected law", async () => {
  const said = new Map<string, string>();
  const left = [...PLANTS.entries()];
  const hunter = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [number, { name, seed }] = next;
      said.set(
        name,
        await hunted(number, [seed], MOST_WORLDS).catch((cause: unknown) => String(cause)),
      );
    }
  };
  await Promise.all(Array.from({ length: WIDTH }, hunter));
  const missed = PLANTS.filter(({ name, law }) => !law.test(said.get(name) ?? ""));
  expect(missed.map(({ name }) => [name, said.get(name)])).toEqual([]);
  expect(PLANTS.length).toBeGreaterThanOrEqual(12);
});

test("finds nothing in those worlds without a planted bug", async () => {
  const seeds = PLANTS.map(({ seed }) => seed);
  expect(await hunted(-1, seeds, 0)).toBe('{"seed":null,"said":""}');
});
