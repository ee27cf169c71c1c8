// Goal: 1,000 agents with 20 spans each that end at once arrive whole, in order of what matters; an
// endpoint that is slow, hangs, refuses or is busy costs spans, never the program: it ends by itself,
// in time, with code 0.
// Method: the burst in a process of its own, against a loopback sink with fault modes. Slow answers
// wait for a gate, or come in turns: no test measures time.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

import { afterEach, expect, test } from "vitest";
import { z } from "zod";

import { setUpNodeTracing, type FlushReport } from "../../src/telemetry/node-setup.ts";
import { gate } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { OtlpSink, type SinkMode } from "../support/otlp-sink.ts";
import { placeAll } from "./recorded-spans.ts";
import { wideRun } from "./wide-run.ts";

const SPANS = 20_002;
const STRUCTURE = 2 + 1_000 * 2;

afterEach(() => {
  takeWarnings();
});

const ReportSchema = z.object({
  deliveredSpans: z.int(),
  lostSpans: z.int(),
  pendingSpans: z.int(),
});

interface Ending {
  readonly code: number | null;
  readonly report: FlushReport;
  readonly stderr: string;
}

function burst(sink: OtlpSink): Promise<Ending> {
  const program = fileURLToPath(new URL("burst-program.ts", import.meta.url));
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [program, "espalier"], { env, timeout: 60_000 });
    const said = { stdout: "", stderr: "" };
    child.stdout?.on("data", (data) => (said.stdout += String(data)));
    child.stderr?.on("data", (data) => (said.stderr += String(data)));
    child.on("close", (code) => {
      const report = said.stdout.split("\n")[1] ?? "";
      resolve({ code, report: ReportSchema.parse(JSON.parse(report)), stderr: said.stderr });
    });
  });
}

const structureOf = (sink: OtlpSink): number =>
  sink.spans.filter(({ name }) => /^invoke|SpawnSubagent/.test(name)).length;

test("the whole burst arrives: none lost, no orphan", async () => {
  await using sink = await OtlpSink.open();
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  placeAll(node.tracing, wideRun(1_000, 18).drafts);
  expect(await node.shutdown({ timeoutMs: 25_000 })).toEqual({
    deliveredSpans: SPANS,
    lostSpans: 0,
    pendingSpans: 0,
  });
  expect([sink.spans.length, sink.orphans(), structureOf(sink)]).toEqual([SPANS, [], STRUCTURE]);
});

test("a slow endpoint has few batches at once, and gets them all", async () => {
  await using sink = await OtlpSink.open();
  const firstAnswer = gate();
  await sink.setMode("slow", () => firstAnswer.opened);
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  placeAll(node.tracing, wideRun(1_000, 18).drafts);
  const shutdown = node.shutdown({ timeoutMs: 25_000 });
  while (sink.requests.length < 8) await new Promise((resolve) => setImmediate(resolve));
  const inFlight = sink.requests.length;
  firstAnswer.open();
  expect(await shutdown).toEqual({ deliveredSpans: SPANS, lostSpans: 0, pendingSpans: 0 });
  expect([inFlight, sink.orphans(), structureOf(sink)]).toEqual([8, [], STRUCTURE]);
});

test.each(["hang", "drip", "refuse", "unavailable"] satisfies readonly SinkMode[])(
  "with an endpoint in mode %s the program ends by itself, with code 0 and one warning",
  async (mode) => {
    await using sink = await OtlpSink.open(mode);
    const { code, report, stderr } = await burst(sink);
    const { deliveredSpans, lostSpans, pendingSpans } = report;
    expect([code, deliveredSpans, lostSpans + pendingSpans]).toEqual([0, 0, SPANS]);
    expect(stderr.split("ESPALIER_SPANS_LOST").length - 1).toBe(1);
    expect(stderr).not.toMatch(/unhandled|reject/i);
  },
);
