// Goal (E3): spans that were open when their process died are ended once, by the process that recovers the run, under the ids that the
// events of the run say; the tree is whole in every trace.
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
import { defineAgent } from "../../src/agent/define-agent.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { OpenSpans } from "../../src/orchestrator/durability/open-spans.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { openTelemetry, runIdGenerator } from "../../src/telemetry/otel.ts";
import { SpanProjector } from "../../src/telemetry/spans/span-projector.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { proves } from "../harness/proves.ts";
import { turns } from "../journal/crash-play.ts";
import { dyingStore, type Kill } from "../journal/dying-store.ts";
import { eventsIn } from "../journal/stored-story.ts";
import { storedRecords } from "../journal/stored-events.ts";
import { countedTool, spawnCall, thinker } from "../journal/thinkers.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { mortalTracing } from "./mortal-tracing.ts";
import { timeFaults } from "./span-times.ts";
import { recorded, type RecordedSpan } from "./recorded-spans.ts";

/** A lead with two readers, each of which uses a tool; one of them works in the background. */
function leadOf(): AgentRole {
  const reader = defineAgent({
    name: "reader",
    purpose: "Reads.",
    instructions: "You read.",
    model: thinker("reader-model", ({ results }) =>
      results.length === 0 ? { calls: [["look", { thing: "it" }]] } : { text: "Read." },
    ),
    tools: [countedTool(new Map(), "look", () => Promise.resolve("seen"))],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead-model", ({ results }) => {
      if (results.length > 0) return { text: "Done." };
      const [name, input] = spawnCall("reader", "One.");
      return { calls: [spawnCall("reader", "Two."), [name, { ...input, background: true }]] };
    }),
    subagents: [reader],
    delegation: { background: true },
  });
}

interface Told {
  readonly spans: readonly RecordedSpan[];
  readonly events: readonly EspalierEvent[];
  readonly appends: number;
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
    ...(hasOwnIds ? {} : { idGenerator: runIdGenerator }),
  });
  const tracer = provider.getTracer("test");
  const store = memoryStore({ clock: new ManualClock() });
  const ids = sequentialIds();
  const clock = new ManualClock(startMs);
  let runId: Run["runId"] | undefined;
  let appends = 0;
  for (const kill of [...kills, undefined]) {
    const dying = dyingStore(store, kill);
    const tracing = mortalTracing(openTelemetry({ tracer, maxSpansPerTrace }), () => dying.isDead);
    const role = leadOf();
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
  }
  const events = runId === undefined ? [] : eventsIn(await storedRecords(store, runId));
  return { spans: exporter.getFinishedSpans().map(recorded), events, appends };
}

