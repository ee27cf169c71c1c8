// Goal: 1,000 agents with 20 spans each that end at once are all exported. An endpoint that hangs,
// refuses or is busy costs only spans: the program exits by itself, in time, with code 0.
// Method: the burst in its own process, against a loopback sink with fault modes.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

import { afterEach, expect } from "vitest";
import { z } from "zod";

import type { DeliveryCounts } from "../../src/telemetry/delivery/export-queue.ts";
import { proves } from "../harness/proves.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { OtlpSink, type SinkMode } from "../support/otlp-sink.ts";

/** After every 5,000 spans the run continues in a further trace, which has its own root. */
const FURTHER_TRACES = 3;
const SPANS = 20_002 + FURTHER_TRACES;

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
  readonly report: DeliveryCounts;
  readonly stderr: string;
}

function burst(sink: OtlpSink): Promise<Ending> {
  const program = fileURLToPath(new URL("../support/telemetry/burst-program.ts", import.meta.url));
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

proves(["D670"], "exports each span of the burst once", async () => {
  await using sink = await OtlpSink.open();
  const { code, report, stderr } = await burst(sink);
  const counts = { lostSpans: 0, unconfirmedSpans: 0, pendingSpans: 0 };
  expect([code, report, stderr]).toEqual([0, { deliveredSpans: SPANS, ...counts }, ""]);
  const ids = new Set(sink.spans.map(({ spanId }) => spanId));
  expect([sink.spans.length, ids.size, sink.orphans()]).toEqual([SPANS, SPANS, []]);
});

for (const mode of ["hang", "drip", "refuse", "unavailable"] satisfies readonly SinkMode[])
  proves(
    ["D672"],
    `exits by itself with code 0 and one warning if the endpoint is in mode ${mode}`,
    async () => {
      await using sink = await OtlpSink.open(mode);
      const { code, report, stderr } = await burst(sink);
      const { deliveredSpans, lostSpans, unconfirmedSpans = 0, pendingSpans } = report;
      expect([code, deliveredSpans, pendingSpans]).toEqual([0, 0, 0]);
      const isSilent = mode === "hang" || mode === "drip";
      // Two batches were sent and not answered.
      expect([lostSpans + unconfirmedSpans, unconfirmedSpans]).toEqual([
        SPANS,
        isSilent ? 2 * 512 : 0,
      ]);
      expect(stderr.split("ESPALIER_").length - 1).toBe(1);
      expect(stderr).toContain(`Spans lost: ${lostSpans}.`);
      expect(stderr).not.toMatch(/unhandled|reject/i);
    },
  );
