// Queues, exporters and warnings for the tests of `ExportQueue`.

import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import {
  type AnySpanExporter,
  type AnyExportResult,
  type BatchSettings,
  type FinishedSpan,
  ExportQueue,
} from "../../../src/telemetry/delivery/export-queue.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { placeAll } from "./recorded-spans.ts";
import { RunScript } from "./run-script.ts";

/** Accepts all spans, or answers as the test says. */
export class Keeper implements AnySpanExporter {
  readonly taken: FinishedSpan[] = [];
  shutdowns = 0;
  answer: (done: (result: AnyExportResult) => void) => unknown = (done) => done({ code: 0 });

  export(spans: FinishedSpan[], done: (result: AnyExportResult) => void): unknown {
    return this.answer((result) => {
      if (result.code === 0) this.taken.push(...spans);
      done(result);
    });
  }

  async shutdown(): Promise<void> {
    this.shutdowns += 1;
  }
}

export function queueTo(
  exporter: AnySpanExporter,
  settings: Partial<BatchSettings> = {},
  clock?: ManualClock,
): ExportQueue {
  return new ExportQueue({
    exporter,
    processor: (batches, given) => new BatchSpanProcessor(batches, given),
    settings,
    ...(clock === undefined ? {} : { clock }),
  });
}

export function trace(queue: ExportQueue, { drafts }: RunScript): void {
  const provider = new NodeTracerProvider({ spanProcessors: [queue] });
  placeAll(openTelemetry({ tracer: provider.getTracer("test") }), drafts);
}

/** Creates a run with two inner spans and two leaves. */
export function smallRun(): RunScript {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.asks();
  run.root.hears();
  run.root.calls("call_1", "search");
  run.root.gets("call_1", "search");
  run.root.ended();
  run.ended();
  return run;
}

export const lossWarning = (reason: string, counts: string, advice = CHECK_ENDPOINT): string =>
  `EspalierWarning: Expected the trace endpoint to take all spans, got: ${reason}. ${counts} ` +
  `Traces have gaps; runs are not affected. ${advice} ` +
  "Further losses are counted, without another warning.";
export const lost = (spans: number): string => `Spans lost: ${spans}.`;
export const unconfirmed = (spans: number): string =>
  `Spans that the endpoint may have stored: ${spans}.`;
const CHECK_ENDPOINT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT) and the headers (OTEL_EXPORTER_OTLP_HEADERS), and " +
  "that it takes OTLP over HTTP.";
export const CHECK_TIMEOUT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), or allow more time (OTEL_EXPORTER_OTLP_TIMEOUT).";
export const CHECK_QUEUE =
  "Sample (OTEL_TRACES_SAMPLER), or let more spans wait (OTEL_BSP_MAX_QUEUE_SIZE or maxQueueSize).";

export async function warnings(): Promise<readonly string[]> {
  await flushEventLoop();
  return takeWarnings();
}
