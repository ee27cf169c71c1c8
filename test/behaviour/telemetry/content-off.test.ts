// Goal: with content off, no exported byte contains text of users, models or tools. With content
// on, only spans of calls contain it. A redaction removes it.
// Method: runs of every kind with a canary in each text, exported to memory and to an OTLP endpoint
// as raw bodies.

import { afterEach, describe, expect, test, vi } from "vitest";

import { EVENT_TYPES } from "../../../src/protocol/event.ts";
import { setUpNodeTracing, type NodeTracingOptions } from "../../../src/telemetry/node-setup.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../../../src/telemetry/otel.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { proves } from "../../harness/proves.ts";
import { OtlpSink } from "../../support/otlp-sink.ts";
import { CANARY, CANARY_RUNS } from "../../support/telemetry/canary-runs.ts";
import { recorder, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";

afterEach(() => vi.unstubAllEnvs());

/** Returns the attributes that contain the canary, each once. */
function holders(spans: readonly RecordedSpan[]): readonly string[] {
  const names = spans.flatMap(({ name, attributes, events }) => [
    ...(name.includes(CANARY) ? ["the name of a span"] : []),
    ...Object.entries(attributes).flatMap(([key, value]) =>
      JSON.stringify([key, value]).includes(CANARY)
        ? [`${String(attributes["gen_ai.operation.name"])} ${key}`]
        : [],
    ),
    ...(JSON.stringify(events).includes(CANARY) ? ["an event"] : []),
  ]);
  return [...new Set(names)].toSorted();
}

async function watched(
  name: string,
  options: OpenTelemetryOptions,
): Promise<readonly RecordedSpan[]> {
  const recording = recorder();
  const run = CANARY_RUNS[name] ?? expect.fail(name);
  await run({ tracing: openTelemetry({ tracer: recording.tracer, ...options }) });
  return recording.spans();
}

for (const name of Object.keys(CANARY_RUNS)) {
  describe(name, () => {
    proves(["R178", "S7.7"], "exports no content on spans by default", async () => {
      const spans = await watched(name, {});
      expect(spans.length).toBeGreaterThan(3);
      expect(holders(spans)).toEqual([]);
      expect(JSON.stringify(spans)).not.toContain(CANARY);
    });

    test("exports content only on model calls and tool calls if enabled", async () => {
      const found = holders(await watched(name, { content: true }));
      expect(found).toContain("chat gen_ai.input.messages");
      expect(found).toContain("execute_tool gen_ai.tool.call.arguments");
      expect(found.filter((one) => !PLACES.has(one))).toEqual([]);
    });

    test("exports no content if a redaction removes it", async () => {
      expect(holders(await watched(name, { content: { redact: nothing } }))).toEqual([]);
    });
  });
}

test("covers every type of event that contains text of models, tools or users", async () => {
  const sink = new RecordingSink();
  for (const run of Object.values(CANARY_RUNS)) await run({ sinks: [sink] });
  const seen = new Set<string>(sink.events.map(({ type }) => type));
  expect(EVENT_TYPES.filter((type) => !seen.has(type))).toEqual(ELSEWHERE);
  expect(JSON.stringify(sink.events).split(CANARY).length).toBeGreaterThan(40);
});

/**
 * Only MCP servers report progress, and the others contain numbers and ids: see
 * span-projector-content.test.ts.
 */
const ELSEWHERE = [
  "tool.progressed",
  "subagent.detached",
  "budget.queued",
  "budget.dequeued",
  "budget.released",
];

const PLACES: ReadonlySet<string> = new Set([
  "chat gen_ai.input.messages",
  "chat gen_ai.output.messages",
  "chat gen_ai.system_instructions",
  "execute_tool gen_ai.tool.call.arguments",
  "execute_tool gen_ai.tool.call.result",
]);

/** Returns everything that all runs send to an endpoint. */
async function sentBy(options: NodeTracingOptions): Promise<OtlpSink> {
  await using sink = await OtlpSink.open();
  // Each run has its own tracing: their ids are the same, and a pause is continued only once.
  for (const run of Object.values(CANARY_RUNS)) {
    const node = setUpNodeTracing({ ...options, tracesUrl: sink.tracesUrl });
    await run({ tracing: node.tracing });
    const report = await node.shutdown();
    expect([report.lostSpans, report.pendingSpans]).toEqual([0, 0]);
  }
  return sink;
}

proves(["R178"], "sends no content to an endpoint by default", async () => {
  const sink = await sentBy({});
  expect(sink.spans.length).toBeGreaterThan(40);
  expect(sink.bodies).not.toContain(CANARY);
});

test("sends content to an endpoint if enabled, unless a redaction removes it", async () => {
  expect((await sentBy({ content: true })).bodies).toContain(CANARY);
  const { bodies } = await sentBy({ content: { redact: nothing } });
  expect(bodies).not.toContain(CANARY);
});

test("limits batches of spans with content to 128 unless a variable sets the size", async () => {
  expect(await largestBatch({ content: true })).toBe(128);
  expect(await largestBatch({})).toBeGreaterThan(128);
  vi.stubEnv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "64");
  expect(await largestBatch({ content: true })).toBe(64);
});

/**
 * Returns the size of the largest batch, of some hundred spans that wait during the first exports.
 */
async function largestBatch(options: NodeTracingOptions): Promise<number> {
  const batches: number[] = [];
  const runsEnded = Promise.withResolvers<void>();
  const exporter: NodeTracingOptions["exporter"] = {
    export: (spans, done) => {
      batches.push(spans.length);
      void runsEnded.promise.then(() => done({ code: 0 }));
    },
    shutdown: () => Promise.resolve(),
  };
  const node = setUpNodeTracing({ ...options, exporter });
  for (let round = 0; round < 20; round += 1)
    for (const run of Object.values(CANARY_RUNS).slice(0, 2)) await run({ tracing: node.tracing });
  runsEnded.resolve();
  await node.shutdown();
  return Math.max(...batches);
}

function nothing(): undefined {
  return undefined;
}
