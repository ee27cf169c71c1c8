// Goal (E80 to E84): a run that one process after another executes is one trace, below the span
// that its caller named.
// Method: each process is an orchestrator with its own provider and projector, over one store. The
// first process dies at any of its appends, or releases the run at any of its events. The spans of
// both are compared with the log.

import { TraceFlags, context, trace, ROOT_CONTEXT } from "@opentelemetry/api";
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { describe, expect, test } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { createOwner } from "../../../src/orchestrator/durability/open-journal.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { EspalierEvent, TraceIds } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTelemetry, traceIdGenerator } from "../../../src/telemetry/otel.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { turns } from "../../support/journal/crash-play.ts";
import { DEATHS, dyingStore, type Kill } from "../../support/journal/dying-store.ts";
import { storedEvents, storedRecords } from "../../support/journal/stored-events.ts";
import { thrownBy } from "../../support/thrown.ts";
import { leadOfReaders } from "../../support/telemetry/lead-of-readers.ts";
import { mortalTracing } from "../../support/telemetry/mortal-tracing.ts";
import { recorded, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import { timeFaults } from "../../support/telemetry/span-times.ts";

const TRACE_ID = "a".repeat(32);
const SPAN_ID = "b".repeat(16);

/** How a process ends: it dies, or it releases the run after the event of this number. */
type Parting = Kill | { readonly leavesAt: number };

interface HowMoved {
  readonly traceparent?: string;
  /** By default the run is traced with OpenTelemetry. */
  readonly isLocal?: boolean;
  readonly maxSpansPerTrace?: number;
}

interface Moved {
  readonly spans: readonly RecordedSpan[];
  readonly events: readonly EspalierEvent[];
  readonly appends: number;
}

async function moved(partings: readonly Parting[], options: HowMoved = {}): Promise<Moved> {
  const { traceparent, isLocal = false, maxSpansPerTrace = 5_000 } = options;
  const clock = new ManualClock(1_000);
  const store = memoryStore({ clock });
  const ids = sequentialIds();
  const exporter = new InMemorySpanExporter();
  const role = leadOfReaders();
  let run: Run | undefined;
  let appends = 0;
  for (const parting of [...partings, undefined]) {
    const dying = dyingStore(store, parting !== undefined && "at" in parting ? parting : undefined);
    const tracer = new NodeTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(exporter)],
      idGenerator: traceIdGenerator,
    }).getTracer("test");
    const tracing: { tracing?: Tracing } = isLocal
      ? {}
      : { tracing: mortalTracing(openTelemetry({ tracer, maxSpansPerTrace }), () => dying.isDead) };
    const orchestrator = new Orchestrator({
      clock,
      ids,
      store: dying.store,
      roles: [role],
      ...tracing,
    });
    const start = (): Run =>
      orchestrator.start(role, "Go.", traceparent === undefined ? {} : { traceparent });
    const next = run === undefined ? start() : await recovered(orchestrator, run.runId, start);
    if (next === undefined) break;
    run = next;
    await ledUntil(run, parting);
    clock.advance(1_000);
    appends += dying.appends;
  }
  const runId = run?.runId ?? expect.fail("no run");
  const events = await storedEvents(store, runId);
  return { spans: exporter.getFinishedSpans().map(recorded), events, appends };
}

async function recovered(
  orchestrator: Orchestrator,
  runId: Run["runId"],
  start: () => Run,
): Promise<Run | undefined> {
  try {
    return await orchestrator.resume(runId, { takeOver: true });
  } catch (cause) {
    if (EspalierError.is(cause) && cause.code === "unknown_run") return start();
    if (EspalierError.is(cause) && cause.code === "run_ended") return undefined;
    throw cause;
  }
}

async function ledUntil(run: Run, parting: Parting | undefined): Promise<void> {
  if (parting !== undefined && "leavesAt" in parting) {
    const events = run.events();
    for await (const { seq } of events) {
      if (seq < parting.leavesAt) continue;
      await run.release();
      break;
    }
  }
  await run.result.catch((cause: unknown) => {
    if (!EspalierError.is(cause)) throw cause;
  });
  await turns(5);
}

function nameOf({ traceId, spanId }: Pick<TraceIds, "traceId" | "spanId">): string {
  return `${traceId} ${spanId}`;
}

const OPENING: ReadonlySet<string> = new Set([
  "run.started",
  "agent.started",
  "agent.resumed",
  "model.requested",
  "tool.started",
  "tool.resumed",
  "tool.rejected",
]);

/** Checks that the events are one list in one trace, with one id for each span. */
function checkEvents(events: readonly EspalierEvent[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.toSorted((left, right) => left.atMs - right.atMs)).toEqual(events);
  expect(new Set(events.map(({ traceId }) => traceId)).size).toBe(1);
  const opened = events.filter(({ type }) => OPENING.has(type)).map(nameOf);
  expect(opened.length).toBe(new Set(opened).size);
  expect(events.at(-1)?.type).toBe("run.ended");
  const ofRun = events.filter(({ type }) => type.startsWith("run."));
  expect(new Set(ofRun.map(nameOf)).size).toBe(1);
}

