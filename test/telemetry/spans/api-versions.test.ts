// Goal: an SDK that our copy of the API cannot see causes a warning (see also test/sdk/mixed-api),
// and an unused one does not.
// Method: a value registered as an older copy of the API would register it; whole runs are traced;
// modules that warn once are reloaded for each test.

import { ProxyTracerProvider, trace } from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  InMemorySpanExporter,
  NodeTracerProvider,
} from "@opentelemetry/sdk-trace-node";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { placeAll, recorder } from "../../support/telemetry/recorded-spans.ts";
import { pausedRun } from "../../support/telemetry/paused-run.ts";

const PLACE = Symbol.for("opentelemetry.js.api.1");
beforeEach(() => vi.resetModules());
afterEach(() => {
  vi.unstubAllEnvs();
  trace.disable();
  Reflect.deleteProperty(globalThis, PLACE);
});

function registerAsOlderCopy(parts: Readonly<Record<string, unknown>>): void {
  Reflect.set(globalThis, PLACE, { version: "1.4.0", ...parts });
}

async function warningsOfARun(options = {}): Promise<readonly string[]> {
  const { openTelemetry } = await import("../../../src/telemetry/otel.ts");
  placeAll(openTelemetry(options), pausedRun().drafts);
  await flushEventLoop();
  return takeWarnings();
}

const warningOf = (losses: string): unknown =>
  expect.stringMatching(
    new RegExp(
      "^EspalierWarning: Expected one copy of @opentelemetry/api, got two: .* with version 1\\.4\\.0, .* version " +
        `1\\.\\d+\\.\\d+, .* see it\\. ${losses} See \`npm ls @opentelemetry/api\``,
    ),
  );

test("warns of nothing without an SDK, or with one that is visible", async () => {
  expect(await warningsOfARun()).toEqual([]);
  registerAsOlderCopy({ diag: {} });
  expect(await warningsOfARun()).toEqual([]);
  Reflect.deleteProperty(globalThis, PLACE);
  trace.setGlobalTracerProvider(recorder().provider);
  expect(await warningsOfARun()).toEqual([]);
});

test("warns once of a provider of an older API copy, with both versions", async () => {
  registerAsOlderCopy({ trace: recorder().provider });
  expect(await warningsOfARun()).toEqual([warningOf("Runs are not traced\\.")]);
  expect(await warningsOfARun()).toEqual([]);
});

test("warns of an older copy for metrics alone, unless a custom meter is used", async () => {
  registerAsOlderCopy({ metrics: {} });
  const { createNoopMeter } = await import("@opentelemetry/api");
  expect(await warningsOfARun({ meter: createNoopMeter() })).toEqual([]);
  expect(await warningsOfARun()).toEqual([warningOf("Metrics of runs are not recorded\\.")]);
});

test("combines both losses in one warning", async () => {
  registerAsOlderCopy({ trace: {}, metrics: {} });
  expect(await warningsOfARun()).toEqual([
    warningOf("Runs are not traced\\. Metrics of runs are not recorded\\."),
  ]);
});

test("does not warn if a custom tracer does not sample, or if tracing is disabled", async () => {
  registerAsOlderCopy({ trace: new ProxyTracerProvider() });
  const provider = new NodeTracerProvider({ sampler: new AlwaysOffSampler() });
  expect(await warningsOfARun({ tracer: provider.getTracer("own") })).toEqual([]);
  vi.stubEnv("OTEL_SDK_DISABLED", "true");
  const { setUpNodeTracing } = await import("../../../src/telemetry/node-setup.ts");
  placeAll(setUpNodeTracing().tracing, pausedRun().drafts);
  await flushEventLoop();
  expect(takeWarnings()).toEqual([]);
});

test("names both versions when it is set up beside an older copy without an SDK, and still delivers spans", async () => {
  registerAsOlderCopy({ diag: {} });
  const { setUpNodeTracing } = await import("../../../src/telemetry/node-setup.ts");
  const exporter = new InMemorySpanExporter();
  const node = setUpNodeTracing({ exporter });
  placeAll(node.tracing, pausedRun().drafts);
  expect((await node.shutdown()).lostSpans).toBe(0);
  await flushEventLoop();
  expect(takeWarnings()).toEqual([
    expect.stringMatching(
      /^EspalierWarning: Expected one copy of @opentelemetry\/api, got two: something was registered with version 1\.4\.0 before, and espalier has found version 1\.\d+\.\d+\. Spans of runs are exported nevertheless, .* See `npm ls/,
    ),
  ]);
});
