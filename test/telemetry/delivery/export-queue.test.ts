// Goal: every span is counted, whatever the exporter or the batch processor does.
// Method: small queues, and exporters that take everything, nothing, or answer oddly.

import { metrics } from "@opentelemetry/api";
import { BatchSpanProcessor, NoopSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import {
  type AnySpanExporter,
  type AnyExportResult,
  type FinishedSpan,
  ExportQueue,
} from "../../../src/telemetry/delivery/export-queue.ts";
import { proves } from "../../harness/proves.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import {
  CHECK_QUEUE,
  CHECK_TIMEOUT,
  Keeper,
  lossWarning,
  lost,
  queueTo,
  smallRun,
  trace,
  unconfirmed,
  warnings,
} from "../../support/telemetry/export-queue-parts.ts";
import { metricRecorder } from "../../support/telemetry/recorded-metrics.ts";
import { wideRun } from "../../support/telemetry/wide-run.ts";

proves(
  ["D671"],
  "warns once with the count of spans lost in a burst beyond the queue",
  async () => {
    const keeper = new Keeper();
    const queue = queueTo(keeper, { maxQueueSize: 60, maxExportBatchSize: 20 });
    trace(queue, wideRun(10, 8));
    await queue.forceFlush();
    const lastError = "the queue of spans was full";
    const counts = { lostSpans: 42, pendingSpans: 0, lastError };
    expect(queue.getCounts()).toEqual({ deliveredSpans: 60, ...counts });
    // The root span of the first run was lost together with its report.
    trace(queue, smallRun());
    await queue.shutdown();
    expect(queue.getCounts()).toEqual({ deliveredSpans: 64, ...counts });
    expect(droppedIn(keeper.taken)).toEqual([42]);
    expect(await warnings()).toEqual([lossWarning(lastError, lost(42), CHECK_QUEUE)]);
  },
);

test("reports each lost span on one run, even if the run that reported it is lost itself", async () => {
  const keeper = new Keeper();
  const queue = queueTo(keeper);
  keeper.answer = (done) => done({ code: 1, error: new Error("disk full") });
  trace(queue, smallRun());
  await queue.forceFlush();
  trace(queue, smallRun());
  await queue.forceFlush();
  keeper.answer = (done) => done({ code: 0 });
  trace(queue, smallRun());
  trace(queue, smallRun());
  await queue.shutdown();

  expect(droppedIn(keeper.taken)).toEqual([8]);
  expect([queue.getCounts(), keeper.shutdowns]).toEqual([
    { deliveredSpans: 8, lostSpans: 8, pendingSpans: 0, lastError: "disk full" },
    1,
  ]);
  expect(await warnings()).toEqual([lossWarning("disk full", lost(4))]);
});

/** Timeouts as OpenTelemetry's exporters over HTTP and gRPC, and `fetch`, report them. */
const TIMEOUTS: Readonly<Record<string, () => Error>> = {
  HTTP: () => new Error("Request timed out"),
  gRPC: () => Object.assign(new Error("4 DEADLINE_EXCEEDED: no answer"), { code: 4 }),
  fetch: () => new DOMException("The operation was aborted due to timeout", "TimeoutError"),
};

for (const [protocol, timeout] of Object.entries(TIMEOUTS)) {
  proves(
    ["D471", "D671"],
    `counts spans whose request over ${protocol} timed out as unconfirmed`,
    async () => {
      const recording = metricRecorder();
      metrics.setGlobalMeterProvider(recording.provider);
      const keeper = new Keeper();
      const queue = queueTo(keeper);
      keeper.answer = (done) => done({ code: 1, error: timeout() });
      trace(queue, smallRun());
      await queue.forceFlush();
      keeper.answer = (done) => done({ code: 1, error: new Error("disk full") });
      trace(queue, smallRun());
      await queue.forceFlush();
      keeper.answer = (done) => done({ code: 0 });
      trace(queue, smallRun());
      await queue.shutdown();
      metrics.disable();
      expect(queue.getCounts()).toEqual({
        deliveredSpans: 4,
        lostSpans: 4,
        unconfirmedSpans: 4,
        pendingSpans: 0,
        lastError: "disk full",
      });
      expect(droppedIn(keeper.taken)).toEqual([4]);
      const readings = await recording.read();
      expect(
        ["dropped", "unconfirmed"].map((kind) => readings.get(`espalier.telemetry.spans.${kind}`)),
      ).toMatchObject([[{ sum: 4 }], [{ sum: 4 }]]);
      expect(await warnings()).toEqual([
        lossWarning(timeout().message, unconfirmed(4), CHECK_TIMEOUT),
      ]);
    },
  );
}