/**
 * Checks that the spans are one tree in which every event has its span. `rootParent`: the span
 * above the run.
 */
function checkSpans({ spans, events }: Moved, rootParent: string | undefined): void {
  const names = spans.map(nameOf);
  expect(names.length).toBe(new Set(names).size);
  expect(events.filter((event) => !names.includes(nameOf(event)))).toEqual([]);
  const orphans = spans.filter(
    ({ traceId, parentSpanId: spanId }) =>
      spanId === undefined || !names.includes(nameOf({ traceId, spanId })),
  );
  expect(orphans.map(({ name, parentSpanId }) => [name, parentSpanId])).toEqual([
    ["invoke_workflow lead", rootParent],
  ]);
  expect(timeFaults(spans)).toEqual([]);
}

/**
 * Returns every nth parting of the first process: it releases the run at any event, or dies before
 * any append.
 */
async function partings(every: number): Promise<readonly Parting[]> {
  const { events, appends } = await moved([]);
  const all: readonly Parting[] = [
    ...events.slice(0, -1).map(({ seq }) => ({ leavesAt: seq })),
    ...Array.from({ length: appends }, (_, index) => ({ at: index + 1, how: "before" }) as const),
  ];
  return all.filter((_, index) => index % every === 0);
}

proves(
  ["E80", "E81"],
  "emits one tree and one list of events if a run is released at any event or killed before any append",
  async () => {
    let recoveries = 0;
    for (const parting of await partings(2)) {
      const story = await moved([parting]);
      checkEvents(story.events);
      checkSpans(story, undefined);
      recoveries += story.events.filter(({ type }) => type === "run.resumed").length;
    }
    expect(recoveries).toBeGreaterThan(10);
  },
);

proves(["E80", "E81"], "emits one tree and one list of events through four processes", async () => {
  const { appends } = await moved([]);
  for (let at = 1; at <= appends; at += 6) {
    const story = await moved([{ at, how: "before" }, { leavesAt: 1 }, { at: 3, how: "before" }]);
    checkEvents(story.events);
    checkSpans(story, undefined);
  }
});

proves(
  ["E80", "E81"],
  "places the events of a moved run in one trace without OpenTelemetry",
  async () => {
    for (const parting of await partings(5)) {
      const { spans, events } = await moved([parting], { isLocal: true });
      expect(spans).toEqual([]);
      checkEvents(events);
    }
  },
);

proves(["E81"], "limits a trace of a moved run to the size of any other trace", async () => {
  const plain = await moved([], { maxSpansPerTrace: 8 });
  const sizes = ({ spans }: Moved): readonly number[] =>
    [...Map.groupBy(spans, ({ traceId }) => traceId).values()].map(({ length }) => length);
  expect(sizes(plain).length).toBeGreaterThan(1);
  for (const parting of await partings(5)) {
    const story = await moved([parting], { maxSpansPerTrace: 8 });
    const firstTraceId = story.events[0]?.traceId;
    const first = story.spans.filter(({ traceId }) => traceId === firstTraceId);
    expect(new Set(story.spans.map(nameOf)).size).toBe(story.spans.length);
    // The calls of one reply stay together.
    expect(first.length).toBeLessThanOrEqual(Math.max(...sizes(plain)) + 4);
  }
});

proves(
  ["E82"],
  "emits only persisted spans if the store fails and the process lives on",
  async () => {
    const { appends } = await moved([]);
    for (const how of DEATHS) {
      for (let at = 1; at <= appends; at += 1) {
        const clock = new ManualClock(1_000);
        const store = memoryStore({ clock });
        const exporter = new InMemorySpanExporter();
        const tracer = new NodeTracerProvider({
          spanProcessors: [new SimpleSpanProcessor(exporter)],
          idGenerator: traceIdGenerator,
        }).getTracer("test");
        const role = leadOfReaders();
        const ids = sequentialIds();
        const failing = dyingStore(store, { at, how }).store;
        const tracing = openTelemetry({ tracer });
        const first = new Orchestrator({ clock, ids, store: failing, tracing }).start(role, "Go.");
        await first.result.catch(() => undefined);
        await turns(5);
        const before = exporter.getFinishedSpans().map(recorded);
        const kept = await storedEvents(store, first.runId).catch(() => []);
        const ended = new Set(kept.filter(({ type }) => !OPENING.has(type)).map(nameOf));
        expect(before.filter((span) => !ended.has(nameOf(span)))).toEqual([]);
        expect(tracing).toMatchObject({ openSpans: 0 });
      }
    }
  },
);

/**
 * Creates a run whose store contains only the records before its first event, as when many runs
 * start at once.
 */
