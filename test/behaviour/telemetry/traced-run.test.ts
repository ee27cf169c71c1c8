// Goal: a real run is one readable trace without content.
// Method: the orchestrator with the OpenTelemetry projection over an in-memory exporter; the
// complete span tree is compared.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { recorder, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";

const CANARY = "canary-7f3a";

function outline(
  spans: readonly RecordedSpan[],
  parentSpanId?: string,
  indent = "",
): readonly string[] {
  return spans
    .filter((span) => span.parentSpanId === parentSpanId)
    .toSorted((left, right) => left.name.localeCompare(right.name))
    .flatMap((span) => [
      `${indent}${span.name} ${span.kind}`,
      ...outline(spans, span.spanId, `${indent}  `),
    ]);
}

proves(
  ["R178"],
  "nests subagents below the call that spawned them, in one trace without content",
  async () => {
    const { tracer, spans } = recorder();
    const tool = spyTool("read", () => CANARY);
    const reader = defineAgent({
      name: "reader",
      description: "Reads",
      instructions: CANARY,
      model: new ScriptedModel([asks("read", {}), says(CANARY)], { id: "small" }),
      tools: [tool],
    });
    const lead = defineAgent({
      name: "lead",
      instructions: CANARY,
      model: new ScriptedModel(
        [asks("SpawnSubagent", { role: "reader", task: CANARY }), says(CANARY)],
        { id: "large" },
      ),
      subagents: [reader],
    });
    const fixture = newFixture({ tracing: openTelemetry({ tracer }) });
    const result = await fixture.outcome(fixture.start(lead, CANARY));

    expect(outline(spans())).toEqual([
      "invoke_workflow lead INTERNAL",
      "  invoke_agent lead INTERNAL",
      "    chat large CLIENT",
      "    chat large CLIENT",
      "    spawn reader#1 INTERNAL",
      "      invoke_agent reader#1 INTERNAL",
      "        chat small CLIENT",
      "        chat small CLIENT",
      "        execute_tool read INTERNAL",
    ]);
    expect([...new Set(spans().map((span) => span.traceId))]).toEqual([result.traceId]);
    expect(JSON.stringify(spans())).not.toContain(CANARY);
  },
);

proves(["R176"], "emits events with the ids of their spans", async () => {
  const { tracer, spans } = recorder();
  const fixture = newFixture({ tracing: openTelemetry({ tracer }) });
  const model = new ScriptedModel([asks("read", {}), says("done")]);
  await fixture.run(
    defineAgent({ name: "solo", instructions: "Work.", model, tools: [spyTool("read")] }),
  );
  const named = new Map(spans().map((span) => [span.spanId, span.name]));
  const places = fixture.sink.events.map((event) => [event.type, named.get(event.spanId)]);
  expect(
    places.filter(
      ([type]) => type === "model.replied" || type === "tool.ended" || type === "agent.ended",
    ),
  ).toEqual([
    ["model.replied", "chat scripted"],
    ["tool.ended", "execute_tool read"],
    ["model.replied", "chat scripted"],
    ["agent.ended", "invoke_agent solo"],
  ]);
});
