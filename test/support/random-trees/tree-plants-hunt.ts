// Runs as a separate process, started by tree-plants.test.ts: plants a bug while the sources are
// loaded, and plays worlds until the laws find it. Arguments: the number of the plant, or -1 for
// none; then the seeds of worlds to play, first the given ones, then as many as the last argument
// requests. Writes one line of JSON: the seed of the world that found the bug (null if none did),
// and the message of the law.

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";

import { PLANTS } from "./tree-plants.ts";

const [number = "-1", seeds = "", more = "0"] = process.argv.slice(2);
const plant = PLANTS[Number(number)];
let isPlanted = plant === undefined;

registerHooks({
  load: (url, context, next) => {
    if (plant === undefined || !url.endsWith(`/src/${plant.file}`)) return next(url, context);
    const source = readFileSync(fileURLToPath(url), "utf8");
    const count = source.split(plant.from).length - 1;
    if (count !== 1)
      throw new Error(
        `Expected the text to be once in ${plant.file}, got ${count} times: ${plant.from}`,
      );
    isPlanted = true;
    return {
      format: "module-typescript",
      shortCircuit: true,
      source: source.replace(plant.from, () => plant.to),
    };
  },
});

const { sample } = await import("fast-check");
const { worlds } = await import("./tree-arbitrary.ts");
const { checkLaws } = await import("./tree-laws.ts");
const { play } = await import("./tree-fixture.ts");
if (!isPlanted) throw new Error("The file of the plant was never loaded.");

process.on("warning", () => undefined);
let unowned: unknown;
process.on("unhandledRejection", (cause) => {
  unowned ??= cause;
});

/** Returns the message of the first violated law, or undefined. */
async function finding(seed: number): Promise<string | undefined> {
  const [world] = sample(worlds(), { seed, numRuns: 1 });
  if (world === undefined) throw new Error("A sample has one world.");
  try {
    checkLaws(world, await play(world));
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause);
  }
  return unowned instanceof Error ? unowned.message : undefined;
}

/** Returns the first finding that matches the plant, or else the first of all. */
async function hunt(): Promise<Finding> {
  const pinned = seeds === "" ? [] : seeds.split(",").map(Number);
  const others = Array.from({ length: Number(more) }, (_none, index) => index);
  let other: Finding = { seed: null, said: "" };
  for (const seed of [...pinned, ...others]) {
    const said = await finding(seed);
    if (said === undefined) continue;
    const found = { seed, said };
    if (plant === undefined || plant.law.test(said)) return found;
    if (other.seed === null) other = found;
  }
  return other;
}

interface Finding {
  readonly seed: number | null;
  readonly said: string;
}

const found = await hunt();
process.stdout.write(`\n${JSON.stringify(found)}\n`);
process.exit(0);
