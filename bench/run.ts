// `npm run bench`: what a step costs, side by side in one run. Every figure is a fresh process against one local server; rounds are
// interleaved, and ratios are taken within a round, so that a machine that is slow for a while is slow for all.

import { execFile, fork } from "node:child_process";
import { cpus } from "node:os";
import { promisify } from "node:util";

import { z } from "zod";

const FigureSchema = z.object({ cpuMs: z.number(), wallMs: z.number(), peakMb: z.number() });
type Figure = z.infer<typeof FigureSchema>;

const CONTENDERS = ["openai-loop", "espalier", "espalier, traced"] as const;
const WORKLOADS = { W1: "one agent, 50 tool steps", W2: "100 children × 3 steps at once" } as const;
const STEPS = { W1: 51, W2: 302 } as const;
const ROUNDS = Number(process.env["ROUNDS"] ?? 5);

const here = (file: string): string => new URL(file, import.meta.url).pathname;
const FLAGS = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];

async function startServer(): Promise<{ readonly address: string; stop(): void }> {
  const server = fork(here("server.ts"), { execArgv: FLAGS, stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const address = await new Promise<string>((resolve) => server.stdout?.once("data", (data) => resolve(String(data).trim())));
  return { address, stop: () => void server.disconnect() };
}

async function measure(contender: string, workload: string, address: string): Promise<Figure> {
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: address };
  const arguments_ = [...FLAGS, here("worker.ts"), contender, workload, address];
  const { stdout } = await promisify(execFile)(process.execPath, arguments_, { env });
  return FigureSchema.parse(JSON.parse(stdout));
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

const server = await startServer();
try {
  console.log(`Node ${process.version}, ${cpus().length} cores, ${ROUNDS} rounds; medians; ratios within a round to openai-loop\n`);
  for (const workload of ["W1", "W2"] as const) {
    const rounds: Figure[][] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const figures: Figure[] = [];
      for (const contender of CONTENDERS) figures.push(await measure(contender, workload, server.address));
      rounds.push(figures);
    }
    console.log(`${workload}: ${WORKLOADS[workload]}`);
    console.log("                      CPU per step   ratio   wall ratio   peak memory");
    for (const [index, contender] of CONTENDERS.entries()) {
      const of = (pick: (figure: Figure, base: Figure) => number): number =>
        median(rounds.flatMap((round) => (round[index] && round[0] ? [pick(round[index], round[0])] : [])));
      const cells = [
        `${of((figure) => figure.cpuMs / STEPS[workload]).toFixed(3)} ms`.padStart(14),
        of((figure, base) => figure.cpuMs / base.cpuMs).toFixed(2).padStart(7),
        of((figure, base) => figure.wallMs / base.wallMs).toFixed(2).padStart(12),
        `${of((figure) => figure.peakMb).toFixed(0)} MB`.padStart(13),
      ];
      console.log(`${contender.padEnd(20)}${cells.join(" ")}`);
    }
    console.log("");
  }
} finally {
  server.stop();
}
