// Goal (E3): spans that were open when their process died are ended once, by the process that recovers the run, under the ids that the
// events of the run say; that of the run continues; the tree is whole in every trace.
// Method: one run through deaths of its processes at every append; every process traces into the same exporter until it dies.

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

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { EspalierEvent, TraceIds } from "../../src/protocol/event.ts";
import type { Tracing } from "../../src/protocol/tracing.ts";
import type { Store } from "../../src/store/store.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { openTelemetry, traceIdGenerator } from "../../src/telemetry/otel.ts";
import { SpanProjector } from "../../src/telemetry/spans/span-projector.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { proves } from "../harness/proves.ts";
import { turns } from "../journal/crash-play.ts";
import { DEATHS, dyingStore, type Kill } from "../journal/dying-store.ts";
import { eventsIn } from "../journal/stored-story.ts";
import { storedRecords } from "../journal/stored-events.ts";
import { leadOfReaders } from "./lead-of-readers.ts";
import { mortalTracing } from "./mortal-tracing.ts";
import { timeFaults } from "./span-times.ts";
import { recorded, type RecordedSpan } from "./recorded-spans.ts";

interface Told {
  readonly spans: readonly RecordedSpan[];
  readonly events: readonly EspalierEvent[];
  readonly appends: number;
  /** Numbers of events that were kept when their process died before it learned so. */
  readonly unheard: ReadonlySet<number>;
}

const CALLER = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: TraceFlags.SAMPLED };

interface HowTold {
  /** The span below which the first process starts the run. */
  readonly caller?: SpanContext;
  readonly maxSpansPerTrace?: number;
  readonly sampler?: Sampler;
  /** Ids are the provider's own. */
  readonly hasOwnIds?: boolean;
  readonly startMs?: number;
}

/** Plays a run whose processes die, one after the other; the last one lives. */
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
 * No span was emitted twice, all are one tree in each trace, and all that the journal knows were emitted; but for those whose end was kept
 * without their process knowing so.
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

/** The span of a call that started a subagent ends with that. */
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
  "killed before any append: every span is emitted once, in one trace, without a gap",
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
  "killed when an append was kept and not acknowledged: only what ended with it is lost",
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

test("a recovery of which nothing was kept emits nothing", async () => {
  for (const how of DEATHS) {
    const story = await told([
      { at: 6, how },
      { at: 1, how: "before" },
    ]);
    checkWhole(story);
    expect(story.spans.filter(isCrashed).length).toBeGreaterThan(0);
  }
});

proves(
  ["X18"],
  "what lost calls are charged stands on spans, too: once, and as an estimate",
  async () => {
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
  },
);

/** True for spans whose call came to an end of which the journal knows: others were lost, and their ends with them. */
function isOfKept(events: readonly EspalierEvent[]): (span: RecordedSpan) => boolean {
  const kept = new Set(
    events.flatMap(({ type, traceId, spanId }) =>
      type === "model.replied" || type === "model.failed" ? [`${traceId} ${spanId}`] : [],
    ),
  );
  return ({ traceId, spanId, attributes }) =>
    kept.has(`${traceId} ${spanId}`) || attributes["espalier.usage.estimated"] === true;
}

describe("of a trace that a sampler left out", () => {
  const never: Sampler = new ParentBasedSampler({ root: new AlwaysOffSampler() });
  const half: Sampler = new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(0.5) });

  test("nothing is emitted, by any process that recovers the run", async () => {
    expect((await told([{ at: 6, how: "after" }], { sampler: never })).spans).toEqual([]);
    expect(
      (await told([{ at: 6, how: "after" }], { sampler: never, hasOwnIds: true })).spans,
    ).toEqual([]);
  });

  test("nor of a run below a caller whose span was left out", async () => {
    new NodeTracerProvider().register();
    const caller = { ...CALLER, traceFlags: TraceFlags.NONE };
    const { spans } = await told([{ at: 6, how: "after" }], { caller });
    for (const api of [context, trace, propagation]) api.disable();
    expect(spans).toEqual([]);
  });

  test.each([false, true])(
    "all of it is emitted or nothing, also with ids of the provider's own: %s",
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

test("with ids of the provider's own, a tree that was split keeps to its traces", async () => {
  for (let at = 1; at <= 8; at += 1) {
    const { spans, events } = await told([{ at, how: "after" }], {
      maxSpansPerTrace: 3,
      hasOwnIds: true,
    });
    const known = new Set(events.map(({ traceId }) => traceId));
    expect(spans.filter(({ traceId }) => !known.has(traceId))).toEqual([]);
  }
});

test("spans of a process that dies while it recovers are emitted by the next one", async () => {
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

test("a tree that was split is whole in each of its traces", async () => {
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

/** From which span to which the links of a meaning go, in the order of where trace continues in trace. */
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

test("below a span of the caller it goes on there", async () => {
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

test("a process that lives on without its store keeps nothing of the run, and ends none of its spans", async () => {
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