proves(
  ["D673"],
  "holds no more spans than its queue if a program flushes after each run",
  async () => {
    const keeper = new Keeper();
    const held: ((result: AnyExportResult) => void)[] = [];
    keeper.answer = (done) => held.push(done);
    const queue = queueTo(keeper, { maxQueueSize: 16 });
    const flushes: Promise<void>[] = [];
    for (let run = 0; run < 20; run += 1) {
      trace(queue, smallRun());
      flushes.push(queue.forceFlush());
    }
    await flushEventLoop();
    expect(queue.getCounts()).toMatchObject({
      deliveredSpans: 0,
      lostSpans: 80 - 16,
      pendingSpans: 16,
    });
    keeper.answer = (done) => done({ code: 0 });
    for (const done of held) done({ code: 0 });
    await Promise.all(flushes);
    expect(queue.getCounts()).toMatchObject({ deliveredSpans: 16, pendingSpans: 0 });
    trace(queue, smallRun());
    await queue.shutdown();
    expect(queue.getCounts()).toMatchObject({ deliveredSpans: 20, lostSpans: 64, pendingSpans: 0 });
    expect(await warnings()).toHaveLength(1);
  },
);

test("counts spans that the endpoint rejects in a successful response as lost, with its message", async () => {
  const keeper = new Keeper();
  const queue = queueTo(keeper);
  const error = new Error("too old");
  for (const rejectedSpans of [1, 1_000, -1, Number.NaN]) {
    keeper.answer = (done) => done({ code: 0, rejectedSpans, error });
    trace(queue, smallRun());
    await queue.forceFlush();
  }
  expect(queue.getCounts()).toEqual({
    deliveredSpans: 3 + 0 + 4 + 4,
    lostSpans: 1 + 4,
    pendingSpans: 0,
    lastError: "the endpoint refused them (too old)",
  });
  expect(await warnings()).toEqual([lossWarning("the endpoint refused them (too old)", lost(1))]);
});

proves(
  ["D721"],
  "removes control characters of an endpoint's message from the warning",
  async () => {
    const keeper = new Keeper();
    const queue = queueTo(keeper);
    const error = new Error("\u001b[2Jtoo\u009b1A old\r\u202e");
    keeper.answer = (done) => done({ code: 0, rejectedSpans: 1, error });
    trace(queue, smallRun());
    await queue.forceFlush();
    const reason = "the endpoint refused them ( [2Jtoo 1A old  )";
    expect(await warnings()).toEqual([lossWarning(reason, lost(1))]);
  },
);

/** Has no methods at all, not even toString. */
const BARE: unknown = Object.create(null);

const ODD: Readonly<Record<string, readonly [Keeper["answer"], string]>> = {
  throws: [
    () => {
      throw new Error("no such host");
    },
    "no such host",
  ],
  "throws what is no error": [
    () => {
      throw BARE;
    },
    "a value without a text",
  ],
  "fails without a word": [(done) => done({ code: 1 }), "the endpoint did not take them"],
  "fails with a code and no message": [
    (done) => done({ code: 1, error: Object.assign(new Error(), { code: "ECONNREFUSED" }) }),
    "ECONNREFUSED",
  ],
  "fails, and then succeeds": [
    (done) => {
      done({ code: 1, error: new Error("late") });
      done({ code: 0 });
    },
    "late",
  ],
  "is a promise that rejects": [
    () => {
      const fails: unknown = Promise.reject(new Error("backend away"));
      return fails;
    },
    "backend away",
  ],
  "has a status and a page": [
    (done) => {
      const error = Object.assign(new Error("Not Found"), { code: 404, data: " <html>" });
      done({ code: 1, error });
    },
    "status 404 (Not Found) with a web page, so this does not look like an OTLP endpoint",
  ],
};

