// Goal: what one run passes through does not grow unseen, and docs/DESIGN.md says how much it is (H22).
// Method: `npm run path`, beside the table.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";

const Figures = z.object({
  files: z.int(),
  lines: z.int(),
  functions: z.int(),
  calls: z.int(),
});
type Figures = z.infer<typeof Figures>;
const Path = z.object({ start: Figures, run: Figures });

/** A file more or less, and a few calls, come with times below a millisecond. */
const SLACK = 0.05;

function documented(row: string): Figures {
  const document = readFileSync("docs/DESIGN.md", "utf8");
  const line = document.split("\n").find((text) => text.startsWith(`| ${row} `)) ?? "";
  const [files, lines, functions, calls] = line
    .split("|")
    .slice(2, -1)
    .map((cell) => Number(cell.replaceAll(",", "")));
  return Figures.parse({ files, lines, functions, calls });
}

proves(["H22"], "one run passes through what docs/DESIGN.md says, and no more", async () => {
  const arguments_ = ["--conditions=@espalier/source", "scripts/run-path.ts"];
  const { stdout } = await promisify(execFile)(process.execPath, arguments_);
  const measured = Path.parse(JSON.parse(stdout.split("\n")[0] ?? ""));
  const said: z.infer<typeof Path> = {
    start: documented("`start()` to the first request"),
    run: documented("the whole run"),
  };
  const differing = (["start", "run"] as const).flatMap((part) =>
    (["files", "lines", "functions", "calls"] as const).flatMap((figure) => {
      const [is, was] = [measured[part][figure], said[part][figure]];
      return Math.abs(is - was) <= was * SLACK
        ? []
        : [`${part}, ${figure}: ${is}, documented ${was}`];
    }),
  );
  expect(differing).toEqual([]);
});
