// Goal (E3): what a dead process left open follows from its events, and is emitted again from nothing else.
// Method: the events of a run up to a model call, all in one span.

import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { OpenSpans } from "../../src/orchestrator/durability/open-spans.ts";
import { traceIdGenerator } from "../../src/telemetry/otel.ts";
import { SpanProjector } from "../../src/telemetry/spans/span-projector.ts";
import { sampleEvents } from "../support/sample-events.ts";

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

test("where the events of a process stood in one span, one goes on", () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    idGenerator: traceIdGenerator,
  });
  const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
  projector.endLostSpans(leftOpen().lost(), 5_000);
  expect([exporter.getFinishedSpans(), projector.openSpans]).toEqual([[], 1]);
});
