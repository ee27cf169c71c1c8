// The part of the bench that has to do with spans: what becomes of a burst by how the endpoint is, and what tracing adds to a step.

import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { performance } from "node:perf_hooks";

import { z } from "zod";

/** What a burst has: two spans of the run, and 20 of each of 1,000 agents. */
const SPANS = 20_002;
const AGENTS = 1_001;

const BACKENDS = {
  ok: "takes them",
  slow: "answers in 200 ms",
  hang: "never answers",
  refuse: "refuses connections",
  unavailable: "answers 503",
} as const;
const WAYS = { default: "SDK as it comes", espalier: "`setUpNodeTracing`" } as const;
const PROCESS_MS = 60_000;

const ArrivedSchema = z.object({
  received: z.int(),
  orphans: z.int(),
  runs: z.int(),
  agents: z.int(),
});

/** What became of one burst. */
interface Burst extends z.infer<typeof ArrivedSchema> {
  /** From the last span to the end of the process. */
  readonly exitMs: number;
  readonly exitCode: number;
}

/** Bursts are counted, not timed against each other: each is done once. */
export async function burstTable(flags: readonly string[]): Promise<string> {
  const rows: string[] = [];
  for (const [mode, backend] of Object.entries(BACKENDS))
    for (const [way, title] of Object.entries(WAYS))
      rows.push(burstRow(`${backend} | ${title}`, await burst(way, mode, flags)));
  const head = [
    "| endpoint | | received | lost | orphans | root | agents | exit after | exit code |",
    "|---|---|---|---|---|---|---|---|---|",
  ];
  const title = `**spans**: 1,000 agents × 20 spans that end in one burst, ${SPANS.toLocaleString("en")} in all`;
  return [title, "", ...head, ...rows, ""].join("\n");
}

function burstRow(
  title: string,
  { received, orphans, runs, agents, exitMs, exitCode }: Burst,
): string {
  const cells = [
    received.toLocaleString("en"),
    (SPANS - received).toLocaleString("en"),
    orphans.toLocaleString("en"),
    runs === 1 ? "yes" : "no",
    `${agents.toLocaleString("en")} of ${AGENTS.toLocaleString("en")}`,
    `${(exitMs / 1_000).toFixed(1)} s`,
    String(exitCode),
  ];
  return `| ${title} | ${cells.join(" | ")} |`;
}

async function burst(way: string, mode: string, flags: readonly string[]): Promise<Burst> {
  const sink = fork(new URL("span-sink.ts", import.meta.url).pathname, [mode], {
    execArgv: [...flags],
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const address = await new Promise<string>((resolve) => {
    sink.stdout?.once("data", (data) => resolve(String(data).trim()));
  });
  const ending = await burstProcess(way, address, flags);
  sink.send("report");
  const said: readonly unknown[] = await once(sink, "message");
  sink.disconnect();
  return { ...ArrivedSchema.parse(said[0]), ...ending };
}

function burstProcess(
  way: string,
  endpoint: string,
  flags: readonly string[],
): Promise<Pick<Burst, "exitMs" | "exitCode">> {
  const program = new URL("../test/telemetry/burst-program.ts", import.meta.url).pathname;
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
  return new Promise((resolve) => {
    let endedAtMs = performance.now();
    const options = { env, timeout: PROCESS_MS };
    const child = execFile(process.execPath, [...flags, program, way], options);
    child.stdout?.once("data", () => {
      endedAtMs = performance.now();
    });
    child.on("close", (code) =>
      resolve({ exitMs: performance.now() - endedAtMs, exitCode: code ?? -1 }),
    );
  });
}

/** Who does the work of a step, from no tracing to all of it. The first is what the others are compared with. */
export const TRACED_CONTENDERS = [
  "espalier",
  "espalier, no SDK",
  "espalier, traced",
  "espalier, content",
] as const;

interface StepFigure {
  readonly cpuMs: number;
  readonly wallMs: number;
}

interface StepWorkload {
  readonly id: string;
  readonly title: string;
  readonly steps: number;
}

/** What tracing adds to a step. Shares are taken within a round. */
export function overheadTable(
  { id, title, steps }: StepWorkload,
  rounds: readonly (readonly StepFigure[])[],
  median: (values: readonly number[]) => number,
): string {
  const rows = TRACED_CONTENDERS.map((contender, index) => {
    const over = (pick: (own: StepFigure, base: StepFigure) => number): number =>
      median(
        rounds.flatMap((round) => {
          const [own, base] = [round[index], round[0]];
          return own === undefined || base === undefined ? [] : [pick(own, base)];
        }),
      );
    const added = over((own, base) => (own.cpuMs - base.cpuMs) / steps) * 1_000;
    const share = over((own, base) => own.cpuMs / base.cpuMs - 1) * 100;
    const wall = over((own, base) => own.wallMs / base.wallMs - 1) * 100;
    const cells = [
      `${over((own) => own.cpuMs / steps).toFixed(3)} ms`,
      `${added.toFixed(0)} µs`,
      `${share.toFixed(0)} %`,
      `${wall.toFixed(0)} %`,
    ];
    return `| ${contender} | ${cells.join(" | ")} |`;
  });
  const head = [
    "| | CPU per step | CPU, added | CPU, share added | wall, share added |",
    "|---|---|---|---|---|",
  ];
  return [`**${id}**: ${title}`, "", ...head, ...rows, ""].join("\n");
}
