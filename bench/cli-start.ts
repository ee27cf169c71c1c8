// Part of `npm run bench:viewer`: what it takes until the command has said its help, beside a Node that does nothing. Both are spawned in turns,
// since the machine is slower at one time than at another. The command as `npm run build` left it.

import { spawnSync } from "node:child_process";

import { markdownTable } from "./figures/markdown-table.ts";
import { median } from "./figures/median.ts";

const ROUNDS = 15;
const LIMIT_MS = 100;
const COMMAND = new URL("../dist/cli/main.js", import.meta.url).pathname;

function timeOf(args: readonly string[]): number {
  const beganMs = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}: ${stderr}`);
  return performance.now() - beganMs;
}

const rounds = Array.from({ length: ROUNDS }, () => ({
  emptyMs: timeOf(["-e", "0"]),
  helpMs: timeOf([COMMAND, "--help"]),
}));
const emptyMs = median(rounds.map((round) => round.emptyMs));
const helpMs = median(rounds.map((round) => round.helpMs));
const more = rounds.map((round) => round.helpMs - round.emptyMs);
const moreMs = median(more);
const range = `${Math.min(...more).toFixed(0)}–${Math.max(...more).toFixed(0)}`;
console.log(
  markdownTable([
    [`the command, median of ${ROUNDS}`, "measured", "at most"],
    ["`node -e 0`", `${emptyMs.toFixed(0)} ms`, ""],
    ["`espalier --help`", `${helpMs.toFixed(0)} ms`, ""],
    ["the difference (range)", `${moreMs.toFixed(0)} ms (${range})`, `${LIMIT_MS} ms`],
  ]),
);
process.exitCode = moreMs <= LIMIT_MS ? 0 : 1;