async function begun(
  orchestrator: Orchestrator,
  role: AgentRole,
  runId: Run["runId"] | undefined,
): Promise<Run | undefined> {
  if (runId === undefined) return orchestrator.start(role, "Go.");
  try {
    return await orchestrator.recover(runId, { takeOver: true });
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

/** Every trace is a whole tree, and every span of which the journal knows was emitted. Gives spans that were emitted twice. */
function checkWhole({ spans, events }: Told): readonly (readonly RecordedSpan[])[] {
  const byId = Map.groupBy(spans, ({ traceId, spanId }) => `${traceId} ${spanId}`);
  const orphans = spans.filter(
    ({ traceId, parentSpanId }) =>
      parentSpanId !== undefined && !byId.has(`${traceId} ${parentSpanId}`),
  );
  expect(orphans).toEqual([]);
  const untold = events.filter(
    ({ type, traceId, spanId }) => OPENINGS.has(type) && !byId.has(`${traceId} ${spanId}`),
  );
  expect(untold).toEqual([]);
  return [...byId.values()].filter((same) => same.length > 1);
}

test("killed at any append, after it was kept: every span is emitted once, and no tree has a gap", async () => {
  const plain = await told([]);
  expect(checkWhole(plain)).toEqual([]);
  let crashed = 0;
  for (let at = 1; at <= plain.appends; at += 1) {
    const story = await told([{ at, how: "after" }]);
    expect(checkWhole(story), `killed after append ${at}`).toEqual([]);
    expect(timeFaults(story.spans), `killed after append ${at}`).toEqual([]);
    crashed += story.spans.filter(isCrashed).length;
  }
  expect(crashed).toBeGreaterThan(plain.appends);
});

test("before it was kept: what was emitted of the lost events is emitted again, nothing else is emitted twice", async () => {
  const plain = await told([]);
  let again = 0;
  for (let at = 1; at <= plain.appends; at += 1) {
    const twice = checkWhole(await told([{ at, how: "before" }]));
    for (const same of twice) expect(same.map(isReplayed)).toEqual([false, true]);
    again += twice.length;
  }
  expect(again).toBeGreaterThan(0);
});

test("a recovery of which nothing was kept is emitted again by the next one, word for word", async () => {
  const story = await told([
    { at: 6, how: "after" },
    { at: 1, how: "before" },
  ]);
  const byId = Map.groupBy(story.spans.filter(isCrashed), ({ spanId }) => spanId);
  const twice = [...byId.values()].filter((same) => same.length > 1);
  expect(twice.length).toBeGreaterThan(0);
  for (const [first, ...others] of twice) expect(others).toEqual([first]);
});

proves(
  ["X18"],
  "what lost calls are charged stands on spans, too: once, and as an estimate",
  async () => {
    const plain = await told([]);
    let lost = 0;
    for (let at = 1; at <= plain.appends; at += 1) {
      for (const how of ["before", "after"] as const) {
        const { spans, events } = await told([{ at, how }]);
        const ended = events.findLast((event) => event.type === "run.ended");
        const calls = spans.filter(({ name }) => name.startsWith("chat ")).filter(isOfKept(events));
        const sum = (key: string): number =>
          calls.reduce((total, { attributes }) => total + Number(attributes[key] ?? 0), 0);
        expect({
          inputTokens: sum("gen_ai.usage.input_tokens"),
          outputTokens: sum("gen_ai.usage.output_tokens"),
        }).toEqual({
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
    "both traces are emitted or none, also with ids of the provider's own: %s",
    async (hasOwnIds) => {
      const counts = new Set<number>();
      for (let index = 0; index < 24; index += 1) {
        const options = { sampler: half, hasOwnIds, startMs: 1_000 + index };
        const { spans } = await told([{ at: 6, how: "after" }], options);
        const runs = spans.filter(({ name }) => name === "invoke_workflow lead");
        expect([0, 2]).toContain(runs.length);
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
    expect(checkWhole(story), `killed after append ${at}`).toEqual([]);
    const runs = story.events.filter(({ type }) => type.startsWith("run."));
    expect(new Set(runs.map(({ traceId }) => traceId)).size).toBe(
      runs.filter(({ type }) => type !== "run.ended").length,
    );
  }
});

test("a tree that was split is whole in each of its traces", async () => {
  const plain = await told([], { maxSpansPerTrace: 3 });
  expect(new Set(plain.spans.map(({ traceId }) => traceId)).size).toBeGreaterThan(1);
  for (let at = 1; at <= plain.appends; at += 1) {
    const story = await told([{ at, how: "after" }], { maxSpansPerTrace: 3 });
    expect(checkWhole(story)).toEqual([]);
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

/** What a process that died in the middle leaves open: its events, on one session, all in one span as after a tracing that failed. */
function leftOpen(): OpenSpans {
  const events = sampleEvents((run) => {
    run.started();
    run.root.started();
    run.root.asks();
  });
  const open = new OpenSpans();
  for (const event of events) {
    const told_ = event.type === "run.started" ? { sessionId: "thread-7", isSampled: true } : {};
    open.take({ ...event, ...told_ });
  }
  return open;
}

test("what is emitted again says the session of its run", () => {
  const sessions = leftOpen()
    .lost()
    .map(({ body, conversationId }) => [body.type, conversationId]);
  expect(sessions).toEqual([
    ["run.started", "thread-7"],
    ["agent.started", "thread-7"],
    ["model.requested", "thread-7"],
  ]);
});

test("where the events of a process stood in one span, one is emitted", () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    idGenerator: runIdGenerator,
  });
  const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
  projector.endLost(leftOpen().lost(), 5_000);
  expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(["invoke_workflow lead"]);
});

test("below a span of the caller: it stands there again, and the resumed run in a trace of its own", async () => {
  new NodeTracerProvider().register();
  const { spans } = await told([{ at: 6, how: "after" }], { caller: CALLER });
  for (const api of [context, trace, propagation]) api.disable();
  const roots = spans.filter(({ name }) => name === "invoke_workflow lead");
  expect(
    roots.map(({ traceId, parentSpanId }) => [traceId === CALLER.traceId, parentSpanId]),
  ).toEqual([
    [true, CALLER.spanId],
    [false, undefined],
  ]);
  expect(roots.map(isCrashed)).toEqual([true, false]);
  const first = roots[0] ?? expect.fail("no span");
  expect(roots[1]?.links).toEqual([
    {
      traceId: first.traceId,
      spanId: first.spanId,
      attributes: { "espalier.link.type": "resumes" },
    },
  ]);
});

test("a process that lives on without its store keeps nothing of the run, and ends none of its spans", async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
  const { store } = dyingStore(memoryStore({ clock: new ManualClock() }), { at: 4, how: "before" });
  const clock = new ManualClock();
  const run = new Orchestrator({ clock, store, tracing: projector }).start(leadOf(), "Go.");
  await expect(run.result).rejects.toMatchObject({ code: "store_failed" });
  await turns(5);
  expect(projector.openSpans).toBe(0);
  const told_ = exporter.getFinishedSpans().map(({ name }) => name.split(" ")[0]);
  expect(told_.filter((name) => name !== "chat" && name !== "execute_tool")).toEqual([]);
});

function isReplayed({ attributes }: RecordedSpan): boolean {
  return attributes["espalier.replayed"] === true;
}

function isCrashed({ attributes }: RecordedSpan): boolean {
  return attributes["espalier.outcome"] === "crashed" && attributes["espalier.replayed"] === true;
}
