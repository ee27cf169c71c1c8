// spans: what becomes of spans that end in one burst, by how the endpoint is. Counted once, not timed against each other.

import { execFile } from "node:child_process";
import { performance } from "node:perf_hooks";

import { z } from "zod";

import { markdownTable } from "../figures/markdown-table.ts";
import { command, startService } from "../harness/processes.ts";

/** Of each agent but the root. */
const SPANS_PER_AGENT = 20;

const BACKENDS = [
  { mode: "ok", title: "takes them", isComplete: true },
  { mode: "slow", title: "answers in 200 ms", isComplete: true },
  { mode: "hang", title: "never answers", isComplete: false },
  { mode: "refuse", title: "refuses connections", isComplete: false },
  { mode: "unavailable", title: "answers 503", isComplete: false },
] as const;
type Backend = (typeof BACKENDS)[number];
const WAYS = { default: "SDK as it comes", espalier: "`setUpNodeTracing`" } as const;
const PROGRAM = "../../test/support/telemetry/burst-program.ts";
const PROCESS_MS = 60_000;

const ArrivedSchema = z.object({
  spans: z.int(),
  /** Of these, further ones of the run and of agents that continue in a further trace. */
  again: z.int(),
  orphans: z.int(),
  runs: z.int(),
  agents: z.int(),
});

/** What became of one burst, and how many spans and agents it had. */
interface Burst extends z.infer<typeof ArrivedSchema> {
  /** From the last span to the end of the process. */
  readonly exitMs: number;
  readonly exitCode: number;
  readonly allSpans: number;
  readonly allAgents: number;
}

/** Throws if `setUpNodeTracing` loses a span though the endpoint takes them. */
export async function burstTable(agents: number): Promise<string> {
  const rows: string[][] = [];
  for (const backend of BACKENDS)
    for (const [way, title] of Object.entries(WAYS)) {
      const became = await burst(way, backend.mode, agents);
      if (way === "espalier") check(backend, became);
      rows.push([backend.title, title, ...cells(became)]);
    }
  const head = "endpoint||received|lost|orphans|root|agents|exit after|exit code".split("|");
  const title = `**spans**: ${agents.toLocaleString("en")} agents × ${SPANS_PER_AGENT} spans that end in one burst`;
  return `${title}\n\n${markdownTable([head, ...rows])}`;
}

function check({ title, isComplete }: Backend, became: Burst): void {
  const { spans, allSpans, orphans, exitCode } = became;
  if (exitCode === 0 && (!isComplete || (spans === allSpans && orphans === 0))) return;
  throw new Error(
    `Expected setUpNodeTracing to end with code 0 at an endpoint that ${title}, and all ${allSpans} spans to arrive if it ` +
      `takes them; got code ${exitCode}, ${spans} spans and ${orphans} orphans.`,
  );
}

function cells(became: Burst): readonly string[] {
  const { spans, allSpans, orphans, runs, agents, allAgents, exitMs, exitCode } = became;
  return [
    spans.toLocaleString("en"),
    (allSpans - spans).toLocaleString("en"),
    orphans.toLocaleString("en"),
    runs > 0 ? "yes" : "no",
    `${agents.toLocaleString("en")} of ${allAgents.toLocaleString("en")}`,
    `${(exitMs / 1_000).toFixed(1)} s`,
    String(exitCode),
  ];
}

async function burst(way: string, mode: Backend["mode"], agents: number): Promise<Burst> {
  using sink = await startService("span-sink.ts", mode);
  const ending = await burstProcess(command(PROGRAM, way, String(agents)), sink.url);
  const { spans, again, ...arrived } = ArrivedSchema.parse(await sink.report());
  // Two of the run: its own, and that of the root.
  const allSpans = 2 + agents * SPANS_PER_AGENT;
  return { ...arrived, ...ending, again, spans: spans - again, allSpans, allAgents: agents + 1 };
}

function burstProcess(
  program: readonly string[],
  endpoint: string,
): Promise<Pick<Burst, "exitMs" | "exitCode">> {
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
  return new Promise((resolve) => {
    let endedAtMs = performance.now();
    const child = execFile(process.execPath, program, { env, timeout: PROCESS_MS });
    child.stdout?.once("data", () => {
      endedAtMs = performance.now();
    });
    child.on("close", (code) =>
      resolve({ exitMs: performance.now() - endedAtMs, exitCode: code ?? -1 }),
    );
  });
}
