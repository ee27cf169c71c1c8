// `npm run bench`: what espalier costs beside a bare loop on the `openai` client. `npm run bench -- W1 spawn` measures those workloads
// only; `--rounds 9` takes medians of so many rounds; `--write` puts the figures into docs/BENCHMARKS.md; `--small` shows that everything
// works, with figures that mean nothing. Fails if a span is lost.

import { parseArgs } from "node:util";

import { z } from "zod";

import { burstTable } from "./workloads/burst.ts";
import type { TracedWork } from "./contenders/contender.ts";
import { conditions, write } from "./figures/document.ts";
import { figureTable, type Played } from "./figures/figure-table.ts";
import { outputOf, startService } from "./harness/processes.ts";
import { FULL, SMALL } from "./harness/sizes.ts";
import type { ContenderName, Figures, Round, Workload } from "./harness/workload.ts";
import { WORKLOADS } from "./workloads/workloads.ts";

const SPANS = "spans";
const IDS = [...new Set(WORKLOADS.map(({ id }) => id)), SPANS];

const CountsSchema = z.object({
  runs: z.int(),
  agents: z.int(),
  modelCalls: z.int(),
  toolCalls: z.int(),
});
const MeasuredSchema = z.object({
  figures: z.record(z.string(), z.number()),
  traced: z.object({ expected: CountsSchema, endedSpans: z.int() }).optional(),
});
const UNTRACED = {
  expected: { runs: 0, agents: 0, modelCalls: 0, toolCalls: 0 },
  endedSpans: 0,
};
const ArrivedSchema = CountsSchema.extend({ spans: z.int(), orphans: z.int() });

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "5" },
    small: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const roundCount = z.coerce.number().int().positive().parse(values.rounds);
const sizes = values.small ? SMALL : FULL;
for (const id of positionals)
  if (!IDS.includes(id)) throw new Error(`Expected ${IDS.join(", ")}, got ${id}.`);
if (values.write && (positionals.length > 0 || values.small))
  throw new Error("Expected --write for all workloads in full size: the document shows them all.");
const isAsked = (id: string): boolean => positionals.length === 0 || positionals.includes(id);

using server = await startService("model-server.ts");
using sink = await startService("span-sink.ts");
const played: Played[] = [];
for (const workload of WORKLOADS)
  if (isAsked(workload.id)) played.push({ workload, rounds: await play(workload) });
const parts: string[] = [];
if (played.length > 0) parts.push(conditions(roundCount), figureTable(played));
if (isAsked(SPANS)) parts.push(await burstTable(sizes.burstAgents));
const figures = `${parts.join("\n\n")}\n`;
process.stdout.write(figures);
if (values.write) write("figures", figures);

async function play(workload: Workload): Promise<readonly Round[]> {
  const rounds: Round[] = [];
  for (let number = 1; number <= roundCount; number += 1) {
    process.stderr.write(`${workload.id}: ${workload.title}, round ${number}\n`);
    const round = new Map<ContenderName, Figures>();
    // Every other round backwards: a machine that slows down or speeds up meanwhile does so for all alike.
    const order = number % 2 === 1 ? workload.contenders : workload.contenders.toReversed();
    for (const contender of order) round.set(contender, await measure(workload, contender));
    rounds.push(round);
  }
  return rounds;
}

async function measure(workload: Workload, contender: ContenderName): Promise<Figures> {
  const index = WORKLOADS.indexOf(workload);
  const task = JSON.stringify({ workload: index, contender, serverUrl: server.url, sizes });
  const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: sink.url };
  const output = await outputOf("measure.ts", task, environment);
  const { figures: own, traced } = MeasuredSchema.parse(JSON.parse(output));
  const arrived = ArrivedSchema.parse(await sink.report());
  const loss = lossOf(traced ?? UNTRACED, arrived);
  if (loss !== undefined)
    throw new Error(`${workload.id}, ${contender}: ${loss} A cost without its spans says nothing.`);
  return own;
}

/** What is wrong with the spans that arrived; undefined if they are those of the work, and all that have ended. */
function lossOf(
  { expected, endedSpans }: TracedWork,
  { spans, orphans, ...counts }: z.infer<typeof ArrivedSchema>,
): string | undefined {
  const [wanted, got] = [JSON.stringify(expected), JSON.stringify(counts)];
  if (wanted !== got) return `Expected spans of ${wanted} to arrive, got ${got}.`;
  if (spans !== endedSpans) return `Expected ${endedSpans} spans to arrive, got ${spans}.`;
  return orphans === 0 ? undefined : `Expected no span without its parent, got ${orphans}.`;
}
