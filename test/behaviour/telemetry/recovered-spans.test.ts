// Goal (E3): spans that were open when their process died are ended once, by the process that
// recovers the run, under the ids in the events of the run. The span of the run continues, and the
// tree is complete in every trace.
// Method: one run whose processes die at every append. Every process traces into the same exporter
// until it dies.

import {
  AlwaysOffSampler,
  InMemorySpanExporter,
  NodeTracerProvider,
  ParentBasedSampler,
  SimpleSpanProcessor,
  TraceIdRatioBasedSampler,
  type Sampler,
} from "@opentelemetry/sdk-trace-node";
import {
  context,
  propagation,
  ROOT_CONTEXT,
  trace,
  TraceFlags,
  type SpanContext,
} from "@opentelemetry/api";
import { describe, expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { EspalierEvent, TraceIds } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import type { Store } from "../../../src/store/store.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { openTelemetry, traceIdGenerator } from "../../../src/telemetry/otel.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { turns } from "../../support/journal/crash-play.ts";
import { DEATHS, dyingStore, type Kill } from "../../support/journal/dying-store.ts";
import { eventsIn } from "../../support/journal/stored-story.ts";
import { storedRecords } from "../../support/journal/stored-events.ts";
import { leadOfReaders } from "../../support/telemetry/lead-of-readers.ts";
import { mortalTracing } from "../../support/telemetry/mortal-tracing.ts";
import { timeFaults } from "../../support/telemetry/span-times.ts";
import { recorded, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";

interface Told {
  readonly spans: readonly RecordedSpan[];
  readonly events: readonly EspalierEvent[];
  readonly appends: number;
  /** Numbers of events that were persisted without their process learning of it before it died. */
  readonly unheard: ReadonlySet<number>;
}

const CALLER = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: TraceFlags.SAMPLED };

interface HowTold {
  /** The span below which the first process starts the run. */
  readonly caller?: SpanContext;
  readonly maxSpansPerTrace?: number;
  readonly sampler?: Sampler;
  /** Uses the provider's own ids. */
  readonly hasOwnIds?: boolean;
  readonly startMs?: number;
}

/** Plays a run whose processes die one after the other; the last one lives. */
async function told(kills: readonly Kill[], options: HowTold = {}): Promise<Told> {
  const { caller, maxSpansPerTrace = 5_000, sampler, hasOwnIds = false, startMs = 1_000 } = options;
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    ...(sampler === undefined ? {} : { sampler }),
    ...(hasOwnIds ? {} : { idGenerator: traceIdGenerator }),
  });
  const tracer = provider.getTracer("test");
  const store = memoryStore({ clock: new ManualClock() });
  const ids = sequentialIds();
  const clock = new ManualClock(startMs);
  let runId: Run["runId"] | undefined;
  let appends = 0;
  let heard = 0;
  const unheard = new Set<number>();
  for (const kill of [...kills, undefined]) {
    const dying = dyingStore(store, kill);
    const projector = openTelemetry({ tracer, maxSpansPerTrace });
    const tracing: Tracing = {
      ...mortalTracing(projector, () => dying.isDead),
      onPersisted: (id, seq) => {
        if (dying.isDead) return;
        heard = Math.max(heard, seq);
        projector.onPersisted?.(id, seq);
      },
    };
    const role = leadOfReaders();
    const orchestrator = new Orchestrator({
      clock,
      ids,
      store: dying.store,
      tracing,
      roles: [role],
    });
    const below =
      caller !== undefined && runId === undefined
        ? trace.setSpanContext(ROOT_CONTEXT, caller)
        : ROOT_CONTEXT;
    const run = await context.with(below, () => begun(orchestrator, role, runId));
    if (run === undefined) break;
    runId = run.runId;
    await run.result.catch((cause: unknown) => {
      if (!EspalierError.is(cause)) throw cause;
    });
    await turns(5);
    clock.advance(1_000);
    appends += dying.appends;
    for (const { seq } of await keptEvents(store, runId)) if (seq > heard) unheard.add(seq);
    heard = Math.max(heard, ...unheard);
  }
  const events = await keptEvents(store, runId);
  return { spans: exporter.getFinishedSpans().map(recorded), events, appends, unheard };
}

