// Goal: an SDK that our copy of the API cannot see is no silence (see also test/sdk/mixed-api).
// Method: something registered as an older copy of the API would do it; whole runs placed.

import { trace } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";

import { openTelemetry } from "../../src/telemetry/otel.ts";
import { settled } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/set-up.ts";
import { placeAll, recorder } from "./recorded-spans.ts";
import { pausedRun } from "./paused-run.ts";

const PLACE = Symbol.for("opentelemetry.js.api.1");
afterEach(() => {
  trace.disable();
  Reflect.deleteProperty(globalThis, PLACE);
});

async function warningsOfARun(): Promise<readonly string[]> {
  placeAll(openTelemetry(), pausedRun().drafts);
  await settled();
  return takeWarnings();
}

test("without any SDK, or with one that is seen, there is nothing to warn about", async () => {
  expect(await warningsOfARun()).toEqual([]);
  Reflect.set(globalThis, PLACE, { version: "1.4.0", diag: {}, metrics: {} });
  expect(await warningsOfARun()).toEqual([]);
  Reflect.deleteProperty(globalThis, PLACE);
  trace.setGlobalTracerProvider(recorder().provider);
  expect(await warningsOfARun()).toEqual([]);
});

test("a provider of an older copy of the API is warned about once, with both versions", async () => {
  Reflect.set(globalThis, PLACE, { version: "1.4.0", trace: recorder().provider });
  expect(await warningsOfARun()).toEqual([
    expect.stringMatching(
      /^EspalierWarning: Expected one copy of @opentelemetry\/api, got two: .* with version 1\.4\.0, .* version 1\.\d+\.\d+, .* Runs are not traced\. See `npm ls @opentelemetry\/api`/,
    ),
  ]);
  expect(await warningsOfARun()).toEqual([]);
});
