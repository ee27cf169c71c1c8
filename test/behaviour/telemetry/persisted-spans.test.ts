// Goal (E82, E85): spans of a persisted run wait only for its store, and spans of other runs do not
// wait.
// Method: a sink checks at each closing event whether its span has ended; a batching processor is
// flushed after the result.

import {
  BatchSpanProcessor,
  InMemorySpanExporter,
  NodeTracerProvider,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { expect } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { proves } from "../../harness/proves.ts";
import { payTool } from "../../support/pause-stories.ts";
import { calls } from "../../harness/scripted-agents.ts";
import { leadOfReaders } from "../../support/telemetry/lead-of-readers.ts";

/** Without `tool.ended`: a call that started background work ends with that work. */
const CLOSING: ReadonlySet<string> = new Set(["model.replied", "agent.ended", "run.ended"]);

interface Seen {
  /** For each closing event, whether its span had ended when sinks received the event. */
  readonly atOnce: readonly boolean[];
  /** The same at the time of the result. */
  readonly atResult: readonly boolean[];
}

async function seen(options: OrchestratorOptions): Promise<Seen> {
  const ended = new Set<string>();
  const processor: SpanProcessor = {
    onStart: () => undefined,
    onEnd: (span) => void ended.add(span.spanContext().spanId),
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
  const tracer = new NodeTracerProvider({ spanProcessors: [processor] }).getTracer("test");
  const closing: EspalierEvent[] = [];
  const atOnce: boolean[] = [];
  const take = (event: EspalierEvent): void => {
    if (!CLOSING.has(event.type)) return;
    closing.push(event);
    atOnce.push(ended.has(event.spanId));
  };
  const tracing = openTelemetry({ tracer });
  const orchestrator = new Orchestrator({
    clock: new ManualClock(),
    tracing,
    sinks: [{ emit: take }],
    ...options,
  });
  await orchestrator.start(leadOfReaders(), "Go.").result;
  return { atOnce, atResult: closing.map(({ spanId }) => ended.has(spanId)) };
}

proves(
  ["E82"],
  "ends a span with its event without a store, and once the event is persisted with a store",
  async () => {
    const free = await seen({});
    expect(free.atOnce.length).toBeGreaterThan(9);
    expect(free.atOnce).toEqual(free.atOnce.map(() => true));
    const kept = await seen({ store: memoryStore({ clock: new ManualClock() }) });
    expect(kept.atOnce).toEqual(free.atOnce.map(() => false));
    expect(kept.atResult).toEqual(free.atOnce.map(() => true));
  },
);

proves(
  ["E85"],
  "exports all spans in a flush after the result of a run that has ended or paused",
  async () => {
    const clerk = defineAgent({
      name: "clerk",
      instructions: "You pay.",
      model: new ScriptedModel([
        calls({ toolName: "pay", arguments: { amount: 1 } }),
        says("Paid."),
      ]),
      tools: [payTool()],
    });
    for (const role of [leadOfReaders(), clerk]) {
      const exporter = new InMemorySpanExporter();
      const provider = new NodeTracerProvider({
        spanProcessors: [new BatchSpanProcessor(exporter)],
      });
      const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
      const events: EspalierEvent[] = [];
      const orchestrator = new Orchestrator({
        clock: new ManualClock(),
        store: memoryStore({ clock: new ManualClock() }),
        tracing: projector,
        sinks: [{ emit: (event) => void events.push(event) }],
      });
      const { status } = await orchestrator.start(role, "Go.").result;
      await provider.forceFlush();
      const flushed = new Set(exporter.getFinishedSpans().map((span) => span.spanContext().spanId));
      expect(status).toBe(role === clerk ? "paused" : "completed");
      expect(events.filter(({ spanId }) => !flushed.has(spanId))).toEqual([]);
      expect(projector.openSpans).toBe(0);
      await provider.shutdown();
    }
  },
);
