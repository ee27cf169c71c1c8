// Goal: off, no byte that leaves the process holds a word of what users, models or tools wrote; on, it is on the spans of the calls and nowhere else;
// redacted, it is gone.
// Method: runs of every kind with a canary in each text, seen by an in-memory exporter and by an OTLP endpoint as raw bodies.

import { afterEach, describe, expect, test, vi } from "vitest";

import { EVENT_TYPES } from "../../src/protocol/event.ts";
import { setUpNodeTracing, type NodeTracingOptions } from "../../src/telemetry/node-setup.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../../src/telemetry/otel.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { proves } from "../harness/proves.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { CANARY, CANARY_RUNS } from "./canary-runs.ts";
import { recorder, type RecordedSpan } from "./recorded-spans.ts";

afterEach(() => vi.unstubAllEnvs());

/** Attributes that hold the canary, each once. */
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
    proves(["R178", "S7.7"], "off by default: no span says a word of it", async () => {
      const spans = await watched(name, {});
      expect(spans.length).toBeGreaterThan(3);
      expect(holders(spans)).toEqual([]);
      expect(JSON.stringify(spans)).not.toContain(CANARY);
    });

    test("on: it is on model calls and tool calls, and only where content belongs", async () => {
      const found = holders(await watched(name, { content: true }));
      expect(found).toContain("chat gen_ai.input.messages");
      expect(found).toContain("execute_tool gen_ai.tool.call.arguments");
      expect(found.filter((one) => !PLACES.has(one))).toEqual([]);
    });

    test("redacted: it is gone", async () => {
      expect(holders(await watched(name, { content: { redact: nothing } }))).toEqual([]);
    });
  });
}

test("the runs come by every kind of event that holds words of models, tools or users", async () => {
  const sink = new RecordingSink();
  for (const run of Object.values(CANARY_RUNS)) await run({ sinks: [sink] });
  const seen = new Set<string>(sink.events.map(({ type }) => type));
  expect(EVENT_TYPES.filter((type) => !seen.has(type))).toEqual(ELSEWHERE);
  expect(JSON.stringify(sink.events).split(CANARY).length).toBeGreaterThan(40);
});

/** Progress is reported by MCP servers alone, and the others say numbers and ids: span-silence.test.ts has them. */
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

/** Everything that reaches an endpoint, of all runs. */
async function sentBy(options: NodeTracingOptions): Promise<OtlpSink> {
  await using sink = await OtlpSink.open();
  // Each with a tracing of its own: their ids are the same, and a pause is continued from once.
  for (const run of Object.values(CANARY_RUNS)) {
    const node = setUpNodeTracing({ ...options, tracesUrl: sink.tracesUrl });
    await run({ tracing: node.tracing });
    const report = await node.shutdown();
    expect([report.lostSpans, report.pendingSpans]).toEqual([0, 0]);
  }
  return sink;
}

proves(
  ["R178"],
  "off by default: no byte that is sent to an endpoint holds a word of it",
  async () => {
    const sink = await sentBy({});
    expect(sink.spans.length).toBeGreaterThan(40);
    expect(sink.bodies).not.toContain(CANARY);
  },
);

test("on, the same bytes hold it; and with a redaction they do not", async () => {
  expect((await sentBy({ content: true })).bodies).toContain(CANARY);
  const { bodies } = await sentBy({ content: { redact: nothing } });
  expect(bodies).not.toContain(CANARY);
});

test("batches of spans with content are smaller, unless a variable says how large they are", async () => {
  expect(await largestBatch({ content: true })).toBe(128);
  expect(await largestBatch({})).toBeGreaterThan(128);
  vi.stubEnv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "64");
  expect(await largestBatch({ content: true })).toBe(64);
});

/** The most spans that are exported at once, of some hundreds that wait while the first batches are under way. */
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
