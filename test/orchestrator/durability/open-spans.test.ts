// Goal (E3): the spans that a dead process left open are derived from its events, and emitted from
// these alone.
// Method: the events of a run up to a model call, all in one span.

import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { OpenSpans } from "../../../src/orchestrator/durability/open-spans.ts";
import { traceIdGenerator } from "../../../src/telemetry/otel.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { sampleEvents } from "../../support/sample-events.ts";

/**
 * Returns the open spans of a process that died: its events are in one session and, as after a
 * failed tracing, in one span.
 */
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

test("emits lost spans with the session of their run", () => {
  const sessions = leftOpen()
    .findLostSpans()
    .map(({ body, conversationId }) => [body.type, conversationId]);
  expect(sessions).toEqual([
    ["run.started", "thread-7"],
    ["agent.started", "thread-7"],
    ["model.requested", "thread-7"],
  ]);
});

test("continues one span if all events of a process were in one span", () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    idGenerator: traceIdGenerator,
  });
  const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
  projector.endLostSpans(leftOpen().findLostSpans(), 5_000);
  expect([exporter.getFinishedSpans(), projector.openSpans]).toEqual([[], 1]);
});
