// Goal: the invariants of the spans of every run, whatever happened in it.
// Method: the stories of the golden spans in memory, with every event beside its span; and
// providers with their own ids or samplers.

import { context, propagation, ROOT_CONTEXT, trace, TraceFlags } from "@opentelemetry/api";
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  ParentBasedSampler,
  SimpleSpanProcessor,
  TraceIdRatioBasedSampler,
  type Sampler,
} from "@opentelemetry/sdk-trace-node";
import { afterEach, describe, expect, test } from "vitest";

import type { EventDraft, TraceIds } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import {
  openTelemetry,
  traceIdGenerator,
  type OpenTelemetryOptions,
} from "../../../src/telemetry/otel.ts";
import { deriveTraceId } from "../../../src/telemetry/spans/derived-ids.ts";
import { proves } from "../../harness/proves.ts";
import { placeAll, recorded, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import { pausedRun } from "../../support/telemetry/paused-run.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";
import { SPAN_STORIES, type NewTracing } from "../../support/telemetry/span-stories.ts";
import { wideRun } from "../../support/telemetry/wide-run.ts";

afterEach(() => {
  for (const api of [context, trace, propagation]) api.disable();
});

interface Fixture {
  readonly newTracing: NewTracing;
  readonly spans: readonly RecordedSpan[];
  readonly events: readonly (EventDraft & TraceIds)[];
}

interface FixtureOptions {
  readonly sampler?: Sampler;
  /** Uses the provider's own ids. */
  readonly hasOwnIds?: boolean;
  readonly options?: OpenTelemetryOptions;
}

/** Creates an SDK in memory, which records what a story emits. */
function setUp({ sampler, hasOwnIds = false, options = {} }: FixtureOptions = {}): Fixture {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    ...(sampler === undefined ? {} : { sampler }),
    ...(hasOwnIds ? {} : { idGenerator: traceIdGenerator }),
  });
  const events: (EventDraft & TraceIds)[] = [];
  const newTracing = (): Tracing => {
    const tracing = openTelemetry({ ...options, tracer: provider.getTracer("test") });
    return {
      traceEvent: (draft) => {
        const ids = tracing.traceEvent(draft);
        events.push({ ...draft, ...ids });
        return ids;
      },
      runInSpan: (scope, work) => tracing.runInSpan(scope, work),
      getIds: (scope) => tracing.getIds(scope),
      endLostSpans: (lost, atUs) => tracing.endLostSpans?.(lost, atUs),
      onPersisted: (runId, seq) => tracing.onPersisted?.(runId, seq),
      release: (moment, reason) => tracing.release?.(moment, reason),
    };
  };
  return {
    newTracing,
    events,
    get spans() {
      return exporter.getFinishedSpans().map(recorded);
    },
  };
}

const nameOf = ({ traceId, spanId }: Pick<TraceIds, "traceId" | "spanId">): string =>
  `${traceId} ${spanId}`;

