// `npm run bench`: what a step costs, side by side in one run. Every figure is a fresh process against one local server; rounds are
// interleaved, and ratios are taken within a round, so that a machine that is slow for a while is slow for all. `npm run bench -- W1 spawn`
// measures those workloads only.

import { execFile, fork } from "node:child_process";
import { cpus } from "node:os";
import { promisify } from "node:util";

import { z } from "zod";

import { JOURNAL_RUNS, journalFigure, journalTable, type JournalFigure } from "./journal-table.ts";
import { burstTable, overheadTable, TRACED_CONTENDERS } from "./spans-table.ts";

const FigureSchema = z.object({ cpuMs: z.number(), wallMs: z.number(), peakMb: z.number() });
type Figure = z.infer<typeof FigureSchema>;

const CONTENDERS = ["openai-loop", "espalier", "espalier, traced"] as const;
const WORKLOADS = [
  { id: "W1", title: "one agent, 50 tool steps", steps: 51 },
  { id: "W2", title: "100 children × 3 steps at once", steps: 302 },
] as const;
type Workload = (typeof WORKLOADS)[number];
/** The figures of one round, in the order of the contenders. */
type Round<Of = Figure> = readonly Of[];

const WaitingSchema = z.object({
  heapKb: z.number(),
  rssKb: z.number(),
  longestBlockMs: z.number(),
});
type Waiting = z.infer<typeof WaitingSchema>;

const SpawnSchema = z.object({
  cpuUs: z.number(),
  heapKb: z.number(),
  longestBlockMs: z.number(),
});
type Spawn = z.infer<typeof SpawnSchema>;
const SHAPES = [
  { shape: "by hundreds", title: "one root, replies of 100 delegations", contender: "espalier" },
  {
    shape: "by hundreds",
    title: "the same, traced",
    contender: "espalier, traced",
  },
  { shape: "at once", title: "one root, all in one reply", contender: "espalier" },
  { shape: "by tens", title: "ten below every agent", contender: "espalier" },
] as const;
const SIZES = [100, 1_000, 10_000] as const;

const ROUNDS = Number(process.env["ROUNDS"] ?? 5);
const FLAGS = [
  "--conditions=@espalier/source",
  "--disable-warning=ExperimentalWarning",
  "--expose-gc",
];
const asked = new Set(process.argv.slice(2));
for (const id of asked)
  if (!["W1", "W2", "W4", "spawn", "journal", "spans"].includes(id))
    throw new Error(`Expected W1, W2, W4, spawn, journal or spans, got ${id}.`);
const isAsked = (id: string): boolean => asked.size === 0 || asked.has(id);

const here = (file: string): string => new URL(file, import.meta.url).pathname;

