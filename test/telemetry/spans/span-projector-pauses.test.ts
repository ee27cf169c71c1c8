// Goal: each segment of a paused run is a whole trace of its own, and no pause looks like a
// failure.
// Method: handwritten events in the order of the core, an in-memory exporter, golden trees as in
// span-projector.test.ts.

import { expect, test } from "vitest";

import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { pausedRun } from "../../support/telemetry/paused-run.ts";
import { placeAll, recorder, treeOf } from "../../support/telemetry/recorded-spans.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";
import { PREVIOUS_TRACE_ID } from "../../support/telemetry/run-script-facts.ts";
import { proves } from "../../harness/proves.ts";

proves(
  ["S7.34"],
  "ends every span as suspended at a pause, shows the wait as a span and resumes in a new trace",
  () => {
    const spans = drawn(pausedRun()).spans;
    const traces = [...Map.groupBy(spans, (span) => span.traceId).values()];
    expect(traces.map(treeOf)).toEqual([
      `
invoke_workflow lead (suspended) 0–190 outcome=suspended run.state=suspended
  invoke_agent lead (suspended) 10–180 outcome=suspended
    chat model-1 40–50 usage.input_tokens=100
    spawn reader#1 (suspended) 70–170 outcome=suspended tool.call.id=call_1
      invoke_agent reader#1 (suspended) 90–160 outcome=suspended [espalier.approval.requested]
        chat model-1 120–130 usage.input_tokens=100
        approval write 150–150 tool.call.id=call_1
`.trim(),
      `
invoke_workflow lead 200–350 outcome=completed
  invoke_agent lead 210–340 outcome=completed subtree.total_tokens=120
    spawn reader#1 220–310 outcome=succeeded spawn.outcome=completed tool.call.id=call_1
      invoke_agent reader#1 230–290 outcome=completed subtree.total_tokens=120 [espalier.approval.decided]
        approval write 230–240 tool.call.id=call_1
        execute_tool write 250–260 outcome=succeeded tool.call.id=call_1
`.trim(),
      "approval write -59760–240 tool.call.id=call_1",
    ]);
    expect(spans.map(({ attributes }) => attributes["espalier.run.id"])).toEqual(
      spans.map(() => "run_1"),
    );
    const from = spans.map(({ attributes }) => attributes["espalier.resumed_from.trace_id"]);
    expect(from.filter((id) => id !== undefined)).toEqual([PREVIOUS_TRACE_ID]);
  },
);

test("draws a segment that is resumed elsewhere from its own events alone", () => {
  const { drafts } = pausedRun();
  const resumed = drafts.findIndex(({ body }) => body.type === "run.resumed");
  const whole = drawn({ drafts }).spans;
  const alone = drawn({ drafts: drafts.slice(resumed) }).spans;
  const [before] = whole;
  expect(treeOf(alone)).toBe(treeOf(whole.filter(({ traceId }) => traceId !== before?.traceId)));
});

test("suspends the spans that are open at a pause and stores nothing", () => {
  const run = new RunScript();
  const reader = run.root.child("reader");
  run.started();
  run.root.started();
  run.root.calls("call_1", "SpawnSubagent", "delegation");
  run.root.spawns("call_1", reader);
  reader.started("call_1");
  reader.asks();
  run.paused();

  const { spans, openSpans } = drawn(run);
  expect(openSpans).toBe(0);
  expect(treeOf(spans)).toBe(
    `
invoke_workflow lead (suspended) 0–80 outcome=suspended run.state=suspended
  invoke_agent lead (suspended) 10–80 outcome=suspended
    spawn reader#1 (suspended) 20–80 outcome=suspended tool.call.id=call_1
      invoke_agent reader#1 (suspended) 40–80 outcome=suspended
        chat model-1 (suspended) 70–80 outcome=suspended
`.trim(),
  );
});

test("gives a paused subagent that is dismissed a second span with its outcome", () => {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.started("call_1");
  reader.asksLeave("call_1", "write");
  reader.pauses();
  lead.pausesCall("call_1");
  lead.isCancelled();
  reader.resumes("call_1");
  reader.isCancelled();
  reader.ended("cancelled");
  lead.hearsOfEnd("call_1", reader, "cancelled");
  lead.ended("cancelled");
  run.ended("cancelled");

  const { spans, openSpans } = drawn(run);
  expect(openSpans).toBe(0);
  expect(treeOf(spans)).toBe(
    `
invoke_workflow lead (cancelled) 0–140 outcome=cancelled
  invoke_agent lead (cancelled) 10–130 outcome=cancelled subtree.total_tokens=120 [espalier.cancelled]
    spawn reader#1 (suspended) 20–70 outcome=suspended tool.call.id=call_1
      invoke_agent reader#1 (suspended) 40–60 outcome=suspended [espalier.approval.requested]
        approval write 50–50 tool.call.id=call_1
    invoke_agent reader#1 (cancelled) 90–110 outcome=cancelled subtree.total_tokens=120 [espalier.cancelled]
`.trim(),
  );
});

function drawn({ drafts }: Pick<RunScript, "drafts">) {
  const recording = recorder();
  const projector = new SpanProjector(recording.tracer, noMint);
  placeAll(projector, drafts);
  return { spans: recording.spans(), openSpans: projector.openSpans };
}

function noMint(): string {
  throw new Error("Expected the SDK to give all ids.");
}