describe.each(Object.entries(SPAN_STORIES))("the spans of the story %s", (name, story) => {
  test("record their place in the tree", async () => {
    const { spans, events } = await played(story);
    const wanted = new Map(events.map((event) => [`${event.scope.runId} ${event.seq}`, event]));
    expect(spans.length).toBeGreaterThan(1);
    for (const { attributes } of spans) {
      const begun = wanted.get(
        `${String(attributes["espalier.run.id"])} ${String(attributes["espalier.event.seq"])}`,
      );
      const place = begun?.scope ?? expect.fail("no event began it");
      expect(placeIn(attributes)).toEqual({
        runId: place.runId,
        agentId: place.agentId,
        agentPath: place.agentPath,
        depth: place.depth,
        parentAgentId: place.parentAgentId ?? undefined,
        executionId: place.executionId ?? undefined,
        stepId: place.stepId ?? undefined,
        callId: place.callId ?? undefined,
      });
    }
  });

  test("are emitted once, below a parent or as the first of a trace, and cover every event", async () => {
    const { spans, events } = await played(story);
    const told = spans.map(nameOf);
    expect(new Set(told).size).toBe(told.length);
    const known = new Set(told);
    const orphans = spans.filter(
      ({ traceId, parentSpanId: spanId }) =>
        spanId !== undefined && !known.has(nameOf({ traceId, spanId })),
    );
    expect(orphans).toEqual([]);
    expect(
      events.map(nameOf).filter((id) => !known.has(id) && !id.startsWith("0".repeat(32))),
    ).toEqual([]);
    const runs = new Set(events.map(({ scope }) => scope.runId));
    const roots = spans.filter(({ parentSpanId }) => parentSpanId === undefined);
    expect(new Set(roots.map(({ traceId }) => traceId)).size).toBe(roots.length);
    expect(roots.length).toBeGreaterThanOrEqual(runs.size);
  });

  proves(
    ["X18"],
    `have usage on model calls only, once, with the sum of the tree (${name})`,
    async () => {
      const { spans } = await played(story);
      const usage = spans.filter(({ attributes }) =>
        Object.keys(attributes).some((key) => key.startsWith("gen_ai.usage.")),
      );
      expect(usage.map((span) => span.name.split(" ")[0])).toEqual(usage.map(() => "chat"));
      for (const [runId, own] of Map.groupBy(spans, (span) => span.attributes["espalier.run.id"])) {
        const totals = own.flatMap(({ attributes }) =>
          attributes["espalier.agent.depth"] === 0
            ? [Number(attributes["espalier.subtree.total_tokens"] ?? 0)]
            : [],
        );
        const sum = own
          .flatMap(({ attributes }) => [
            attributes["gen_ai.usage.input_tokens"],
            attributes["gen_ai.usage.output_tokens"],
          ])
          .reduce((total: number, count) => total + Number(count ?? 0), 0);
        expect([runId, sum]).toEqual([runId, Math.max(...totals)]);
      }
    },
  );

  proves(["S7.33"], "have no cost if it is unknown", async () => {
    const { spans } = await played(story);
    const costs = spans.flatMap(({ attributes }) =>
      Object.entries(attributes).filter(([name]) => name.endsWith("cost.usd")),
    );
    expect(spans.some(({ attributes }) => "espalier.subtree.unpriced_calls" in attributes)).toBe(
      true,
    );
    expect(costs).toEqual([]);
  });

  test("form the same tree with the provider's own ids", async () => {
    const [ours, theirs] = [await played(story), await played(story, { hasOwnIds: true })];
    expect(pathsIn(theirs.spans)).toEqual(pathsIn(ours.spans));
    expect(new Set(theirs.spans.map(nameOf)).size).toBe(theirs.spans.length);
    const again = theirs.spans.filter(({ attributes }) => attributes["espalier.replayed"] === true);
    const names = new Set(theirs.events.map(({ spanId }) => spanId));
    for (const { attributes, traceId } of again) {
      expect(names.has(String(attributes["espalier.replaces.span_id"]))).toBe(true);
      expect(theirs.events[0]?.traceId).toBe(traceId);
    }
  });
});

/**
 * Returns the place of each span by the names above it. A span that was emitted again is also known
 * by the id that it replaces.
 */
function pathsIn(spans: readonly RecordedSpan[]): readonly string[] {
  const byId = new Map(
    spans.flatMap((span) => {
      const { traceId, attributes } = span;
      const spanId = String(attributes["espalier.replaces.span_id"]);
      return [[nameOf(span), span] as const, [nameOf({ traceId, spanId }), span] as const];
    }),
  );
  const pathOf = (span: RecordedSpan): string => {
    const { traceId, parentSpanId: spanId, name } = span;
    const above = spanId === undefined ? undefined : byId.get(nameOf({ traceId, spanId }));
    return above === undefined || above === span ? name : `${pathOf(above)} / ${name}`;
  };
  return spans.map(pathOf).toSorted();
}

async function played(
  story: (newTracing: NewTracing) => Promise<void>,
  options: FixtureOptions = {},
): Promise<Fixture> {
  const stage_ = setUp(options);
  await story(stage_.newTracing);
  return stage_;
}