test.each(Object.entries(ODD))(
  "loses only its own spans if an exporter %s",
  async (_what, [answer, lastError]) => {
    const keeper = new Keeper();
    keeper.answer = answer;
    const queue = queueTo(keeper);
    trace(queue, smallRun());
    await queue.forceFlush();
    await queue.shutdown();
    expect(queue.getCounts()).toEqual({
      deliveredSpans: 0,
      lostSpans: 4,
      pendingSpans: 0,
      lastError,
    });
    expect(await warnings()).toEqual([lossWarning(lastError, lost(4))]);
  },
);

test("counts spans that a processor dropped when it is shut down", async () => {
  const exporter = new Keeper();
  const queue = new ExportQueue({
    exporter,
    processor: () => new NoopSpanProcessor(),
  });
  trace(queue, smallRun());
  await queue.shutdown();
  expect([queue.getCounts(), exporter.taken.length]).toEqual([
    {
      deliveredSpans: 0,
      lostSpans: 4,
      pendingSpans: 0,
      lastError: "the batch processor dropped them",
    },
    0,
  ]);
  expect(await warnings()).toHaveLength(1);
});

const fail = (): never => {
  throw new Error("already over");
};

test("throws nothing if an exporter and a processor throw at their end", async () => {
  const exporter = new Keeper();
  const queue = new ExportQueue({
    exporter: Object.assign(exporter, { forceFlush: fail, shutdown: fail }),
    processor: () => ({ onEnd: fail, forceFlush: fail, shutdown: fail }),
  });
  await queue.forceFlush();
  await queue.shutdown();
  expect(queue.getCounts()).toEqual({ deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 });
});

test("counts spans that end after the shutdown as lost", async () => {
  const queue = queueTo(new Keeper());
  await queue.shutdown();
  trace(queue, smallRun());
  const lastError = "tracing was shut down before";
  expect(queue.getCounts()).toEqual({
    deliveredSpans: 0,
    lostSpans: 4,
    pendingSpans: 0,
    lastError,
  });
  const advice = "Shut tracing down when the last run has ended.";
  expect(await warnings()).toEqual([lossWarning(lastError, lost(4), advice)]);
});

const exporter = new Keeper();
const processor = (counting: AnySpanExporter): BatchSpanProcessor =>
  new BatchSpanProcessor(counting);
/** A value that a program without types may pass. */
class Unfit implements AnySpanExporter {
  declare readonly export: AnySpanExporter["export"];
  declare readonly onEnd: () => void;
  declare readonly forceFlush: () => Promise<void>;
  declare readonly shutdown: () => Promise<void>;
}

const REFUSED: Readonly<Record<string, readonly [() => unknown, string]>> = {
  "an exporter that cannot export": [
    () => new ExportQueue({ exporter: new Unfit(), processor }),
    "Expected ExportQueue.exporter to be an object with export(), shutdown(), got an object. See its TypeScript type.",
  ],
  "a processor that is none": [
    () => new ExportQueue({ exporter, processor: () => new Unfit() }),
    "Expected ExportQueue.processor(…) to be an object with onEnd(), forceFlush(), shutdown(), got an object. See its TypeScript type.",
  ],
  "a queue below nothing": [
    () => new ExportQueue({ exporter, processor, settings: { maxQueueSize: -1 } }),
    "Expected ExportQueue.settings.maxQueueSize to be a whole number from 0 up, got -1. Leave it out for the measured default.",
  ],
  "a batch of a half": [
    () => new ExportQueue({ exporter, processor, settings: { maxExportBatchSize: 0.5 } }),
    "Expected ExportQueue.settings.maxExportBatchSize to be a whole number from 0 up, got 0.5. Leave it out for the measured default.",
  ],
};

test.each(Object.entries(REFUSED))("rejects %s", (_what, [make, message]) => {
  expect(make).toThrow(message);
});

/** Returns the counts of lost spans that the spans of runs report. */
function droppedIn(spans: readonly FinishedSpan[]): readonly unknown[] {
  return spans
    .map((span) => span.attributes["espalier.telemetry.dropped_spans"])
    .filter((said) => said !== undefined);
}
