// Goal: what one run passes through does not grow unseen, and features that are off cost nothing (H22).
// Method: `npm run path`, in a process of its own, against fixed bounds. They may fall; to raise one takes
// a page in docs/decisions.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";

const Figures = z.object({
  files: z.int(),
  functions: z.int(),
  namedOverThreeLines: z.int(),
  calls: z.int(),
  lines: z.int(),
});
const Measured = z.object({
  cold: Figures,
  warm: Figures,
  single: Figures,
  frames: z.object({ model: z.int(), tool: z.int(), limits: z.int() }),
});

/** A few calls come and go with times below a millisecond, and with when the process collects its garbage. */
const CALLS_OF_CHANCE = 15;

const PLAIN = {
  cold: { calls: 2_911 },
  warm: { lines: 5_284, namedOverThreeLines: 417 },
  single: { functions: 401 },
  frames: { model: 10, tool: 22, limits: 17 },
};
const OBSERVED = {
  cold: { calls: 20_623 },
  warm: { lines: 7_574, namedOverThreeLines: 626 },
  single: { functions: 720 },
  frames: { model: 21, tool: 33, limits: 23 },
};

async function measure(...flags: readonly string[]) {
  const script = ["--conditions=@espalier/source", "scripts/run-path.ts", ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, script);
  const [figures = "", ...folders] = stdout.trim().split("\n");
  const files = folders.flatMap((line) => {
    const [folder, _count, ...names] = line.split(" ");
    return names.map((name) => `${folder}/${name}`);
  });
  return { ...Measured.parse(JSON.parse(figures)), files };
}

function findExcess(measured: z.infer<typeof Measured>, bounds: typeof PLAIN): readonly string[] {
  const { cold, warm, single, frames } = measured;
  const compared: readonly (readonly [string, number, number])[] = [
    ["calls, cold", cold.calls, bounds.cold.calls + CALLS_OF_CHANCE],
    ["lines, warm", warm.lines, bounds.warm.lines],
    ["named functions, warm", warm.namedOverThreeLines, bounds.warm.namedOverThreeLines],
    ["functions of a single agent", single.functions, bounds.single.functions],
    ["frames to the model", frames.model, bounds.frames.model],
    ["frames to the tool", frames.tool, bounds.frames.tool],
    ["frames to the spawn limits", frames.limits, bounds.frames.limits],
  ];
  return compared.flatMap(([name, is, most]) =>
    is > most ? [`${name}: ${is}, at most ${most}`] : [],
  );
}

proves(["H22"], "a plain run passes through no more than its bounds", async () => {
  expect(findExcess(await measure(), PLAIN)).toEqual([]);
});

proves(["H22"], "a traced run with a store passes through no more than its bounds", async () => {
  expect(findExcess(await measure("--observed"), OBSERVED)).toEqual([]);
});

/** Files of features that a plain run does not use. */
const UNUSED = ["src/protocol/span-tree.ts"];

proves(["H22"], "a plain run enters no file of a feature that it does not use", async () => {
  const { files } = await measure();
  expect(files.filter((file) => UNUSED.includes(file))).toEqual([]);
});
