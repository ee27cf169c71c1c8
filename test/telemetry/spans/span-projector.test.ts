// Goal: a run is one trace in the shape of the run, and errors are recorded where they happened.
// Method: handwritten events in the order of the core, an in-memory exporter, golden trees: `name
// start–end [ERROR] attributes [span events]`, in ms since the start, one event each 10 ms.

import { expect, test } from "vitest";

import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { placeAll, recorder, treeOf } from "../../support/telemetry/recorded-spans.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";

test("places a tool call beside the model calls around it", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears({ finishReason: "tool_calls", toolCallCount: 1 });
  lead.calls("call_1", "search");
  lead.gets("call_1", "search");
  lead.decides("continue", 1);
  lead.asks();
  lead.hears();
  lead.decides("stop");
  lead.ended();
  run.ended();

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–190 outcome=completed
  invoke_agent lead 10–180 outcome=completed subtree.total_tokens=120
    chat model-1 40–50 usage.input_tokens=100
    execute_tool search 70–80 outcome=succeeded tool.call.id=call_1
    chat model-1 130–140 usage.input_tokens=100
`.trim(),
  );
});

test("places a subagent below the call that spawned it, at every depth", () => {
  const run = new RunScript();
  const lead = run.root;
  const editor = lead.child("editor");
  const writer = editor.child("writer");
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  delegation(lead, "call_1", editor, () => {
    editor.started("call_1");
    editor.asks();
    editor.hears();
    delegation(editor, "call_1", writer, () => writer.lives("call_1"));
    editor.decides("stop", 1);
    editor.ended();
  });
  lead.decides("stop", 1);
  lead.ended();
  run.ended("completed", 2);

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–360 outcome=completed
  invoke_agent lead 10–350 outcome=completed subtree.total_tokens=120
    chat model-1 40–50 usage.input_tokens=100
    spawn editor#1 70–320 outcome=succeeded spawn.outcome=completed tool.call.id=call_1
      invoke_agent editor#1 90–300 outcome=completed subtree.total_tokens=120
        chat model-1 120–130 usage.input_tokens=100
        spawn writer#1 150–270 outcome=succeeded spawn.outcome=completed tool.call.id=call_1
          invoke_agent writer#1 170–250 outcome=completed subtree.total_tokens=120
            chat model-1 200–210 usage.input_tokens=100
`.trim(),
  );
});

test("places concurrent children below their own calls", () => {
  const run = new RunScript();
  const lead = run.root;
  const [first, second] = [lead.child("reader"), lead.child("reader")];
  run.started();
  lead.started();
  lead.asks();
  lead.hears({ finishReason: "tool_calls", toolCallCount: 3 });
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.calls("call_2", "search");
  lead.calls("call_3", "SpawnSubagent", "delegation");
  lead.spawns("call_3", second);
  lead.spawns("call_1", first);
  second.started("call_3");
  first.started("call_1");
  first.asks();
  second.asks();
  lead.gets("call_2", "search");
  second.hears();
  second.ended();
  first.hears();
  lead.hearsOfEnd("call_3", second, "completed");
  lead.gets("call_3", "SpawnSubagent");
  first.ended();
  lead.hearsOfEnd("call_1", first, "completed");
  lead.gets("call_1", "SpawnSubagent");
  lead.ended();
  run.ended("completed", 2);

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–320 outcome=completed
  invoke_agent lead 10–310 outcome=completed subtree.total_tokens=120
    chat model-1 40–50 usage.input_tokens=100
    spawn reader#1 70–300 outcome=succeeded spawn.outcome=completed tool.call.id=call_1
      invoke_agent reader#1 130–280 outcome=completed subtree.total_tokens=120
        chat model-1 160–240 usage.input_tokens=100
    execute_tool search 80–200 outcome=succeeded tool.call.id=call_2
    spawn reader#2 90–270 outcome=succeeded spawn.outcome=completed tool.call.id=call_3
      invoke_agent reader#2 120–230 outcome=completed subtree.total_tokens=120
        chat model-1 190–210 usage.input_tokens=100
`.trim(),
  );
});

test("marks a failed tool as an error, and nothing above it", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "search");
  lead.calls("call_2", "search");
  lead.gets("call_1", "search", { outcome: "failed", code: "tool_error" });
  lead.gets("call_2", "search", { outcome: "refused", code: "tool_call_limit" });
  lead.decides("stop", 2);
  lead.ended();
  run.ended();

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–140 outcome=completed
  invoke_agent lead 10–130 outcome=completed subtree.total_tokens=120
    chat model-1 40–50 usage.input_tokens=100
    execute_tool search 70–90 ERROR type=tool_error outcome=failed tool.call.id=call_1
    execute_tool search (refused) 80–100 outcome=refused refusal.code=tool_call_limit tool.call.id=call_2
`.trim(),
  );
});

