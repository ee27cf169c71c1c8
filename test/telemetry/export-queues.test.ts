// Goal: when more spans end at once than can wait, leaves are lost and the tree stands; every span
// is accounted for, whatever the exporter or the processor of a queue does.
// Method: small queues, and exporters that take everything, nothing, or answer oddly.

import { metrics } from "@opentelemetry/api";
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  NoopSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { openTelemetry } from "../../src/telemetry/otel.ts";
import type {
  AnySpanExporter,
  AnyExportResult,
  FinishedSpan,
} from "../../src/telemetry/delivery/any-sdk.ts";
import {
  exportQueues,
  type QueueSizes,
  type ExportQueues,
} from "../../src/telemetry/delivery/export-queues.ts";
import { proves } from "../harness/proves.ts";
import { settled } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { metricRecorder } from "./recorded-metrics.ts";
import { placeAll } from "./recorded-spans.ts";
import { RunScript } from "./run-script.ts";
import { wideRun } from "./wide-run.ts";

/** Takes what it is given, or answers as the test says. */
class Keeper implements AnySpanExporter {
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

function queuesTo(exporter: AnySpanExporter, queues?: QueueSizes): ExportQueues {
  return exportQueues({
    exporter,
    processor: (counting, settings) => new BatchSpanProcessor(counting, settings),
    ...(queues === undefined ? {} : { queues }),
  });
}

function trace(queues: ExportQueues, { drafts }: RunScript): void {
  const provider = new NodeTracerProvider({ spanProcessors: [queues] });
  placeAll(openTelemetry({ tracer: provider.getTracer("test") }), drafts);
}

/** Two spans that hold the tree together and two leaves. */
function smallRun(): RunScript {
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

const lossWarning = (reason: string, advice: string): string =>
  `EspalierWarning: Expected the trace endpoint to take all spans, got: ${reason}. ` +
  `Traces have gaps; runs are not affected. ${advice} ` +
  "Further losses are counted, without another warning.";
const CHECK_ENDPOINT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), and that it takes OTLP over HTTP.";
const CHECK_QUEUE =
  "More spans ended at once than may wait. Sample (OTEL_TRACES_SAMPLER), or let more of them wait.";

async function warnings(): Promise<readonly string[]> {
  await settled();
  return takeWarnings();
}

test("a burst that no queue can hold loses leaves only, and the trace says how many", async () => {
  const keeper = new Keeper();
  const queues = queuesTo(keeper, { structure: 64, leaves: 20 });
  const [agents, calls] = [10, 8];
  trace(queues, wideRun(agents, calls));
  await queues.shutdown();

  const { deliveredSpans, lostSpans, pendingSpans, lastError } = queues.counts();
  expect([deliveredSpans + lostSpans, pendingSpans, lastError]).toEqual([
    2 + agents * (2 + calls),
    0,
    "20 spans were waiting",
  ]);
  expect(lostSpans).toBeGreaterThan(0);
  const names = keeper.taken.map((span) => ("name" in span ? String(span.name) : ""));
  expect(names.filter((name) => /^(invoke|spawn)/.test(name))).toHaveLength(2 + 2 * agents);
  expect(orphansOf(keeper.taken)).toEqual([]);
  expect(droppedIn(keeper.taken)).toEqual([lostSpans]);
  expect(await warnings()).toEqual([lossWarning("20 spans were waiting", CHECK_QUEUE)]);
});

test("each lost span is said on one run, also if the run that said it is lost itself", async () => {
  const keeper = new Keeper();
  const queues = queuesTo(keeper);
  keeper.answer = (done) => done({ code: 1, error: new Error("disk full") });
  trace(queues, smallRun());
  await queues.forceFlush();
  trace(queues, smallRun());
  await queues.forceFlush();
  keeper.answer = (done) => done({ code: 0 });
  trace(queues, smallRun());
  trace(queues, smallRun());
  await queues.shutdown();

  expect(droppedIn(keeper.taken)).toEqual([8]);
  expect([queues.counts(), keeper.shutdowns]).toEqual([
    { deliveredSpans: 8, lostSpans: 8, pendingSpans: 0, lastError: "disk full" },
    1,
  ]);
  expect(await warnings()).toEqual([lossWarning("disk full", CHECK_ENDPOINT)]);
});

/** Timeouts as the exporters of OpenTelemetry over HTTP and gRPC, and `fetch`, report them. */
const TIMEOUTS: Readonly<Record<string, () => Error>> = {
  HTTP: () => new Error("Request timed out"),
  gRPC: () => Object.assign(new Error("4 DEADLINE_EXCEEDED: no answer"), { code: 4 }),
  fetch: () => new DOMException("The operation was aborted due to timeout", "TimeoutError"),
};

for (const [protocol, timeout] of Object.entries(TIMEOUTS)) {
  proves(
    ["D471"],
    `spans whose request over ${protocol} timed out count as not confirmed`,
    async () => {
      const recording = metricRecorder();
      metrics.setGlobalMeterProvider(recording.provider);
      const keeper = new Keeper();
      const queues = queuesTo(keeper);
      keeper.answer = (done) => done({ code: 1, error: timeout() });
      trace(queues, smallRun());
      await queues.forceFlush();
      keeper.answer = (done) => done({ code: 1, error: new Error("disk full") });
      trace(queues, smallRun());
      await queues.forceFlush();
      keeper.answer = (done) => done({ code: 0 });
      trace(queues, smallRun());
      await queues.shutdown();
      metrics.disable();
      expect(queues.counts()).toEqual({
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
      const message = timeout().message;
      expect(await warnings()).toEqual([
        `EspalierWarning: Expected the trace endpoint to confirm all spans, got: ${message}. ` +
          "The endpoint may have stored the spans, so they count as not confirmed. " +
          "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), or allow more time (OTEL_EXPORTER_OTLP_TIMEOUT). " +
          "Further timeouts are counted, without another warning.",
        lossWarning("disk full", CHECK_ENDPOINT),
      ]);
    },
  );
}

test("a program that flushes after each run holds no more spans than the queues, whatever the endpoint does", async () => {
  const keeper = new Keeper();
  const held: ((result: AnyExportResult) => void)[] = [];
  keeper.answer = (done) => held.push(done);
  const queues = queuesTo(keeper, { structure: 10, leaves: 6 });
  const flushes: Promise<void>[] = [];
  for (let run = 0; run < 20; run += 1) {
    trace(queues, smallRun());
    flushes.push(queues.forceFlush());
  }
  await settled();
  expect(queues.counts()).toMatchObject({
    deliveredSpans: 0,
    lostSpans: 80 - 16,
    pendingSpans: 16,
  });
  keeper.answer = (done) => done({ code: 0 });
  for (const done of held) done({ code: 0 });
  await Promise.all(flushes);
  expect(queues.counts()).toMatchObject({ deliveredSpans: 16, pendingSpans: 0 });
  trace(queues, smallRun());
  await queues.shutdown();
  expect(queues.counts()).toMatchObject({ deliveredSpans: 20, lostSpans: 64, pendingSpans: 0 });
  expect(await warnings()).toHaveLength(1);
});

test("spans that the endpoint refuses within a success are lost, with its words", async () => {
  const keeper = new Keeper();
  const queues = queuesTo(keeper);
  const error = new Error("too old");
  for (const rejectedSpans of [1, 1_000, -1, Number.NaN]) {
    keeper.answer = (done) => done({ code: 0, rejectedSpans, error });
    trace(queues, smallRun());
    await queues.forceFlush();
  }
  expect(queues.counts()).toEqual({
    deliveredSpans: 2 + 0 + 4 + 4,
    lostSpans: 2 + 4,
    pendingSpans: 0,
    lastError: "the endpoint refused them (too old)",
  });
  expect(await warnings()).toEqual([
    lossWarning("the endpoint refused them (too old)", CHECK_ENDPOINT),
  ]);
});

test("a report of the SDK is about a loss if it repeats its words, not if there are none", async () => {
  const keeper = new Keeper();
  const queues = queuesTo(keeper);
  const reports = ["", "something else", String.raw`{"message":"say \"when\""}`, "no ECONNREFUSED"];
  const known: (readonly boolean[])[] = [];
  const errors = [
    new Error(""),
    new Error('say "when"'),
    Object.assign(new Error(""), { code: "ECONNREFUSED" }),
  ];
  for (const error of errors) {
    keeper.answer = (done) => done({ code: 1, error });
    trace(queues, smallRun());
    await queues.forceFlush();
    known.push(reports.map((report) => queues.hasCounted(report)));
  }
  expect(known).toEqual([
    [false, false, false, false],
    [false, false, true, false],
    [false, false, false, true],
  ]);
  await warnings();
});

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
    "something that has no text",
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
  "an exporter that %s costs its spans, and no more",
  async (_what, [answer, lastError]) => {
    const keeper = new Keeper();
    keeper.answer = answer;
    const queues = queuesTo(keeper);
    trace(queues, smallRun());
    await queues.forceFlush();
    await queues.shutdown();
    expect(queues.counts()).toEqual({
      deliveredSpans: 0,
      lostSpans: 4,
      pendingSpans: 0,
      lastError,
    });
    expect(await warnings()).toEqual([lossWarning(lastError, CHECK_ENDPOINT)]);
  },
);

test("what a processor drops on its own is counted when it is shut down", async () => {
  const exporter = new Keeper();
  const queues = exportQueues({
    exporter,
    processor: () => new NoopSpanProcessor(),
  });
  trace(queues, smallRun());
  await queues.shutdown();
  expect([queues.counts(), exporter.taken.length]).toEqual([
    {
      deliveredSpans: 0,
      lostSpans: 4,
      pendingSpans: 0,
      lastError: "the processor of a queue dropped them",
    },
    0,
  ]);
  expect(await warnings()).toHaveLength(1);
});

const fail = (): never => {
  throw new Error("already over");
};

test("an exporter and a processor that throw instead of ending harm no run", async () => {
  const exporter = new Keeper();
  const queues = exportQueues({
    exporter: Object.assign(exporter, { forceFlush: fail, shutdown: fail }),
    processor: () => ({ onEnd: fail, forceFlush: fail, shutdown: fail }),
  });
  await queues.forceFlush();
  await queues.shutdown();
  expect(queues.counts()).toEqual({ deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 });
});

test("what ends after the shutdown is lost, and counted", async () => {
  const queues = queuesTo(new Keeper());
  await queues.shutdown();
  trace(queues, smallRun());
  const lastError = "tracing was shut down before";
  expect(queues.counts()).toEqual({ deliveredSpans: 0, lostSpans: 4, pendingSpans: 0, lastError });
  const advice = "Shut tracing down when the last run has ended.";
  expect(await warnings()).toEqual([lossWarning(lastError, advice)]);
});

const exporter = new Keeper();
const processor = (counting: AnySpanExporter): BatchSpanProcessor =>
  new BatchSpanProcessor(counting);
/** What a program without types hands over. */
class Unfit implements AnySpanExporter {
  declare readonly export: AnySpanExporter["export"];
  declare readonly onEnd: () => void;
  declare readonly forceFlush: () => Promise<void>;
  declare readonly shutdown: () => Promise<void>;
}

const REFUSED: Readonly<Record<string, readonly [() => unknown, string]>> = {
  "an exporter that cannot export": [
    () => exportQueues({ exporter: new Unfit(), processor }),
    "Expected exportQueues.exporter to be an object with export() and shutdown(), got an object. See its type.",
  ],
  "a processor that is none": [
    () => exportQueues({ exporter, processor: () => new Unfit() }),
    "Expected exportQueues.processor(…) to be an object with onEnd() and forceFlush() and shutdown(), got an object. See its type.",
  ],
  "a queue for nothing": [
    () => exportQueues({ exporter, processor, queues: { structure: 0 } }),
    "Expected exportQueues.queues.structure to be at least 1, got 0. Leave it out for the measured default.",
  ],
  "a batch of a half": [
    () => exportQueues({ exporter, processor, batchSize: 0.5 }),
    "Expected exportQueues.batchSize to be a whole number from 0 up, got 0.5. Leave it out for the measured default.",
  ],
};

test.each(Object.entries(REFUSED))("%s is refused", (_what, [make, message]) => {
  expect(make).toThrow(message);
});

/** The parent of a span, as SDK 2.x and 3.x say it. */
function parentOf(span: FinishedSpan): string | undefined {
  const parent: unknown = Reflect.get(span, "parentSpanContext");
  return parent === undefined ? undefined : String(Reflect.get(Object(parent), "spanId"));
}

function orphansOf(spans: readonly FinishedSpan[]): readonly FinishedSpan[] {
  const known = new Set(spans.map((span) => span.spanContext().spanId));
  return spans.filter((span) => !known.has(parentOf(span) ?? span.spanContext().spanId));
}

/** What the spans of runs say of spans that were lost. */
function droppedIn(spans: readonly FinishedSpan[]): readonly unknown[] {
  return spans
    .map((span) => span.attributes["espalier.telemetry.dropped_spans"])
    .filter((said) => said !== undefined);
}
