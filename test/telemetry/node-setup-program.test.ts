// Goal: a program that traces exits by itself whatever its endpoint does, and gets one warning
// about lost spans.
// Method: real processes, and a loopback sink with fault modes.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";
import { z } from "zod";

import type { DeliveryCounts } from "../../src/telemetry/delivery/export-queue.ts";
import { OtlpSink, type SinkMode } from "../support/otlp-sink.ts";

const MODES: readonly SinkMode[] = ["ok", "refuse", "unavailable", "hang", "drip"];

test.concurrent.each(MODES)(
  "exits by itself in mode %s and warns once if spans are lost",
  async (mode) => {
    await using sink = await OtlpSink.open(mode);
    const { code, report, warnings } = await runProgram(sink.endpoint);
    expect([code, warnings]).toEqual([0, mode === "ok" ? 0 : 1]);
    expect(report.deliveredSpans + report.lostSpans + report.pendingSpans).toBe(6);
    expect(sink.spans.length).toBe(mode === "ok" ? 6 : 0);
  },
);

const ReportSchema = z.object({
  deliveredSpans: z.int(),
  lostSpans: z.int(),
  pendingSpans: z.int(),
});

interface ProgramEnd {
  readonly code: number;
  readonly report: DeliveryCounts;
  readonly warnings: number;
}

function runProgram(endpoint: string): Promise<ProgramEnd> {
  const program = fileURLToPath(new URL("../support/telemetry/short-program.ts", import.meta.url));
  const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
  return new Promise((resolve) => {
    execFile(process.execPath, [program], { env }, (error, stdout, stderr) => {
      const warnings = stderr.split("ESPALIER_SPANS_LOST").length - 1;
      resolve({
        code: error === null ? 0 : 1,
        report: ReportSchema.parse(JSON.parse(stdout)),
        warnings,
      });
    });
  });
}
