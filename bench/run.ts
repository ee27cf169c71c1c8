// `npm run bench`: what a step costs, side by side in one run. Every figure is a fresh process against one local server; rounds are
// interleaved, and ratios are taken within a round, so that a machine that is slow for a while is slow for all.

import { execFile, fork } from "node:child_process";
import { cpus } from "node:os";
import { promisify } from "node:util";

import { z } from "zod";

const FigureSchema = z.object({ cpuMs: z.number(), wallMs: z.number(), peakMb: z.number() });
type Figure = z.infer<typeof FigureSchema>;

const CONTENDERS = ["openai-loop", "espalier", "espalier, traced"] as const;
const WORKLOADS = [
  { id: "W1", title: "one agent, 50 tool steps", steps: 51 },
  { id: "W2", title: "100 children × 3 steps at once", steps: 302 },
] as const;
type Workload = (typeof WORKLOADS)[number];
/** The figures of one round, in the order of the contenders. */
type Round = readonly Figure[];

const ROUNDS = Number(process.env["ROUNDS"] ?? 5);
const FLAGS = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];

const here = (file: string): string => new URL(file, import.meta.url).pathname;

const server = await startServer();
try {
  const machine = `Node ${process.version}, ${cpus().length} cores`;
  console.log(`${machine}, ${ROUNDS} rounds; medians; ratios within a round to openai-loop\n`);
  for (const workload of WORKLOADS) {
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS; round += 1)
      rounds.push(await play(workload, server.address));
    console.log(table(workload, rounds));
  }
} finally {
  server.stop();
}

async function startServer(): Promise<{ readonly address: string; readonly stop: () => void }> {
  const child = fork(here("server.ts"), {
    execArgv: FLAGS,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const address = await new Promise<string>((resolve) => {
    child.stdout?.once("data", (data) => resolve(String(data).trim()));
  });
  return { address, stop: () => child.disconnect() };
}

async function play(workload: Workload, address: string): Promise<Round> {
  const figures: Figure[] = [];
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: address };
  for (const contender of CONTENDERS) {
    const run = [...FLAGS, here("worker.ts"), contender, workload.id, address];
    const { stdout } = await promisify(execFile)(process.execPath, run, { env });
    figures.push(FigureSchema.parse(JSON.parse(stdout)));
  }
  return figures;
}

function table({ id, title, steps }: Workload, rounds: readonly Round[]): string {
  const rows = CONTENDERS.map((contender, index) => {
    const over = (pick: (own: Figure, base: Figure) => number): number =>
      median(rounds.flatMap((round) => pairOf(round, index).map(([own, base]) => pick(own, base))));
    const cells = [
      `${over((own) => own.cpuMs / steps).toFixed(3)} ms`,
      over((own, base) => own.cpuMs / base.cpuMs).toFixed(2),
      over((own, base) => own.wallMs / base.wallMs).toFixed(2),
      `${over((own) => own.peakMb).toFixed(0)} MB`,
    ];
    return `| ${contender} | ${cells.join(" | ")} |`;
  });
  const head = [
    "| | CPU per step | CPU, ratio | wall, ratio | peak memory |",
    "|---|---|---|---|---|",
  ];
  return [`**${id}**: ${title}`, "", ...head, ...rows, ""].join("\n");
}

function pairOf(round: Round, index: number): readonly (readonly [own: Figure, base: Figure])[] {
  const [base] = round;
  const own = round[index];
  return base === undefined || own === undefined ? [] : [[own, base]];
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