function placeIn(attributes: RecordedSpan["attributes"]): Readonly<Record<string, unknown>> {
  return {
    runId: attributes["espalier.run.id"],
    agentId: attributes["espalier.agent.id"],
    agentPath: attributes["espalier.agent.path"],
    depth: attributes["espalier.agent.depth"],
    parentAgentId: attributes["espalier.agent.parent_id"],
    executionId: attributes["espalier.execution.id"],
    stepId: attributes["espalier.step.id"],
    callId: attributes["gen_ai.tool.call.id"],
  };
}

describe("a trace that grows too large", () => {
  const LIMIT = 40;

  test("is split between subagents, with links in both directions, and no span is lost", () => {
    const s = setUp({ options: { maxSpansPerTrace: LIMIT } });
    const ids = placeAll(s.newTracing(), wideRun(10, 8).drafts);
    const { spans } = s;
    const parts = spans.filter(({ attributes }) => "espalier.trace.part" in attributes);
    expect(spans).toHaveLength(2 + 10 * 10 + parts.length);
    const traces = [...Map.groupBy(spans, ({ traceId }) => traceId).values()];
    expect(traces.length).toBeGreaterThan(2);
    for (const own of traces) {
      const roots = own.filter(({ parentSpanId }) => parentSpanId === undefined);
      expect(roots).toHaveLength(1);
      expect(own.length).toBeLessThanOrEqual(LIMIT + 1 + 10);
    }
    expect(parts.map(({ name, parentSpanId }) => [name, parentSpanId])).toEqual(
      parts.map((_, index) => [`invoke_workflow lead, part ${index + 2}`, undefined]),
    );
    const partIds = new Set(parts.map(({ spanId }) => spanId));
    const begun = spans.filter(({ parentSpanId = "" }) => partIds.has(parentSpanId));
    expect(begun.map(({ name }) => name)).toEqual(
      begun.map((_, index) => `invoke_agent reader#${index + 11 - begun.length}`),
    );
    for (const root of begun) {
      const [link] = root.links;
      const call = spans.find(({ spanId }) => spanId === link?.spanId) ?? expect.fail("no call");
      expect(call.name).toBe(root.name.replace("invoke_agent", "spawn"));
      expect(root.links).toEqual([
        { ...idsIn(call), attributes: { "espalier.link.type": "continues_from" } },
      ]);
      expect(call.links).toEqual([
        { ...idsIn(root), attributes: { "espalier.link.type": "continues_in" } },
      ]);
      expect(root.attributes["espalier.continues_from.trace_id"]).toBe(call.traceId);
      expect(call.attributes["espalier.continues_in.trace_id"]).toBe(root.traceId);
    }
    const known = new Set(spans.map(nameOf));
    expect(ids.filter((id) => !known.has(nameOf(id)))).toEqual([]);
  });

  test("is not split without an SDK", () => {
    const tracing = openTelemetry({ tracer: trace.getTracer("none"), maxSpansPerTrace: 3 });
    const ids = placeAll(tracing, wideRun(5, 3).drafts);
    expect(new Set(ids.map(({ traceId }) => traceId)).size).toBe(1);
  });
});

/**
 * Returns the spans of a tree in traces of ten spans and the rest of a subagent, without the roots
 * of further traces.
 */
function splitTree(sampler: Sampler, index: number): readonly RecordedSpan[] {
  const s = setUp({ sampler, options: { maxSpansPerTrace: 10 } });
  const { drafts } = wideRun(6, 4);
  placeAll(
    s.newTracing(),
    drafts.map((draft) => ({ ...draft, atMs: draft.atMs + index })),
  );
  const known = new Set(s.spans.map(nameOf));
  for (const { links } of s.spans)
    for (const link of links) expect(known.has(nameOf(link))).toBe(true);
  return s.spans.filter(({ attributes }) => !("espalier.trace.part" in attributes));
}

function half(): Sampler {
  return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(0.5) });
}