async function keptEvents(
  store: Store,
  runId: Run["runId"] | undefined,
): Promise<readonly EspalierEvent[]> {
  if (runId === undefined) return [];
  try {
    return eventsIn(await storedRecords(store, runId));
  } catch (cause) {
    if (EspalierError.is(cause) && cause.code === "unknown_run") return [];
    throw cause;
  }
}

async function begun(
  orchestrator: Orchestrator,
  role: AgentRole,
  runId: Run["runId"] | undefined,
): Promise<Run | undefined> {
  if (runId === undefined) return orchestrator.start(role, "Go.");
  try {
    return await orchestrator.resume(runId, { takeOver: true });
  } catch (cause) {
    if (EspalierError.is(cause) && cause.code === "unknown_run")
      return orchestrator.start(role, "Go.");
    if (EspalierError.is(cause) && cause.code === "run_ended") return undefined;
    throw cause;
  }
}

const OPENINGS: ReadonlySet<string> = new Set([
  "run.started",
  "run.resumed",
  "agent.started",
  "agent.resumed",
  "model.requested",
  "tool.started",
  "tool.resumed",
]);

const ENDINGS: ReadonlySet<string> = new Set([
  "run.ended",
  "agent.ended",
  "model.replied",
  "model.failed",
  "tool.ended",
]);

type Ids = Pick<TraceIds, "traceId" | "spanId">;

function nameOf({ traceId, spanId }: Ids): string {
  return `${traceId} ${spanId}`;
}

/**
 * Checks that no span was emitted twice, that all are one tree in each trace, and that all spans in
 * the journal were emitted. Exempt are spans whose end was persisted without their process learning
 * of it.
 */
function checkWhole({ spans, events, unheard }: Told): void {
  const names = new Set(spans.map(nameOf));
  expect(spans.length).toBe(names.size);
  const lost = new Set(
    events
      .filter(({ type, seq }) => ENDINGS.has(type) && unheard.has(seq))
      .flatMap((event) => [event, ...callsOf(event, events)])
      .map(nameOf),
  );
  const orphans = spans.filter(({ traceId, parentSpanId: spanId }) => {
    const parent = spanId === undefined ? undefined : nameOf({ traceId, spanId });
    return parent !== undefined && !names.has(parent) && !lost.has(parent);
  });
  expect(orphans).toEqual([]);
  const untold = events.filter(
    (event) => OPENINGS.has(event.type) && !names.has(nameOf(event)) && !lost.has(nameOf(event)),
  );
  expect(untold).toEqual([]);
}

/** Returns the calls whose span ends with the subagent that they started. */
function callsOf(ended: EspalierEvent, events: readonly EspalierEvent[]): readonly EspalierEvent[] {
  if (ended.type !== "agent.ended") return [];
  const callIds = events.flatMap((event) =>
    event.type === "agent.started" && event.agentId === ended.agentId ? [event.spawnCallId] : [],
  );
  return events.filter(
    ({ type, agentId, callId }) =>
      type === "tool.started" && agentId === ended.parentAgentId && callIds.includes(callId),
  );
}

proves(
  ["E80", "E82"],
  "emits every span once, in one trace without a gap, if its process is killed before any append",
  async () => {
    const plain = await told([]);
    checkWhole(plain);
    let crashed = 0;
    for (let at = 1; at <= plain.appends; at += 1) {
      const story = await told([{ at, how: "before" }]);
      expect(story.unheard, `killed before append ${at}`).toEqual(new Set());
      checkWhole(story);
      expect(timeFaults(story.spans), `killed before append ${at}`).toEqual([]);
      expect(new Set(story.spans.map(({ traceId }) => traceId)).size).toBe(1);
      expect(story.spans.filter(isRun).map(({ parentSpanId }) => parentSpanId)).toEqual([
        undefined,
      ]);
      crashed += story.spans.filter(isCrashed).length;
    }
    expect(crashed).toBeGreaterThan(plain.appends);
  },
);

