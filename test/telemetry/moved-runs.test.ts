// Goal (E80 to E84): a run that is led by one process after another is one trace, below the span that its caller named.
// Method: processes are orchestrators of their own, each with a provider and a projector of its own, over one store; the first dies at any of
// its appends, or gives the run up at any of its events. What both emitted is compared with what the log says.

import { TraceFlags, context, trace, ROOT_CONTEXT } from "@opentelemetry/api";
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { describe, expect, test } from "vitest";

import { EspalierError } from "../../src/kernel/error.ts";
import { createOwner } from "../../src/orchestrator/durability/open-journal.ts";
import { RecordCodec } from "../../src/orchestrator/durability/record-codec.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { StartOptions } from "../../src/orchestrator/run/start-options.ts";
import type { EspalierEvent, TraceIds } from "../../src/protocol/event.ts";
import type { Tracing } from "../../src/protocol/tracing.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import type { Store } from "../../src/store/store.ts";
import { openTelemetry, traceIdGenerator } from "../../src/telemetry/otel.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { proves } from "../harness/proves.ts";
import { turns } from "../journal/crash-play.ts";
import { DEATHS, dyingStore, type Kill } from "../journal/dying-store.ts";
import { storedEvents, storedRecords } from "../journal/stored-events.ts";
import { thrownBy } from "../support/thrown.ts";
import { leadOfReaders } from "./lead-of-readers.ts";
import { mortalTracing } from "./mortal-tracing.ts";
import { recorded, type RecordedSpan } from "./recorded-spans.ts";
import { timeFaults } from "./span-times.ts";

const TRACE_ID = "a".repeat(32);
const SPAN_ID = "b".repeat(16);

/** How a process ends: it dies, or it gives the run up once an event of this number has happened. */
type Parting = Kill | { readonly leavesAt: number };

interface HowMoved {
  readonly traceparent?: string;
  /** Default: with OpenTelemetry. */
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

/** One list of events, in one trace, with an id of its own for each span. */
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

/** One tree, in which every event has its span. `rootParent`: what the run stands below. */
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

/** Partings of the first process: it leaves at any event, or dies before any append. `every`: so many of them are one. */
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
  "left at any event or killed before any append: both processes made one tree, and one list of events",
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

proves(["E80", "E81"], "the same through four processes", async () => {
  const { appends } = await moved([]);
  for (let at = 1; at <= appends; at += 6) {
    const story = await moved([{ at, how: "before" }, { leavesAt: 1 }, { at: 3, how: "before" }]);
    checkEvents(story.events);
    checkSpans(story, undefined);
  }
});

proves(["E80", "E81"], "without OpenTelemetry the ids of events say the same", async () => {
  for (const parting of await partings(5)) {
    const { spans, events } = await moved([parting], { isLocal: true });
    expect(spans).toEqual([]);
    checkEvents(events);
  }
});

proves(["E81"], "a trace that moved is as large as one that did not", async () => {
  const plain = await moved([], { maxSpansPerTrace: 8 });
  const sizes = ({ spans }: Moved): readonly number[] =>
    [...Map.groupBy(spans, ({ traceId }) => traceId).values()].map(({ length }) => length);
  expect(sizes(plain).length).toBeGreaterThan(1);
  for (const parting of await partings(5)) {
    const story = await moved([parting], { maxSpansPerTrace: 8 });
    const firstTraceId = story.events[0]?.traceId;
    const first = story.spans.filter(({ traceId }) => traceId === firstTraceId);
    expect(new Set(story.spans.map(nameOf)).size).toBe(story.spans.length);
    // The calls of one reply stand together.
    expect(first.length).toBeLessThanOrEqual(Math.max(...sizes(plain)) + 4);
  }
});

proves(
  ["E82"],
  "a process whose store fails, and that lives on, emits nothing that was not kept",
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

/** A run in the store of which only that is kept which stands before its first event, as where many runs begin at once. */
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

describe("traceparent", () => {
  const sampled = `00-${TRACE_ID}-${SPAN_ID}-01`;
  const unsampled = `00-${TRACE_ID}-${SPAN_ID}-00`;

  proves(["E83"], "the run stands below it, through any move", async () => {
    for (const parting of await partings(5)) {
      // What was never kept is started anew.
      const story = await moved([parting], { traceparent: sampled });
      checkEvents(story.events);
      checkSpans(story, SPAN_ID);
      const [started] = story.events;
      expect(started).toMatchObject({ traceId: TRACE_ID, traceparent: sampled });
    }
  });

  proves(
    ["E83"],
    "the run stands below it, too, where its process died before its first event was kept",
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
          type: "run.resumed",
          traceId: TRACE_ID,
          parentSpanId: SPAN_ID,
          traceparent: sampled,
        });
      }
    },
  );

  proves(["E83"], "one that was left out leaves the run out, wherever it is led", async () => {
    for (const parting of await partings(5)) {
      const { spans, events } = await moved([parting], { traceparent: unsampled });
      expect(spans).toEqual([]);
      checkEvents(events);
      expect(events[0]).toMatchObject({ traceId: TRACE_ID, isSampled: false });
    }
  });

  proves(["E83"], "without OpenTelemetry events are in its trace", async () => {
    for (const parting of await partings(5)) {
      const { events } = await moved([parting], { traceparent: sampled, isLocal: true });
      checkEvents(events);
      expect(events[0]).toMatchObject({ traceId: TRACE_ID, parentSpanId: SPAN_ID });
    }
  });

  proves(["E83"], "it goes before an active span", async () => {
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

  test.each(MALFORMED)("E84: %j is refused before anything has happened", (traceparent) => {
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

  proves(["E84"], "other flags than the one for sampling mean nothing", async () => {
    const { events } = await moved([], { traceparent: `00-${TRACE_ID}-${SPAN_ID}-fe` });
    expect(events[0]).toMatchObject({ traceId: TRACE_ID, isSampled: false });
  });
});