describe("a sampler that takes a share of all traces", () => {
  const RUNS = 200;

  test("takes all traces of a run that was paused, or none", () => {
    const kept = Array.from({ length: RUNS }, (_, index) => {
      const s = setUp({ sampler: half() });
      const { drafts } = pausedRun();
      const before = drafts.findIndex(({ body }) => body.type === "run.resumed");
      const moved = drafts.map((draft) => ({ ...draft, atMs: draft.atMs + index }));
      const tracing = s.newTracing();
      const traceId = placeAll(tracing, moved.slice(0, before))[0]?.traceId ?? "";
      placeAll(
        tracing,
        moved
          .slice(before)
          .map((draft) =>
            draft.body.type === "run.resumed"
              ? { ...draft, body: { ...draft.body, previousTraceId: traceId } }
              : draft,
          ),
      );
      return new Set(s.spans.map((span) => span.traceId)).size;
    });
    // The run up to its pause, the wait, and the run after the pause.
    expect(new Set(kept)).toEqual(new Set([0, 3]));
    const whole = kept.filter((traces) => traces === 3).length;
    expect(whole).toBeGreaterThan(RUNS / 4);
    expect(whole).toBeLessThan((RUNS * 3) / 4);
  });

  test("takes all traces of a tree that was split, or none", () => {
    const kept = Array.from({ length: 40 }, (_, index) => splitTree(half(), index).length);
    expect(new Set(kept)).toEqual(new Set([0, 2 + 6 * 6]));
  });

  test("takes all or nothing of a split tree, as the caller's span was sampled", () => {
    new NodeTracerProvider().register();
    for (const traceFlags of [TraceFlags.SAMPLED, TraceFlags.NONE]) {
      const kept = Array.from({ length: 40 }, (_, index) => {
        const traceId = deriveTraceId(`${index},${traceFlags}`);
        const caller = { traceId, spanId: "b".repeat(16), traceFlags };
        const around = trace.setSpanContext(ROOT_CONTEXT, caller);
        return context.with(around, () => splitTree(half(), index)).length;
      });
      expect(new Set(kept)).toEqual(new Set([traceFlags === TraceFlags.NONE ? 0 : 2 + 6 * 6]));
    }
  });

  test("follows the decision for a run before its pause, wherever the run is resumed", () => {
    new NodeTracerProvider().register();
    for (const wasSampled of [true, false]) {
      const { drafts } = pausedRun();
      const begin = drafts.findIndex(({ body }) => body.type === "run.resumed");
      for (let index = 0; index < 20; index += 1) {
        const previousTraceId = deriveTraceId(`${index},"before"`);
        const resumed = drafts.slice(begin).map((draft) => {
          if (draft.body.type !== "run.resumed") return draft;
          const before = { previousTraceId, previousSpanId: "b".repeat(16), wasSampled };
          return { ...draft, body: { ...draft.body, ...before } };
        });
        const s = setUp({ sampler: half() });
        const [first] = placeAll(s.newTracing(), resumed);
        expect(first?.isSampled).toBe(wasSampled);
        expect(s.spans.length > 0).toBe(wasSampled);
      }
    }
  });
});

describe("a run below a span of its caller", () => {
  test("names the span only in the event that starts the run", () => {
    const s = setUp();
    const run = new RunScript();
    run.started();
    run.root.lives();
    run.ended();
    const caller = {
      traceId: "a".repeat(32),
      spanId: "b".repeat(16),
      traceFlags: TraceFlags.SAMPLED,
    };
    const tracing = s.newTracing();
    const around = trace.setSpanContext(context.active(), caller);
    const manager = new NodeTracerProvider();
    manager.register();
    const ids = context.with(around, () => placeAll(tracing, run.drafts));
    expect(ids.map(({ parentSpanId }) => parentSpanId)).toEqual([
      caller.spanId,
      ...ids.slice(1).map(() => undefined),
    ]);
    expect(new Set(ids.map(({ traceId }) => traceId))).toEqual(new Set([caller.traceId]));
  });
});

function idsIn({ traceId, spanId }: RecordedSpan): TraceIds {
  return { traceId, spanId };
}