proves(
  ["E82"],
  "loses only spans that ended with an append that was persisted but not acknowledged",
  async () => {
    const plain = await told([]);
    let unheard = 0;
    for (let at = 1; at <= plain.appends; at += 1) {
      const story = await told([{ at, how: "after" }]);
      checkWhole(story);
      expect(timeFaults(story.spans), `killed after append ${at}`).toEqual([]);
      expect(new Set(story.spans.map(({ traceId }) => traceId)).size).toBeLessThan(2);
      unheard += story.unheard.size;
    }
    expect(unheard).toBeGreaterThan(plain.appends);
  },
);

test("emits nothing for a recovery that was not persisted", async () => {
  for (const how of DEATHS) {
    const story = await told([
      { at: 6, how },
      { at: 1, how: "before" },
    ]);
    checkWhole(story);
    expect(story.spans.filter(isCrashed).length).toBeGreaterThan(0);
  }
});

proves(["X18"], "records the charges of lost calls on spans once, as an estimate", async () => {
  const plain = await told([]);
  let lost = 0;
  for (let at = 1; at <= plain.appends; at += 1) {
    for (const how of DEATHS) {
      const { spans, events, unheard } = await told([{ at, how }]);
      const untold = events.flatMap((event) =>
        event.type === "model.replied" && unheard.has(event.seq) ? [event.usage] : [],
      );
      const ended = events.findLast((event) => event.type === "run.ended");
      const calls = spans.filter(({ name }) => name.startsWith("chat ")).filter(isOfKept(events));
      const sum = (key: "input" | "output"): number => {
        const name = `gen_ai.usage.${key}_tokens`;
        return (
          calls.reduce((total, { attributes }) => total + Number(attributes[name] ?? 0), 0) +
          untold.reduce((total, usage) => total + usage[`${key}Tokens`], 0)
        );
      };
      expect({ inputTokens: sum("input"), outputTokens: sum("output") }).toEqual({
        inputTokens: ended?.usage.total.inputTokens,
        outputTokens: ended?.usage.total.outputTokens,
      });
      lost += calls.filter(
        ({ attributes }) => attributes["espalier.usage.estimated"] === true,
      ).length;
    }
  }
  expect(lost).toBeGreaterThan(0);
});

/**
 * True for spans of calls that ended according to the journal. Others were lost together with their
 * ends.
 */
function isOfKept(events: readonly EspalierEvent[]): (span: RecordedSpan) => boolean {
  const kept = new Set(
    events.flatMap(({ type, traceId, spanId }) =>
      type === "model.replied" || type === "model.failed" ? [`${traceId} ${spanId}`] : [],
    ),
  );
  return ({ traceId, spanId, attributes }) =>
    kept.has(`${traceId} ${spanId}`) || attributes["espalier.usage.estimated"] === true;
}

describe("a recovered run whose traces are sampled", () => {
  const never: Sampler = new ParentBasedSampler({ root: new AlwaysOffSampler() });
  const half: Sampler = new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(0.5) });

  test("emits nothing in any process if its trace is not sampled", async () => {
    expect((await told([{ at: 6, how: "after" }], { sampler: never })).spans).toEqual([]);
    expect(
      (await told([{ at: 6, how: "after" }], { sampler: never, hasOwnIds: true })).spans,
    ).toEqual([]);
  });

  test("emits nothing below a caller whose span is not sampled", async () => {
    new NodeTracerProvider().register();
    const caller = { ...CALLER, traceFlags: TraceFlags.NONE };
    const { spans } = await told([{ at: 6, how: "after" }], { caller });
    for (const api of [context, trace, propagation]) api.disable();
    expect(spans).toEqual([]);
  });

  test.each([false, true])(
    "emits all of its spans or none, with the provider's own ids: %s",
    async (hasOwnIds) => {
      const counts = new Set<number>();
      for (let index = 0; index < 24; index += 1) {
        const options = { sampler: half, hasOwnIds, startMs: 1_000 + index };
        const { spans } = await told([{ at: 6, how: "after" }], options);
        const runs = spans.filter(isRun);
        expect([0, 1]).toContain(runs.length);
        counts.add(runs.length);
      }
      expect(counts.size).toBe(2);
    },
  );
});