async function keptWithoutEvents(store: Store, options: StartOptions): Promise<Run["runId"]> {
  const elsewhere = memoryStore({ clock: new ManualClock() });
  const whole = new Orchestrator({ store: elsewhere, ids: sequentialIds() });
  const { runId, result } = whole.start(leadOfReaders(), "Go.", options);
  await result;
  const records = await storedRecords(elsewhere, runId);
  const codec = new RecordCodec();
  const first = records.findIndex(({ type }) => type === "event");
  for (const record of records.slice(0, first)) codec.add(record);
  const ownership = await store.create(runId, "lead: Go.", createOwner());
  await store.append(ownership, { firstNumber: 1, records: codec.take() });
  return runId;
}

describe("the option `traceparent`", () => {
  const sampled = `00-${TRACE_ID}-${SPAN_ID}-01`;
  const unsampled = `00-${TRACE_ID}-${SPAN_ID}-00`;

  proves(["E83"], "places the run below its span, through any move", async () => {
    for (const parting of await partings(5)) {
      // A run that was never persisted is started again.
      const story = await moved([parting], { traceparent: sampled });
      checkEvents(story.events);
      checkSpans(story, SPAN_ID);
      const [started] = story.events;
      expect(started).toMatchObject({ traceId: TRACE_ID, traceparent: sampled });
    }
  });

  proves(
    ["E83"],
    "places the run below its span even if its process died before its first event was persisted",
    async () => {
      for (const isLocal of [true, false]) {
        const clock = new ManualClock(1_000);
        const store = memoryStore({ clock });
        const runId = await keptWithoutEvents(store, { traceparent: sampled });
        const exporter = new InMemorySpanExporter();
        const tracer = new NodeTracerProvider({
          spanProcessors: [new SimpleSpanProcessor(exporter)],
          idGenerator: traceIdGenerator,
        }).getTracer("test");
        const orchestrator = new Orchestrator({
          clock,
          store,
          roles: [leadOfReaders()],
          ...(isLocal ? {} : { tracing: openTelemetry({ tracer }) }),
        });
        const run = await orchestrator.resume(runId, { takeOver: true });
        await run.result;
        const spans = exporter.getFinishedSpans().map(recorded);
        const events = await storedEvents(store, runId);
        checkEvents(events);
        if (!isLocal) checkSpans({ spans, events, appends: 0 }, SPAN_ID);
        expect(events[0]).toMatchObject({
          type: "run.started",
          traceId: TRACE_ID,
          parentSpanId: SPAN_ID,
          traceparent: sampled,
        });
      }
    },
  );

  proves(["E83"], "leaves the run unsampled in every process if its flag says so", async () => {
    for (const parting of await partings(5)) {
      const { spans, events } = await moved([parting], { traceparent: unsampled });
      expect(spans).toEqual([]);
      checkEvents(events);
      expect(events[0]).toMatchObject({ traceId: TRACE_ID, isSampled: false });
    }
  });

  proves(["E83"], "places events in its trace without OpenTelemetry", async () => {
    for (const parting of await partings(5)) {
      const { events } = await moved([parting], { traceparent: sampled, isLocal: true });
      checkEvents(events);
      expect(events[0]).toMatchObject({ traceId: TRACE_ID, parentSpanId: SPAN_ID });
    }
  });

  proves(["E83"], "has precedence over an active span", async () => {
    const provider = new NodeTracerProvider();
    provider.register();
    const active = {
      traceId: "c".repeat(32),
      spanId: "d".repeat(16),
      traceFlags: TraceFlags.SAMPLED,
    };
    const story = await context.with(trace.setSpanContext(ROOT_CONTEXT, active), () =>
      moved([{ leavesAt: 8 }], { traceparent: sampled }),
    );
    for (const api of [context, trace]) api.disable();
    checkSpans(story, SPAN_ID);
  });

  const MALFORMED: readonly unknown[] = [
    "",
    TRACE_ID,
    sampled.toUpperCase(),
    `01-${TRACE_ID}-${SPAN_ID}-01`,
    `ff-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${"0".repeat(32)}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${"0".repeat(16)}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-1`,
    `00-${TRACE_ID}-${SPAN_ID}-01-more`,
    ` ${sampled}`,
    null,
    5,
    { traceId: TRACE_ID },
  ];

  test.each(MALFORMED)("is rejected before anything has happened: %j", (traceparent) => {
    const store = memoryStore({ clock: new ManualClock() });
    const ids = sequentialIds();
    const orchestrator = new Orchestrator({ store, ids });
    const options: object = { traceparent };
    const error = thrownBy(() => orchestrator.start(leadOfReaders(), "Go.", options));
    expect(error).toMatchObject({ code: "invalid_argument", data: { field: "traceparent" } });
    expect(error.message).toMatch(
      /^Expected traceparent to be a traceparent of version 00: .*Leave it out/u,
    );
    expect(ids.next("run")).toBe("run_1");
  });

  proves(["E84"], "ignores flags other than the one for sampling", async () => {
    const { events } = await moved([], { traceparent: `00-${TRACE_ID}-${SPAN_ID}-fe` });
    expect(events[0]).toMatchObject({ traceId: TRACE_ID, isSampled: false });
  });
});