const server = await startServer();
try {
  const machine = `Node ${process.version}, ${cpus().length} cores`;
  console.log(`${machine}, ${ROUNDS} rounds; medians; ratios within a round to openai-loop\n`);
  for (const workload of WORKLOADS) {
    if (!isAsked(workload.id)) continue;
    const play = (): Promise<Round> => playAll(workload.id, server.address, FigureSchema);
    console.log(table(workload, await inRounds(play)));
  }
  if (isAsked("W4")) {
    const play = (): Promise<Round<Waiting>> => playAll("W4", server.address, WaitingSchema);
    console.log(waitingTable(await inRounds(play)));
  }
  if (isAsked("spawn")) console.log(spawnTable(await inRounds(() => spawnAll(server.address))));
  if (isAsked("journal"))
    console.log(journalTable(await inRounds(() => journalAll(server.address)), median));
  if (isAsked("spans")) {
    console.log(await burstTable(FLAGS));
    for (const workload of WORKLOADS) {
      const play = (): Promise<Round> =>
        playAll(workload.id, server.address, FigureSchema, TRACED_CONTENDERS);
      console.log(overheadTable(workload, await inRounds(play), median));
    }
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

async function inRounds<Of>(play: () => Promise<Of>): Promise<readonly Of[]> {
  const rounds: Of[] = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await play());
  return rounds;
}

async function playAll<Of>(
  workload: string,
  address: string,
  schema: z.ZodType<Of>,
  contenders: readonly string[] = CONTENDERS,
): Promise<Round<Of>> {
  const figures: Of[] = [];
  for (const contender of contenders)
    figures.push(
      schema.parse(await measured("worker.ts", [contender, workload, address], address)),
    );
  return figures;
}

/** The figures of one round, in the order of shapes and, within each, of sizes. */
async function spawnAll(address: string): Promise<Round<Spawn>> {
  const figures: Spawn[] = [];
  for (const { shape, contender } of SHAPES) {
    for (const size of SIZES) {
      const run = [contender, shape, String(size)];
      figures.push(SpawnSchema.parse(await measured("spawn-worker.ts", run, address)));
    }
  }
  return figures;
}

async function journalAll(address: string): Promise<Round<JournalFigure>> {
  const figures: JournalFigure[] = [];
  for (const run of JOURNAL_RUNS)
    figures.push(journalFigure(await measured("journal-worker.ts", run, address)));
  return figures;
}

async function measured(file: string, run: readonly string[], address: string): Promise<unknown> {
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: address };
  const { stdout } = await promisify(execFile)(process.execPath, [...FLAGS, here(file), ...run], {
    env,
  });
  return JSON.parse(stdout);
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

function waitingTable(rounds: readonly Round<Waiting>[]): string {
  const rows = CONTENDERS.map((contender, index) => {
    const ratio = (of: keyof Waiting): string =>
      median(rounds.flatMap((round) => ratioOf(round[index]?.[of], round[0]?.[of]))).toFixed(2);
    const value = (of: keyof Waiting): number =>
      median(rounds.flatMap((round) => round[index]?.[of] ?? []));
    const cells = [
      `${value("heapKb").toFixed(1)} KB`,
      ratio("heapKb"),
      `${value("rssKb").toFixed(0)} KB`,
      `${value("longestBlockMs").toFixed(0)} ms`,
      ratio("longestBlockMs"),
    ];
    return `| ${contender} | ${cells.join(" | ")} |`;
  });
  const head = [
    "| | heap per agent | heap, ratio | RSS per agent | longest block | block, ratio |",
    "|---|---|---|---|---|---|",
  ];
  return ["**W4**: 1,000 agents that wait for their model at once", "", ...head, ...rows, ""].join(
    "\n",
  );
}

/** Ratios are taken within a round, to the smallest size of the same shape. */
function spawnTable(rounds: readonly Round<Spawn>[]): string {
  const rows = SHAPES.flatMap(({ title }, row) =>
    SIZES.map((size, column) => {
      const at = row * SIZES.length + column;
      const value = (of: keyof Spawn): number =>
        median(rounds.flatMap((round) => round[at]?.[of] ?? []));
      const ratio = median(
        rounds.flatMap((round) => ratioOf(round[at]?.cpuUs, round[row * SIZES.length]?.cpuUs)),
      );
      const cells = [
        size.toLocaleString("en"),
        `${value("cpuUs").toFixed(0)} µs`,
        ratio.toFixed(2),
        `${value("heapKb").toFixed(1)} KB`,
        `${value("longestBlockMs").toFixed(0)} ms`,
      ];
      return `| ${title} | ${cells.join(" | ")} |`;
    }),
  );
  const head = [
    "| | subagents | CPU per spawn | ratio to 100 | heap per live agent | longest block |",
    "|---|---|---|---|---|---|",
  ];
  const title = "**spawn**: from birth to settlement, models in the same process";
  return [title, "", ...head, ...rows, ""].join("\n");
}

function ratioOf(own: number | undefined, base: number | undefined): readonly number[] {
  return own === undefined || base === undefined ? [] : [own / base];
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