test("emits a split tree only in its own traces, with the provider's own ids", async () => {
  for (let at = 1; at <= 8; at += 1) {
    const { spans, events } = await told([{ at, how: "after" }], {
      maxSpansPerTrace: 3,
      hasOwnIds: true,
    });
    const known = new Set(events.map(({ traceId }) => traceId));
    expect(spans.filter(({ traceId }) => !known.has(traceId))).toEqual([]);
  }
});

test("emits the spans of a process that dies while it recovers in the next process", async () => {
  const plain = await told([]);
  for (let at = 2; at < plain.appends; at += 1) {
    const story = await told([
      { at, how: "after" },
      { at: 2, how: "after" },
      { at: 3, how: "after" },
    ]);
    checkWhole(story);
    const runs = story.events.filter(({ type }) => type.startsWith("run."));
    expect(new Set(runs.map(nameOf)).size).toBe(1);
  }
});

test("emits a split tree completely in each of its traces", async () => {
  const plain = await told([], { maxSpansPerTrace: 3 });
  expect(new Set(plain.spans.map(({ traceId }) => traceId)).size).toBeGreaterThan(1);
  for (let at = 1; at <= plain.appends; at += 1) {
    const story = await told([{ at, how: "before" }], { maxSpansPerTrace: 3 });
    checkWhole(story);
    expect(timeFaults(story.spans)).toEqual([]);
    expect(linked(story.spans, "continues_in")).toEqual(
      linked(story.spans, "continues_from").map(([later, earlier]) => [earlier, later]),
    );
  }
});

/**
 * Returns the pairs of spans that links of this type connect, in the order in which the traces
 * continue.
 */
function linked(spans: readonly RecordedSpan[], meaning: string): readonly (readonly string[])[] {
  const pairs = spans.flatMap(({ spanId, links }) =>
    links
      .filter(({ attributes }) => attributes["espalier.link.type"] === meaning)
      .map((link) => [spanId, link.spanId]),
  );
  return pairs.toSorted((left, right) =>
    left.toSorted().join() < right.toSorted().join() ? -1 : 1,
  );
}

test("continues a run below the span of its caller", async () => {
  new NodeTracerProvider().register();
  const { spans } = await told([{ at: 6, how: "after" }], { caller: CALLER });
  for (const api of [context, trace, propagation]) api.disable();
  const runs = spans.filter(isRun);
  expect(runs.map(({ traceId, parentSpanId }) => ({ traceId, parentSpanId }))).toEqual([
    { traceId: CALLER.traceId, parentSpanId: CALLER.spanId },
  ]);
  expect(
    runs.map(({ links, attributes }) => [links, attributes["espalier.run.recoveries"]]),
  ).toEqual([[[], 1]]);
});

test("discards the open spans of a run whose store fails, without ending spans of agents", async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
  const { store } = dyingStore(memoryStore({ clock: new ManualClock() }), { at: 4, how: "before" });
  const clock = new ManualClock();
  const run = new Orchestrator({ clock, store, tracing: projector }).start(leadOfReaders(), "Go.");
  await expect(run.result).rejects.toMatchObject({ code: "store_failed" });
  await turns(5);
  expect(projector.openSpans).toBe(0);
  const told_ = exporter.getFinishedSpans().map(({ name }) => name.split(" ")[0]);
  expect(told_.filter((name) => name !== "chat" && name !== "execute_tool")).toEqual([]);
});

function isRun({ name }: RecordedSpan): boolean {
  return name === "invoke_workflow lead";
}

function isCrashed({ attributes }: RecordedSpan): boolean {
  return attributes["espalier.outcome"] === "crashed" && attributes["espalier.replayed"] === true;
}
