// Goal: spans join the traces of the application: below the caller's span, with libraries nested
// below ours. A run that nothing records still has consistent ids.
// Method: a globally registered SDK with an in-memory exporter for the first half; the same tracing
// under suppression, an off sampler and a no-op tracer for the second.

import { context, ProxyTracerProvider, ROOT_CONTEXT, trace, TraceFlags } from "@opentelemetry/api";
import { AlwaysOffSampler, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { afterAll, beforeAll, expect, test } from "vitest";

import packageJson from "../../package.json" with { type: "json" };
import type { TraceIds } from "../../src/protocol/event.ts";
import { OWN_PACKAGE } from "../../src/kernel/own-package.ts";
import { openTelemetry } from "../../src/telemetry/otel.ts";
import { placeAll, recorder, treeOf } from "../support/telemetry/recorded-spans.ts";
import { pausedRun } from "../support/telemetry/paused-run.ts";
import { RunScript } from "../support/telemetry/run-script.ts";

const recording = recorder();
beforeAll(() => recording.provider.register());
afterAll(() => {
  trace.disable();
  context.disable();
});

test("places a run below the span that is active when it starts, whatever is active later", () => {
  const app = recording.provider.getTracer("app");
  const run = scriptedRun();
  const [started, ...rest] = run.drafts;
  const tracing = openTelemetry();
  const request = app.startSpan("request", { startTime: [1, 0] });
  context.with(trace.setSpan(ROOT_CONTEXT, request), () => {
    if (started !== undefined) tracing.traceEvent(started);
  });
  const stranger = app.startSpan("stranger", { startTime: [1, 0] });
  context.with(trace.setSpan(ROOT_CONTEXT, stranger), () => placeAll(tracing, rest));
  request.end([1, 500_000_000]);

  expect(treeOf(recording.spans())).toBe(
    `
request 0–500
  invoke_workflow lead 0–120 outcome=completed
    invoke_agent lead 10–110 outcome=completed subtree.total_tokens=120
      chat model-1 40–50 usage.input_tokens=100
      execute_tool search 70–80 outcome=succeeded tool.call.id=call_1
`.trim(),
  );
});

test("places a resumed run below the span that is active when it is resumed", () => {
  const app = recording.provider.getTracer("app");
  const { drafts } = pausedRun();
  const resumed = drafts.findIndex(({ body }) => body.type === "run.resumed");
  const tracing = openTelemetry();
  placeAll(tracing, drafts.slice(0, resumed));
  const request = app.startSpan("answer", { startTime: [1, 0] });
  const ids = context.with(trace.setSpan(ROOT_CONTEXT, request), () =>
    placeAll(tracing, drafts.slice(resumed)),
  );
  const { traceId, spanId } = request.spanContext();
  expect(ids.map((id) => id.traceId)).toEqual(ids.map(() => traceId));
  const root = recording.spans().find((span) => span.spanId === ids[0]?.spanId);
  expect([root?.name, root?.parentSpanId]).toEqual(["invoke_workflow lead", spanId]);
});

test("runs user code inside the span of its place, across await", async () => {
  const tracing = openTelemetry();
  const run = scriptedRun();
  const lead = run.root;
  const seen: [string, string | undefined][] = [];
  const opened = new Map<string, TraceIds>();
  for (const draft of run.drafts) {
    opened.set(draft.body.type, tracing.traceEvent(draft));
    if (!["agent.started", "model.requested", "tool.started"].includes(draft.body.type)) continue;
    const scope = lead.scope(draft.scope.callId ?? undefined);
    await tracing.runInSpan(scope, async () => {
      await Promise.resolve();
      seen.push([draft.body.type, trace.getActiveSpan()?.spanContext().spanId]);
    });
  }

  expect(seen).toEqual([
    ["agent.started", opened.get("agent.started")?.spanId],
    ["model.requested", opened.get("model.requested")?.spanId],
    ["tool.started", opened.get("tool.started")?.spanId],
  ]);
});

test("runs user code outside any open run unchanged", () => {
  const done = Promise.resolve("done");
  expect(openTelemetry().runInSpan(new RunScript().root.scope(), () => done)).toBe(done);
});

test("gives an unsampled run one trace id, and a span id for each scope", () => {
  const provider = new NodeTracerProvider({ sampler: new AlwaysOffSampler() });
  expectOneTrace(idsOf(openTelemetry({ tracer: provider.getTracer("off") })));
});

test("gives a run without an SDK one trace id, and a span id for each scope", () => {
  expectOneTrace(idsOf(openTelemetry({ tracer: new ProxyTracerProvider().getTracer("none") })));
});

test("places a run without an SDK in the trace of its caller", () => {
  const caller = {
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    traceFlags: TraceFlags.SAMPLED,
  };
  const ids = context.with(trace.setSpanContext(ROOT_CONTEXT, caller), () =>
    idsOf(openTelemetry({ tracer: new ProxyTracerProvider().getTracer("none") })),
  );
  expectOneTrace(ids);
  expect(ids.map((id) => [id.traceId, id.spanId === caller.spanId])).toEqual(
    ids.map(() => [caller.traceId, false]),
  );
});

test("uses the name and version of the package", () => {
  expect(OWN_PACKAGE).toEqual({ name: packageJson.name, version: packageJson.version });
});

test("rejects an unknown option by name", () => {
  const options = { tracer: recording.tracer, tracr: recording.tracer };
  expect(() => openTelemetry(options)).toThrow(
    /^Expected openTelemetry\.tracr to be one of tracer, .*, got "tracr"\. Use tracer\.$/,
  );
});

function scriptedRun(): RunScript {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.asks();
  run.root.hears();
  run.root.calls("call_1", "search");
  run.root.gets("call_1", "search");
  run.root.decides("stop", 1);
  run.root.ended();
  run.ended();
  return run;
}

function idsOf(tracing: ReturnType<typeof openTelemetry>): readonly TraceIds[] {
  return placeAll(tracing, scriptedRun().drafts);
}

function expectOneTrace(ids: readonly TraceIds[]): void {
  const [run, agent, , , model, , , tool] = ids.map((id) => id.spanId);
  const setUp = [run, agent, agent, agent];
  const ending = [agent, agent, agent, run];
  expect(ids.map((id) => id.spanId)).toEqual([
    ...setUp,
    model,
    model,
    agent,
    tool,
    tool,
    ...ending,
  ]);
  expect(new Set([run, agent, model, tool]).size).toBe(4);
  expect(new Set(ids.map((id) => id.traceId)).size).toBe(1);
  for (const { traceId, spanId } of ids) {
    expect([traceId, spanId]).toEqual([
      expect.stringMatching(/^(?!0{32})[0-9a-f]{32}$/),
      expect.stringMatching(/^(?!0{16})[0-9a-f]{16}$/),
    ]);
  }
}
