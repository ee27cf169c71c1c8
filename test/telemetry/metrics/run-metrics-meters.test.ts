// Goal: a run and its spans are the same with any meter and without one.
// Method: meters that come late, are removed, throw or record nothing; spans are compared with
// those of a run that is not measured.

import { createNoopMeter, metrics as globalMetrics } from "@opentelemetry/api";
import { afterEach, describe, expect, test } from "vitest";

import { MeteredInstruments, RunMetrics } from "../../../src/telemetry/metrics/run-metrics.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { measuredTeam } from "../../support/telemetry/measured-team.ts";
import {
  linesOf,
  linesWith,
  metricRecorder,
  sumOf,
} from "../../support/telemetry/recorded-metrics.ts";
import { placeAll, recorder, treeOf } from "../../support/telemetry/recorded-spans.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";

afterEach(() => globalMetrics.disable());

describe("meters", () => {
  test("take effect with the next run if their provider is registered late", async () => {
    const metrics = new RunMetrics();
    const projector = new SpanProjector(recorder().tracer, String, { metrics });
    const [first, second] = [new RunScript("1"), new RunScript("2")];
    first.started();
    placeAll(projector, first.drafts.splice(0));
    expect(metrics.openRuns).toBe(0);
    const recording = metricRecorder();
    globalMetrics.setGlobalMeterProvider(recording.provider);
    first.root.lives();
    first.ended();
    placeAll(projector, first.drafts);
    expect(linesOf(await recording.read())).toEqual([]);
    second.started();
    second.root.lives();
    second.ended();
    placeAll(projector, second.drafts);
    expect(sumOf(await recording.read(), "inputTokens")).toBe(100);
    expect(metrics.openRuns).toBe(0);
  });

  test("do not change during a run", async () => {
    const [before, after] = [metricRecorder(), metricRecorder()];
    globalMetrics.setGlobalMeterProvider(before.provider);
    const projector = new SpanProjector(recorder().tracer, String, { metrics: new RunMetrics() });
    const run = new RunScript();
    run.started();
    placeAll(projector, run.drafts.splice(0));
    globalMetrics.disable();
    globalMetrics.setGlobalMeterProvider(after.provider);
    run.root.lives();
    run.ended();
    placeAll(projector, run.drafts);
    expect(sumOf(await before.read(), "inputTokens")).toBe(100);
    expect(linesOf(await after.read())).toEqual([]);
  });

  test("are treated as absent if they record nothing", () => {
    const metrics = new RunMetrics({ meter: createNoopMeter() });
    const run = new RunScript();
    run.started();
    placeAll(new SpanProjector(recorder().tracer, String, { metrics }), run.drafts);
    expect(metrics.openRuns).toBe(0);
  });

  test("remove no span and cause one warning if they throw, at once or later", async () => {
    const plain = recorder();
    placeAll(new SpanProjector(plain.tracer, String), measuredTeam().drafts);
    const { meter } = metricRecorder();
    const lame = { add: throwing, record: throwing };
    for (const make of [throwing, () => lame, () => undefined]) {
      const { tracer, spans } = recorder();
      const metrics = new RunMetrics({ meter: new Proxy(meter, { get: () => make }) });
      placeAll(new SpanProjector(tracer, String, { metrics }), measuredTeam().drafts);
      expect(treeOf(spans())).toBe(treeOf(plain.spans()));
      await flushEventLoop();
      const warnings = takeWarnings();
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toMatch(
        /^EspalierWarning: A meter threw \(.+\); its metrics have gaps\.$/,
      );
    }
  });

  test("remove no span if their provider throws", async () => {
    const provider = {
      getMeter: () => {
        throw new Error("no provider");
      },
    };
    globalMetrics.setGlobalMeterProvider(provider);
    const { tracer, spans } = recorder();
    const projector = new SpanProjector(tracer, String, { metrics: new RunMetrics() });
    placeAll(projector, [...measuredTeam().drafts]);
    expect(new MeteredInstruments().find()).toBeUndefined();
    expect(spans()).not.toEqual([]);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([
      "EspalierWarning: A meter provider threw (no provider); nothing is measured.",
    ]);
  });

  test("cause one warning if measuring fails for another reason", async () => {
    const { drafts } = measuredTeam();
    const metrics = new RunMetrics({ meter: metricRecorder().meter });
    const [draft] = drafts;
    if (draft === undefined) throw new Error("a run has events");
    const moment = { ...draft, atUs: draft.atMs * 1_000 };
    const scope = {
      moment,
      role: "lead",
      get opening(): never {
        throw new Error("broken");
      },
    };
    metrics.openSpan(scope);
    metrics.openSpan(scope);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([
      "EspalierWarning: Metrics have gaps, because measuring failed: broken",
    ]);
  });

  test("skip values that are not numbers, and record no negative time if the clock goes back", async () => {
    const run = new RunScript();
    run.started();
    run.root.started();
    run.root.asks();
    run.root.hears({ queuedMs: Number.NaN });
    run.root.ended();
    run.ended();
    const back = run.drafts.map((draft, index) => ({ ...draft, atMs: 9_000 - index }));
    const { meter, read } = metricRecorder();
    const metrics = new RunMetrics({ meter });
    placeAll(new SpanProjector(recorder().tracer, String, { metrics }), back);
    const readings = await read();
    expect(linesWith(readings, "queue")).toEqual([]);
    expect(linesWith(readings, ".duration").map((line) => line.split(" | ")[2])).toEqual([
      "0 in 1",
      "0 in 1",
      "0 in 1",
    ]);
  });
});

test("rejects invalid options by name", () => {
  const meter: object = { createCounter: () => undefined };
  const wrong = [{ meter }, { meter: null }, { legacyMetrics: "yes" }, { meters: meter }];
  const messages = wrong.map((options) => refusalOf(options));
  expect(messages.map((message) => message.split(". ")[0])).toEqual([
    "Expected openTelemetry.meter to be an object with createCounter(), createUpDownCounter(), createHistogram(), got an object",
    "Expected openTelemetry.meter to be an object with createCounter(), createUpDownCounter(), createHistogram(), got null",
    'Expected openTelemetry.legacyMetrics to be true or false, got "yes"',
    expect.stringMatching(
      /^Expected openTelemetry\.meters to be one of .*meter, legacyMetrics, got/,
    ),
  ]);
});

test("counts dropped spans with a meter that may come late", async () => {
  const instruments = new MeteredInstruments();
  const drop = (spans: number) => instruments.find()?.measure("droppedSpans", spans);
  drop(3);
  const recording = metricRecorder();
  globalMetrics.setGlobalMeterProvider(recording.provider);
  drop(5);
  drop(2);
  expect(linesOf(await recording.read())).toEqual(["espalier.telemetry.spans.dropped |  | 7"]);
});

function throwing(): never {
  throw new Error("no meter");
}

function refusalOf(options: object): string {
  try {
    Reflect.apply(openTelemetry, undefined, [options]);
  } catch (cause) {
    return String(cause).replace(/^\w+: /, "");
  }
  return "nothing";
}
