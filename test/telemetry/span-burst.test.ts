// Goal: 1,000 agents with 20 spans each that end at once find room, and leave in order of what matters; an endpoint that hangs,
// refuses or is busy costs spans, never the program: it ends by itself, in time, with code 0.
// Method: an exporter in this process that answers when it is let; then the burst in a process of its own, against a loopback sink
// with fault modes. No test measures time. Whether a real endpoint gets the whole burst in time hangs on the machine: the bench counts it.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

import { afterEach, expect, test } from "vitest";
import { z } from "zod";

import type {
  AnySpanExporter,
  AnyExportResult,
  FinishedSpan,
} from "../../src/telemetry/delivery/any-sdk.ts";
import { setUpNodeTracing, type FlushReport } from "../../src/telemetry/node-setup.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { latch, settled } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { OtlpSink, type SinkMode } from "../support/otlp-sink.ts";
import { placeAll } from "./recorded-spans.ts";
import { wideRun } from "./wide-run.ts";

/** Every 5,000 spans the run continues in a further trace, which has a root of its own. */
const FURTHER_TRACES = 3;
const SPANS = 20_002 + FURTHER_TRACES;
const STRUCTURE = 2 + 1_000 * 2 + FURTHER_TRACES;

afterEach(() => {
  takeWarnings();
});

const ReportSchema = z.object({
  deliveredSpans: z.int(),
  lostSpans: z.int(),
  unconfirmedSpans: z.int().default(0),
  pendingSpans: z.int(),
});

interface Ending {
  readonly code: number | null;
  readonly report: FlushReport;
  readonly stderr: string;
}

function burst(sink: OtlpSink): Promise<Ending> {
  const program = fileURLToPath(new URL("burst-program.ts", import.meta.url));
  const bound = { OTEL_EXPORTER_OTLP_TIMEOUT: "2000" };
  const env = { ...process.env, ...bound, OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint };
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

/** An exporter that answers what it has taken when it is opened, and at once from then on. */
class GatedExporter implements AnySpanExporter {
  readonly #latch = latch();
  readonly batches: FinishedSpan[][] = [];

  export(spans: FinishedSpan[], done: (result: AnyExportResult) => void): void {
    this.batches.push(spans);
    void this.#latch.opened.then(() => done({ code: 0 }));
  }

  open(): void {
    this.#latch.open();
  }

  async shutdown(): Promise<void> {}
}

const nameOf = (span: FinishedSpan): string => ("name" in span ? String(span.name) : "");
const isStructure = (span: FinishedSpan): boolean => /^(invoke|spawn)/.test(nameOf(span));
const idOf = (span: FinishedSpan): string => span.spanContext().spanId;

test("the whole burst finds room: few batches at once, structure first, none lost", async () => {
  const exporter = new GatedExporter();
  // Its time stands still: nothing is late, however busy the machine is.
  const node = setUpNodeTracing({ exporter, clock: new ManualClock() });
  placeAll(node.tracing, wideRun(1_000, 18).drafts);
  const shutdown = node.shutdown();
  while (exporter.batches.length < 8) await new Promise((resolve) => setImmediate(resolve));
  await settled();
  const inFlight = exporter.batches.length;
  exporter.open();
  expect(await shutdown).toEqual({ deliveredSpans: SPANS, lostSpans: 0, pendingSpans: 0 });
  const spans = exporter.batches.flat();
  // All that holds the tree together is in the first eight.
  const structure = exporter.batches.slice(0, 8).flat().filter(isStructure).length;
  expect([inFlight, new Set(spans.map(idOf)).size, structure]).toEqual([8, SPANS, STRUCTURE]);
});

test.each(["hang", "drip", "refuse", "unavailable"] satisfies readonly SinkMode[])(
  "with an endpoint in mode %s the program ends by itself, with code 0 and one warning of each kind",
  async (mode) => {
    await using sink = await OtlpSink.open(mode);
    const { code, report, stderr } = await burst(sink);
    const { deliveredSpans, lostSpans, unconfirmedSpans = 0, pendingSpans } = report;
    const missing = lostSpans + unconfirmedSpans + pendingSpans;
    expect([code, deliveredSpans, missing]).toEqual([0, 0, SPANS]);
    const isSilent = mode === "hang" || mode === "drip";
    expect(unconfirmedSpans > 0).toBe(isSilent);
    expect(stderr.split("ESPALIER_SPANS_UNCONFIRMED").length - 1).toBe(isSilent ? 1 : 0);
    expect(stderr.split("ESPALIER_SPANS_LOST").length - 1).toBe(1);
    expect(stderr).not.toMatch(/unhandled|reject/i);
  },
);