test("marks a failed model call, its agent and its spawn as errors, but not the parent", () => {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.started("call_1");
  reader.asks();
  reader.retries();
  reader.failsToHear("model_unavailable");
  reader.ended("failed", "model_unavailable");
  lead.hearsOfEnd("call_1", reader, "failed");
  lead.gets("call_1", "SpawnSubagent", { outcome: "failed", code: "subagent_failed" });
  lead.decides("stop", 1);
  lead.ended();
  run.ended();

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–220 outcome=completed
  invoke_agent lead 10–210 outcome=completed subtree.total_tokens=120
    chat model-1 40–50 usage.input_tokens=100
    spawn reader#1 70–180 ERROR type=subagent_failed outcome=failed spawn.outcome=failed tool.call.id=call_1
      invoke_agent reader#1 90–160 ERROR type=model_unavailable outcome=failed subtree.total_tokens=120
        chat model-1 120–140 ERROR type=model_unavailable outcome=failed usage.input_tokens=0 [espalier.retry]
`.trim(),
  );
});

test("marks a failed run as an error from its root", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.asks();
  run.root.failsToHear("model_unauthorized");
  run.root.ended("failed", "model_unauthorized");
  run.ended("failed");

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–80 ERROR type=agent_error outcome=failed
  invoke_agent lead 10–70 ERROR type=model_unauthorized outcome=failed subtree.total_tokens=120
    chat model-1 40–50 ERROR type=model_unauthorized outcome=failed usage.input_tokens=0
`.trim(),
  );
});

