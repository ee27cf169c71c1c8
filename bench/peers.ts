// `npm run bench:peers`: the same work with espalier, by hand, with the AI SDK and with the OpenAI Agents SDK, nothing traced; and what a budget
// and a limit of depth come to in each. Their packages are installed for it, into `bench/peers`. `--write` puts the figures into
// docs/BENCHMARKS.md; `--rounds 9` and `--small` as in run.ts.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { z } from "zod";

import { shown } from "./figures/figure-table.ts";
import { conditions, write } from "./figures/document.ts";
import { GREEDY_DEPTH, GREEDY_TOKENS } from "./workloads/greedy.ts";
import { markdownTable } from "./figures/markdown-table.ts";
import { outputOf, startService, type Service } from "./harness/processes.ts";
import { FULL, SMALL } from "./harness/sizes.ts";
import { BARE_LOOP, PEERS, type ContenderName, type Unit } from "./harness/workload.ts";
import { WORKLOADS } from "./workloads/workloads.ts";

interface PeerRow {
  readonly id: string;
  readonly what: string;
  readonly of: string;
  readonly unit: Unit;
}

/** By the id and the first title of a workload. */
const ROWS: readonly PeerRow[] = [
  { id: "W1", what: "CPU per step, three warm-up runs", of: "soon", unit: "ms" },
  { id: "W1", what: "CPU per step, sixty warm-up runs", of: "late", unit: "ms" },
  { id: "W2", what: "CPU", of: "cpuMs", unit: "ms" },
  { id: "W3", what: "CPU", of: "cpuMs", unit: "ms" },
  { id: "W4", what: "heap per agent", of: "heapKb", unit: "KB" },
  { id: "W4", what: "longest block", of: "blockMs", unit: "ms" },
  { id: "W5", what: "CPU per 1,000 deltas in a burst", of: "cpuMs", unit: "ms" },
  { id: "W5", what: "time to the first delta", of: "firstMs", unit: "ms" },
  { id: "W7", what: "CPU", of: "cpuMs", unit: "ms" },
];
const CONTENDERS: readonly ContenderName[] = [BARE_LOOP, "espalier, untraced", ...PEERS];
const GREEDY: readonly ContenderName[] = ["espalier", ...PEERS];

const MeasuredSchema = z.object({ figures: z.record(z.string(), z.number()) });
const EndedSchema = z.object({ ended: z.string() });
const GreedSchema = z.object({ replies: z.int(), tokens: z.int(), depth: z.int() });
const ManifestSchema = z.object({ dependencies: z.record(z.string(), z.string()) });

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    small: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const roundCount = z.coerce.number().int().positive().parse(values.rounds);
const rounds = Array.from({ length: roundCount }, (_none, round) => round);
const sizes = values.small ? SMALL : FULL;
if (values.write && values.small) throw new Error("Expected --write for figures in full size.");

execFileSync("npm", ["ci", "--prefix", "bench/peers", "--ignore-scripts"], { stdio: "ignore" });
execFileSync("tsc", ["-p", "bench/peers"], { stdio: "inherit" });
using server = await startService("model-server.ts");
const figures = [conditions(roundCount), versions(), await costs(server), await greed(server)];
const text = `${figures.join("\n\n")}\n`;
process.stdout.write(text);
if (values.write) write("peers", text);

/** What was measured beside espalier. */
function versions(): string {
  const manifest: unknown = JSON.parse(readFileSync("bench/peers/package.json", "utf8"));
  const { dependencies } = ManifestSchema.parse(manifest);
  const named = Object.entries(dependencies).map(([name, version]) => `\`${name}\` ${version}`);
  return `With ${named.join(", ")}.`;
}

/** Figures by workload, name and contender, one of each round. */
async function measured(serverUrl: string): Promise<ReadonlyMap<string, readonly number[]>> {
  const ids = [...new Set(ROWS.map(({ id }) => id))];
  const found = new Map<string, readonly number[]>();
  for (const [id, round] of ids.flatMap((one) => rounds.map((at) => [one, at] as const))) {
    const workload = WORKLOADS.findIndex((one) => one.id === id);
    process.stderr.write(`${id}, round ${round + 1}\n`);
    // Every other round backwards: a machine that slows down or speeds up meanwhile does so for all alike.
    for (const contender of round % 2 === 0 ? CONTENDERS : CONTENDERS.toReversed()) {
      const task = JSON.stringify({ workload, contender, serverUrl, sizes });
      const output: unknown = JSON.parse(await outputOf("measure.ts", task, {}));
      for (const [name, value] of Object.entries(MeasuredSchema.parse(output).figures)) {
        const key = [id, name, contender].join(" ");
        found.set(key, [...(found.get(key) ?? []), value]);
      }
    }
  }
  return found;
}

async function costs({ url: serverUrl }: Service): Promise<string> {
  const found = await measured(serverUrl);
  const titles = new Map(WORKLOADS.toReversed().map(({ id, title }) => [id, title]));
  const lines = ROWS.map(({ id, what, of, unit }, index) => {
    const cells = CONTENDERS.map((contender) =>
      shown(found.get([id, of, contender].join(" ")) ?? [], unit),
    );
    return [ROWS[index - 1]?.id === id ? "" : `**${id}**: ${titles.get(id)}`, what, ...cells];
  });
  return markdownTable([["", "", ...CONTENDERS], ...lines]);
}

async function greed({ url: serverUrl }: Service): Promise<string> {
  const lines: string[][] = [];
  for (const contender of GREEDY) {
    const task = JSON.stringify({ contender, serverUrl });
    const { ended } = EndedSchema.parse(
      JSON.parse(await outputOf("../workloads/greedy.ts", task, {})),
    );
    const report: unknown = await (await fetch(`${serverUrl}/greed`)).json();
    const { replies, tokens, depth } = GreedSchema.parse(report);
    lines.push([
      contender,
      tokens.toLocaleString("en"),
      String(depth),
      String(replies),
      ended.replaceAll("|", "\\|").slice(0, 200),
    ]);
  }
  const [tokens, depth] = [GREEDY_TOKENS.toLocaleString("en"), GREEDY_DEPTH];
  const head = ["", `tokens, of ${tokens}`, `depth, of ${depth}`, "model calls", "how it ended"];
  return markdownTable([head, ...lines]);
}
