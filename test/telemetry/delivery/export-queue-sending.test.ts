// Goal: a slow endpoint receives all spans, and an endpoint that is gone delays nothing.
// Method: a manual clock, and an exporter that answers by hand, late or never.

import { context, trace as traceApi } from "@opentelemetry/api";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { ManualClock } from "../../../src/testing/manual-clock.ts";
import type {
  AnyExportResult,
  DeliveryCounts,
} from "../../../src/telemetry/delivery/export-queue.ts";
import { proves } from "../../harness/proves.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import {
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
import { wideRun } from "../../support/telemetry/wide-run.ts";

const SUCCESS: AnyExportResult = { code: 0 };
const REFUSED_BY_STATUS: AnyExportResult = {
  code: 1,
  error: Object.assign(new Error("Bad Request"), { code: 400 }),
};
const UNREACHABLE: AnyExportResult = {
  code: 1,
  error: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
};

/** A queue with batches of one span and an exporter that answers by hand. */
class ManualExport {
  readonly clock = new ManualClock();
  readonly aborted: number[] = [];
  exported = 0;
  #done: (result: AnyExportResult) => void = () => {};
  readonly queue = queueTo(
    {
      export: (_spans, done) => {
        this.exported += 1;
        this.#done = done;
      },
      shutdown: () => Promise.resolve(),
      abort: () => this.aborted.push(this.exported),
    },
    { maxExportBatchSize: 1, exportTimeoutMillis: 1_000 },
    this.clock,
  );

  /** Ends four spans, and flushes them as four batches. */
  flush(): Promise<void> {
    trace(this.queue, smallRun());
    return this.queue.forceFlush();
  }

  async answer(...results: readonly AnyExportResult[]): Promise<void> {
    for (const result of results) {
      this.#done(result);
      await flushEventLoop();
    }
  }

  async passTime(ms: number): Promise<void> {
    this.clock.advance(ms);
    await flushEventLoop();
  }
}

test("sends one batch at a time, even while two flushes wait", async () => {
  const manual = new ManualExport();
  const flushed = Promise.all([manual.flush(), manual.flush()]);
  const exported: number[] = [];
  for (let batch = 0; batch < 8; batch += 1) {
    await flushEventLoop();
    exported.push(manual.exported);
    await manual.answer(SUCCESS);
  }
  await flushed;
  expect([exported, manual.clock.pendingTimers]).toEqual([[1, 2, 3, 4, 5, 6, 7, 8], 0]);
});

test("abandons the waiting batches after two consecutive failures, counted anew after a success", async () => {
  const manual = new ManualExport();
  const flushed = Promise.all([manual.flush(), manual.flush()]);
  await manual.answer(REFUSED_BY_STATUS, SUCCESS, REFUSED_BY_STATUS, REFUSED_BY_STATUS);
  await flushed;
  const lastError = "given up after status 400 (Bad Request)";
  const counts = { deliveredSpans: 1, lostSpans: 7, pendingSpans: 0, lastError };
  expect([manual.exported, manual.queue.getCounts()]).toEqual([4, counts]);
  const again = manual.flush();
  await manual.answer(SUCCESS, SUCCESS, SUCCESS, SUCCESS);
  await again;
  expect(manual.queue.getCounts()).toEqual({ ...counts, deliveredSpans: 5 });
  expect(await warnings()).toEqual([lossWarning(lastError, lost(7))]);
});

test("abandons the waiting batches after a failure that the exporter has retried", async () => {
  const manual = new ManualExport();
  const flushed = manual.flush();
  await manual.answer(UNREACHABLE);
  await flushed;
  const lastError = "given up after connect ECONNREFUSED";
  expect([manual.exported, manual.queue.getCounts()]).toEqual([
    1,
    { deliveredSpans: 0, lostSpans: 4, pendingSpans: 0, lastError },
  ]);
  expect(await warnings()).toEqual([lossWarning(lastError, lost(4))]);
});

proves(
  ["D471", "D671"],
  "abandons an endpoint after two timeouts and ignores its late answers",
  async () => {
    const manual = new ManualExport();
    const flushed = manual.flush();
    await manual.passTime(999);
    expect([manual.exported, manual.aborted]).toEqual([1, []]);
    await manual.passTime(1);
    expect([manual.exported, manual.aborted]).toEqual([2, [1]]);
    await manual.passTime(1_000);
    await flushed;
    await manual.answer(SUCCESS);
    const lastError = "given up after no answer within 1,000 ms";
    const counts: DeliveryCounts = {
      deliveredSpans: 0,
      lostSpans: 2,
      unconfirmedSpans: 2,
      pendingSpans: 0,
      lastError,
    };
    expect([manual.queue.getCounts(), manual.aborted]).toEqual([counts, [1, 2]]);
    expect(await warnings()).toEqual([
      lossWarning(lastError, `${lost(2)} ${unconfirmed(2)}`, CHECK_TIMEOUT),
    ]);
  },
);

proves(
  ["D470"],
  "delivers every batch to an endpoint that serves one request after another, up to the timeout",
  async () => {
    for (const serviceMs of [1_000, 3_000, 8_000, 9_999]) {
      const clock = new ManualClock();
      let freeAtMs = 0;
      const exporter = new Keeper();
      exporter.answer = (done) => {
        freeAtMs = Math.max(freeAtMs, clock.monotonicMs()) + serviceMs;
        clock.setTimer(freeAtMs - clock.monotonicMs(), () => done(SUCCESS));
      };
      const settings = { maxExportBatchSize: 1, exportTimeoutMillis: 10_000 };
      const queue = queueTo(exporter, settings, clock);
      trace(queue, wideRun(4, 8));
      const flushed = queue.shutdown();
      for (let batch = 0; batch < 42; batch += 1) {
        await flushEventLoop();
        clock.advance(serviceMs);
      }
      await flushed;
      expect(queue.getCounts()).toEqual({ deliveredSpans: 42, lostSpans: 0, pendingSpans: 0 });
    }
  },
);

test("exports batches with tracing suppressed, however long they waited", async () => {
  new NodeTracerProvider().register({ propagator: null });
  const recorded: boolean[] = [];
  const keeper = new Keeper();
  keeper.answer = (done) => {
    recorded.push(traceApi.getTracer("http").startSpan("POST").isRecording());
    setImmediate(() => done(SUCCESS));
  };
  const queue = queueTo(keeper, { maxExportBatchSize: 1 });
  trace(queue, smallRun());
  await queue.shutdown();
  context.disable();
  traceApi.disable();
  expect(recorded).toEqual([false, false, false, false]);
});