test("does not mark a refused spawn or a stop by budget as an error", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.isRefused("call_1", "reader", "depth_limit");
  lead.gets("call_1", "SpawnSubagent", { outcome: "refused", code: "depth_limit" });
  lead.isBudgetRefused();
  lead.decides("stop", 1);
  lead.ended("stopped");
  run.ended("stopped");

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead (stopped) 0–140 outcome=stopped
  invoke_agent lead (stopped) 10–130 outcome=stopped subtree.total_tokens=120 [espalier.budget.refused]
    chat model-1 40–50 usage.input_tokens=100
    spawn reader (refused) 70–90 outcome=refused refusal.code=depth_limit tool.call.id=call_1
`.trim(),
  );
});

test("ends every span of a cancelled run from the leaves up, without an error", () => {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.started("call_1");
  reader.asks();
  lead.isCancelled();
  reader.isCancelled();
  reader.ended("cancelled");
  lead.hearsOfEnd("call_1", reader, "cancelled");
  lead.gets("call_1", "SpawnSubagent", { outcome: "cancelled", code: "cancelled" });
  lead.ended("cancelled");
  run.ended("cancelled");

  const spans = spansOf(run);
  expect(treeOf(spans)).toBe(
    `
invoke_workflow lead (cancelled) 0–190 outcome=cancelled
  invoke_agent lead (cancelled) 10–180 outcome=cancelled subtree.total_tokens=120 [espalier.cancelled]
    chat model-1 40–50 usage.input_tokens=100
    spawn reader#1 (cancelled) 70–170 outcome=cancelled spawn.outcome=cancelled tool.call.id=call_1
      invoke_agent reader#1 (cancelled) 90–150 outcome=cancelled subtree.total_tokens=120 [espalier.cancelled]
        chat model-1 (cancelled) 120–150 outcome=cancelled
`.trim(),
  );
  expect(spans.map((span) => span.name)).toEqual([
    "chat model-1",
    "chat model-1 (cancelled)",
    "invoke_agent reader#1 (cancelled)",
    "spawn reader#1 (cancelled)",
    "invoke_agent lead (cancelled)",
    "invoke_workflow lead (cancelled)",
  ]);
});

test("ends the spans that a run leaves open with it, from the leaves up", () => {
  const run = new RunScript();
  const reader = run.root.child("reader");
  run.started();
  run.root.started();
  run.root.asks();
  run.root.hears();
  run.root.calls("call_1", "SpawnSubagent", "delegation");
  run.root.spawns("call_1", reader);
  reader.started("call_1");
  reader.asks();
  run.ended("failed");

  const recording = recorder();
  const projector = new SpanProjector(recording.tracer, noMint);
  placeAll(projector, run.drafts);
  expect(projector.openSpans).toBe(0);
  expect(recording.spans().map((span) => span.name)).toEqual([
    "chat model-1",
    "chat model-1 (abandoned)",
    "invoke_agent reader#1 (abandoned)",
    "spawn reader#1 (abandoned)",
    "invoke_agent lead (abandoned)",
    "invoke_workflow lead",
  ]);
  expect(treeOf(recording.spans())).toBe(
    `
invoke_workflow lead 0–130 ERROR type=agent_error outcome=failed
  invoke_agent lead (abandoned) 10–130 outcome=abandoned
    chat model-1 40–50 usage.input_tokens=100
    spawn reader#1 (abandoned) 70–130 outcome=abandoned tool.call.id=call_1
      invoke_agent reader#1 (abandoned) 90–130 outcome=abandoned
        chat model-1 (abandoned) 120–130 outcome=abandoned
`.trim(),
  );
});

test("places a subtask directly below its agent and records refused subtasks as events of the agent", () => {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.spawns(undefined, reader);
  reader.lives();
  lead.hearsOfEnd(undefined, reader, "completed");
  lead.isRefused(undefined, "reader", "breadth_limit");
  lead.isTold("subtask");
  lead.ended();
  run.ended("completed", 1);

  expect(treeOf(spansOf(run))).toBe(
    `
invoke_workflow lead 0–160 outcome=completed
  invoke_agent lead 10–150 outcome=completed subtree.total_tokens=120 [espalier.spawn.refused, espalier.message.received]
    invoke_agent reader#1 30–110 outcome=completed subtree.total_tokens=120
      chat model-1 60–70 usage.input_tokens=100
`.trim(),
  );
});

test("draws two concurrent runs as two traces", () => {
  const runs = [new RunScript("1", "lead"), new RunScript("2", "scout")];
  for (const run of runs) {
    run.started();
    run.root.lives();
    run.ended();
  }
  const recording = recorder();
  const projector = new SpanProjector(recording.tracer, noMint);
  const [first = [], second = []] = runs.map((run) => run.drafts);
  for (const [index, draft] of first.entries()) {
    projector.traceEvent(draft);
    const other = second[index];
    if (other !== undefined) projector.traceEvent(other);
  }

  const traces = Map.groupBy(recording.spans(), (span) => span.traceId);
  expect([...traces.values()].map((spans) => treeOf(spans).split("\n")[0])).toEqual([
    "invoke_workflow lead 0–100 outcome=completed",
    "invoke_workflow scout 0–100 outcome=completed",
  ]);
});

test("gives every event the ids of the span that it belongs to", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "search");
  lead.gets("call_1", "search");
  lead.decides("stop", 1);
  lead.ended();
  run.ended();

  const recording = recorder();
  const ids = placeAll(new SpanProjector(recording.tracer, noMint), run.drafts);
  const names = new Map(recording.spans().map((span) => [span.spanId, span.name]));
  expect(new Set(ids.map((id) => id.traceId)).size).toBe(1);
  expect(
    run.drafts.map(({ body }, index) => [body.type, names.get(ids[index]?.spanId ?? "")]),
  ).toEqual([
    ["run.started", "invoke_workflow lead"],
    ["agent.started", "invoke_agent lead"],
    ["budget.reserved", "invoke_agent lead"],
    ["step.started", "invoke_agent lead"],
    ["model.requested", "chat model-1"],
    ["model.replied", "chat model-1"],
    ["budget.settled", "invoke_agent lead"],
    ["tool.started", "execute_tool search"],
    ["tool.ended", "execute_tool search"],
    ["step.completed", "invoke_agent lead"],
    ["continuation.evaluated", "invoke_agent lead"],
    ["agent.ended", "invoke_agent lead"],
    ["run.ended", "invoke_workflow lead"],
  ]);
});

function delegation(
  parent: RunScript["root"],
  callId: string,
  child: RunScript["root"],
  life: () => void,
): void {
  parent.calls(callId, "SpawnSubagent", "delegation");
  parent.spawns(callId, child);
  life();
  parent.hearsOfEnd(callId, child, "completed");
  parent.gets(callId, "SpawnSubagent");
}

function spansOf(run: RunScript) {
  const recording = recorder();
  placeAll(new SpanProjector(recording.tracer, noMint), run.drafts);
  return recording.spans();
}

function noMint(): string {
  throw new Error("Expected the SDK to give all ids.");
}
