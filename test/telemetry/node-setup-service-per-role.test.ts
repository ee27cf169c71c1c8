// Goal: with a service for each role, a viewer that colours by service distinguishes the roles.
// Nothing else in a trace changes.
// Method: a tree and a span of another library, sent to a loopback endpoint with the option and
// without.

import { context, propagation, trace } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";

import { setUpNodeTracing } from "../../src/telemetry/node-setup.ts";
import type { SinkSpan } from "../support/otlp-schema.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { thrownBy } from "../support/thrown.ts";
import { placeAll } from "../support/telemetry/recorded-spans.ts";
import { RunScript } from "../support/telemetry/run-script.ts";

afterEach(() => {
  for (const api of [trace, context, propagation]) api.disable();
});

function tree(): RunScript {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.lives("call_1");
  lead.gets("call_1", "SpawnSubagent");
  lead.ended();
  run.ended("completed", 1);
  return run;
}

async function sent(serviceNamePerRole: boolean): Promise<readonly SinkSpan[]> {
  await using sink = await OtlpSink.open();
  const { tracesUrl } = sink;
  const node = setUpNodeTracing({ serviceName: "garden", serviceNamePerRole, tracesUrl });
  placeAll(node.tracing, tree().drafts);
  trace.getTracer("other").startSpan("GET /").end();
  const report = await node.shutdown({ timeoutMs: 20_000 });
  expect(report).toEqual({ deliveredSpans: 6, lostSpans: 0, pendingSpans: 0 });
  return sink.spans;
}

test("uses a service for each role, and the program's service for other libraries", async () => {
  const services = (await sent(true)).map(({ name, resource }) => [name, resource["service.name"]]);
  expect(new Map(services.map(([name, service]) => [name, service]))).toEqual(
    new Map([
      ["chat model-1", "garden/reader"],
      ["invoke_agent reader#1", "garden/reader"],
      ["spawn reader#1", "garden/lead"],
      ["invoke_agent lead", "garden/lead"],
      ["invoke_workflow lead", "garden/lead"],
      ["GET /", "garden"],
    ]),
  );
});

/** Returns a span without its service and its times, which differ between two runs. */
function bare({
  resource,
  startMs,
  endMs,
  startUs: _startUs,
  endUs: _endUs,
  ...span
}: SinkSpan): object {
  const { "service.name": service, ...rest } = resource;
  expect(service).toBeTypeOf("string");
  return { ...span, rest, isOver: endMs >= startMs };
}

function ours(spans: readonly SinkSpan[]): readonly object[] {
  return spans
    .filter(({ name }) => name !== "GET /")
    .toSorted((left, right) => (left.spanId < right.spanId ? -1 : 1))
    .map(bare);
}

test("changes nothing else in a trace", async () => {
  expect(ours(await sent(true))).toEqual(ours(await sent(false)));
});

test("rejects a value that is not a boolean", () => {
  const wrong: object = { serviceNamePerRole: "yes" };
  const setUp = (): unknown => setUpNodeTracing(Object.assign({ serviceName: "garden" }, wrong));
  expect(thrownBy(setUp)).toMatchObject({ code: "invalid_argument" });
});
