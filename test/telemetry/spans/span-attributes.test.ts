// Goal: each kind of span has the attributes of the conventions and its place in the tree.
// Method: whole attribute maps of handwritten runs.

import { expect, test } from "vitest";

import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { proves } from "../../harness/proves.ts";
import { pausedRun } from "../../support/telemetry/paused-run.ts";
import { placeAll, recorder, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";
import { CANARY, PREVIOUS_TRACE_ID } from "../../support/telemetry/run-script-facts.ts";
import { SAMPLE_MANIFEST_ATTRIBUTES } from "../../support/sample-manifest.ts";

test("records the limits and the outcome of a run on its workflow span", () => {
  const span = only(delegatingRun(), "invoke_workflow lead");
  expect(span.kind).toBe("INTERNAL");
  expect(span.attributes).toEqual({
    "espalier.event.seq": 1,
    "gen_ai.operation.name": "invoke_workflow",
    "gen_ai.workflow.name": "lead",
    "espalier.run.id": "run_1",
    "espalier.agent.id": "agent_lead",
    "espalier.agent.path": "lead",
    "espalier.agent.depth": 0,
    "espalier.limits.max_depth": 3,
    "espalier.limits.max_breadth_per_parent": 5,
    "espalier.limits.max_total_subagents": 10,
    "espalier.outcome": "completed",
    "espalier.stop.reason": "completed",
    "espalier.run.subagents": 1,
    "espalier.run.refusals": 0,
  });
});

test("records place, budget and usage of its subtree on an agent span", () => {
  const span = only(delegatingRun(), "invoke_agent reader#1");
  expect(span.kind).toBe("INTERNAL");
  expect(span.attributes).toEqual({
    "espalier.event.seq": 10,
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "reader",
    "gen_ai.agent.description": "To be the reader",
    "gen_ai.request.model": "model-1",
    "espalier.run.id": "run_1",
    "espalier.agent.id": "agent_lead/reader#1",
    "espalier.agent.parent_id": "agent_lead",
    "espalier.agent.path": "lead/reader#1",
    "espalier.agent.depth": 1,
    "espalier.execution.id": "execution_lead/reader#1",
    "espalier.budget.limit.total_tokens": 10_000,
    "espalier.budget.limit.cost_usd": 0.5,
    "espalier.outcome": "completed",
    "espalier.stop.reason": "completed",
    "espalier.agent.steps": 1,
    "espalier.subtree.model_calls": 1,
    "espalier.subtree.steps": 1,
    "espalier.subtree.tool_calls": 0,
    "espalier.subtree.input_tokens": 100,
    "espalier.subtree.cached_input_tokens": 40,
    "espalier.subtree.output_tokens": 20,
    "espalier.subtree.reasoning_tokens": 5,
    "espalier.subtree.total_tokens": 120,
    "espalier.subtree.cost.usd": 0.0007,
    "espalier.subtree.unpriced_calls": 0,
    "espalier.subtree.estimated_calls": 0,
  });
});

test("uses a client span for a model call, the only kind with gen_ai usage", () => {
  const spans = delegatingRun();
  const span = spans.find(({ name }) => name === "chat model-1");
  expect(span?.kind).toBe("CLIENT");
  expect(span?.attributes).toEqual({
    "espalier.event.seq": 5,
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "scripted",
    "gen_ai.request.model": "model-1",
    "gen_ai.request.max_tokens": 500,
    "gen_ai.response.id": "response_1",
    "gen_ai.response.model": "model-1-2026",
    "gen_ai.response.finish_reasons": ["tool_calls"],
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.reasoning.output_tokens": 5,
    "espalier.run.id": "run_1",
    "espalier.agent.id": "agent_lead",
    "espalier.agent.path": "lead",
    "espalier.agent.depth": 0,
    "espalier.execution.id": "execution_lead",
    "espalier.step.id": "execution_lead.1",
    "espalier.request.messages": 2,
    "espalier.request.tools": 1,
    "espalier.attempt.count": 1,
    "espalier.queue.wait_ms": 0,
    "espalier.cost.usd": 0.0007,
  });
  const withUsage = spans.filter(({ attributes }) =>
    Object.keys(attributes).some((name) => name.startsWith("gen_ai.usage.")),
  );
  expect(withUsage.map(({ name }) => name)).toEqual(["chat model-1", "chat model-1"]);
});

test("names the subagent and its inheritance on a spawn span", () => {
  const span = only(delegatingRun(), "spawn reader#1");
  expect(span.kind).toBe("INTERNAL");
  expect(span.attributes).toEqual({
    "espalier.event.seq": 8,
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "SpawnSubagent",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.description": "Does delegation",
    "gen_ai.tool.call.id": "call_1",
    "gen_ai.agent.name": "lead",
    "espalier.run.id": "run_1",
    "espalier.agent.id": "agent_lead",
    "espalier.agent.path": "lead",
    "espalier.agent.depth": 0,
    "espalier.execution.id": "execution_lead",
    "espalier.step.id": "execution_lead.1",
    "espalier.tool.kind": "delegation",
    "espalier.tool.result_characters": 12,
    "espalier.queue.wait_ms": 0,
    "espalier.spawn.role": "reader",
    "espalier.spawn.agent.id": "agent_lead/reader#1",
    "espalier.spawn.agent.path": "lead/reader#1",
    "espalier.spawn.mode": "foreground",
    ...SAMPLE_MANIFEST_ATTRIBUTES,
    "espalier.spawn.outcome": "completed",
    "espalier.outcome": "succeeded",
  });
});

test("records which limit refused a spawn, and its current value", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.calls("call_1", "SpawnSubagent", "delegation");
  run.root.isRefused("call_1", "reader", "depth_limit");
  run.root.gets("call_1", "SpawnSubagent", { outcome: "refused", code: "depth_limit" });
  run.ended();
  const { attributes } = only(spansOf(run), "spawn reader (refused)");
  expect(Object.entries(attributes).filter(([name]) => /refusal|outcome|spawn/.test(name))).toEqual(
    [
      ["espalier.spawn.role", "reader"],
      ["espalier.refusal.code", "depth_limit"],
      ["espalier.refusal.maximum", 3],
      ["espalier.refusal.current", 3],
      ["espalier.outcome", "refused"],
    ],
  );
});

test("records the same facts for a spawn that is refused before its call runs", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.isRefused("call_1", "reader", "depth_limit");
  const error = { code: "depth_limit", message: "No.", maximum: 3, current: 3 } as const;
  run.root.rejects("call_1", "SpawnSubagent", {
    kind: "delegation",
    outcome: "refused",
    code: "depth_limit",
    spawn: { role: "reader", isKnownRole: true, error },
  });
  run.ended();
  const spans = spansOf(run);
  const { attributes } = only(spans, "spawn reader (refused)");
  expect(Object.entries(attributes).filter(([name]) => /refusal|outcome|spawn/.test(name))).toEqual(
    [
      ["espalier.outcome", "refused"],
      ["espalier.refusal.code", "depth_limit"],
      ["espalier.spawn.role", "reader"],
      ["espalier.refusal.maximum", 3],
      ["espalier.refusal.current", 3],
    ],
  );
  expect(spans.flatMap(({ events }) => events)).toEqual([]);
});

test("records thresholds and grants of a budget on the span of its agent, without who granted them", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.reachesThreshold();
  run.root.isGranted("Somebody.");
  run.root.ended("completed");
  run.ended("completed");
  const events = spansOf(run).flatMap((span) => span.events.map((event) => [span.name, event]));
  expect(events).toEqual([
    [
      "invoke_agent lead",
      {
        name: "espalier.budget.threshold_reached",
        atMs: 1_020,
        attributes: {
          "espalier.budget.threshold.axis": "totalTokens",
          "espalier.budget.threshold.account_path": "lead",
          "espalier.budget.threshold.reached": 0.8,
          "espalier.budget.threshold.spent": 8_100,
          "espalier.budget.threshold.maximum": 10_000,
        },
      },
    ],
    [
      "invoke_agent lead",
      {
        name: "espalier.budget.granted",
        atMs: 1_030,
        attributes: {
          "espalier.budget.granted.account_path": "lead",
          "espalier.budget.granted.axes": ["totalTokens", "steps"],
        },
      },
    ],
  ]);
});

test("records retries, a refused lease and a cancellation as events on their spans", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.asks();
  run.root.retries();
  run.root.hears({ attemptCount: 2 });
  run.root.isBudgetRefused();
  run.root.isCancelled();
  run.root.ended("cancelled");
  run.ended("cancelled");
  expect(spansOf(run).flatMap((span) => span.events.map((event) => [span.name, event]))).toEqual([
    [
      "chat model-1",
      {
        name: "espalier.retry",
        atMs: 1_050,
        attributes: {
          "espalier.retry.attempt": 1,
          "espalier.retry.delay_ms": 250,
          "error.type": "model_overloaded",
        },
      },
    ],
    [
      "invoke_agent lead (cancelled)",
      {
        name: "espalier.budget.refused",
        atMs: 1_080,
        attributes: {
          "espalier.budget.refused.axis": "totalTokens",
          "espalier.budget.refused.account_path": "lead",
          "espalier.budget.refused.maximum": 10_000,
          "espalier.budget.refused.spent": 9_990,
          "espalier.budget.refused.requested": 600,
        },
      },
    ],
    [
      "invoke_agent lead (cancelled)",
      {
        name: "espalier.cancelled",
        atMs: 1_090,
        attributes: { "espalier.signal.source": "caller" },
      },
    ],
  ]);
});

test("records the questions and answers of a paused run, and why each agent paused", () => {
  const spans = spansOf(pausedRun());
  const tellsOfPause = /outcome|state|segment|stop\.|questions|answers|paused|resumed|steps$/;
  const told = ["invoke_workflow lead", "invoke_agent reader#1"].map((name) =>
    spans
      .filter((span) => span.name.replace(" (suspended)", "") === name)
      .map(({ attributes }) =>
        Object.entries(attributes).filter(
          ([key]) => tellsOfPause.test(key) && !key.includes("subtree"),
        ),
      ),
  );
  expect(told).toEqual([
    [
      [
        ["espalier.outcome", "suspended"],
        ["espalier.run.state", "suspended"],
        ["espalier.stop.reason", "input_required"],
        ["espalier.run.questions", 1],
      ],
      [
        ["espalier.run.segment", 2],
        ["espalier.resumed_from.trace_id", PREVIOUS_TRACE_ID],
        ["espalier.run.paused_ms", 60_000],
        ["espalier.run.answers", 1],
        ["espalier.outcome", "completed"],
        ["espalier.stop.reason", "completed"],
      ],
    ],
    [
      [
        ["espalier.outcome", "suspended"],
        ["espalier.stop.reason", "input_required"],
        ["espalier.agent.steps", 1],
      ],
      [
        ["espalier.outcome", "completed"],
        ["espalier.stop.reason", "completed"],
        ["espalier.agent.steps", 1],
      ],
    ],
  ]);
});

test("names the subagent again on a resumed spawn span", () => {
  const resumed = only(spansOf(pausedRun()), "spawn reader#1");
  expect(resumed.attributes).toEqual({
    "espalier.event.seq": 23,
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "SpawnSubagent",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.description": "Does delegation",
    "gen_ai.tool.call.id": "call_1",
    "gen_ai.agent.name": "lead",
    "espalier.run.id": "run_1",
    "espalier.agent.id": "agent_lead",
    "espalier.agent.path": "lead",
    "espalier.agent.depth": 0,
    "espalier.execution.id": "execution_lead",
    "espalier.step.id": "execution_lead.1",
    "espalier.tool.kind": "delegation",
    "espalier.tool.result_characters": 12,
    "espalier.queue.wait_ms": 0,
    "espalier.spawn.role": "reader",
    "espalier.spawn.agent.id": "agent_lead/reader#1",
    "espalier.spawn.agent.path": "lead/reader#1",
    "espalier.spawn.outcome": "completed",
    "espalier.outcome": "succeeded",
  });
});

test("records questions, compactions, messages and refused subtasks as events on the agent's span", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asksLeave("call_1", "pay", "external");
  lead.isAnswered("call_1", "pay", { answer: "failure", source: "deadline" });
  lead.compacts();
  lead.isTold("steering");
  lead.isRefused(undefined, CANARY, "unknown_role");
  lead.hooks("call_1");
  run.ended();
  const question = {
    "espalier.approval.id": "question_call_1",
    "espalier.approval.kind": "external",
  };
  const call = { "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "call_1" };
  const { events } = only(spansOf(run), "invoke_agent lead (abandoned)");
  expect(events.map(({ name, attributes }) => [name, attributes])).toEqual([
    ["espalier.approval.requested", { ...question, ...call }],
    [
      "espalier.approval.decided",
      {
        ...question,
        ...call,
        "espalier.approval.decision": "failure",
        "espalier.approval.decided_by_kind": "deadline",
        "espalier.approval.wait_ms": 60_000,
      },
    ],
    [
      "espalier.compacted",
      {
        "espalier.compaction.messages_before": 40,
        "espalier.compaction.messages_after": 12,
        "espalier.compaction.tokens_before": 90_000,
        "espalier.compaction.tokens_after": 20_000,
      },
    ],
    [
      "espalier.message.received",
      { "espalier.message.origin": "steering", "espalier.message.characters": 42 },
    ],
    [
      "espalier.spawn.refused",
      {
        "espalier.refusal.code": "unknown_role",
        "espalier.refusal.maximum": 3,
        "espalier.refusal.current": 3,
      },
    ],
  ]);
});

test("omits an unknown cost and marks an estimated usage", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.asks();
  const usage = { ...NO_USAGE, inputTokens: 100, unpricedCalls: 1, estimatedCalls: 1 };
  run.root.hears({ usage });
  run.ended();
  const { attributes } = only(spansOf(run), "chat model-1");
  expect([attributes["espalier.cost.usd"], attributes["espalier.usage.estimated"]]).toEqual([
    undefined,
    true,
  ]);
});

proves(["M50"], "marks only the span of a call whose arguments were repaired", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears({ finishReason: "tool_calls", toolCallCount: 2 });
  lead.calls("call_1", "look", "function", { isRepaired: true });
  lead.gets("call_1", "look");
  lead.calls("call_2", "look");
  lead.gets("call_2", "look");
  lead.decides("stop", 1);
  lead.ended();
  run.ended("completed");
  const calls = spansOf(run).filter(({ name }) => name === "execute_tool look");
  expect(calls.map(({ attributes }) => attributes["espalier.tool.arguments_mended"])).toEqual([
    true,
    undefined,
  ]);
});

function delegatingRun(): readonly RecordedSpan[] {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.hears({ finishReason: "tool_calls", toolCallCount: 1 });
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.lives("call_1");
  lead.hearsOfEnd("call_1", reader, "completed");
  lead.gets("call_1", "SpawnSubagent");
  lead.decides("stop", 1);
  lead.ended();
  run.ended("completed", 1);
  return spansOf(run).toSorted((left, right) => left.startMs - right.startMs);
}

function spansOf(run: RunScript): readonly RecordedSpan[] {
  const recording = recorder();
  placeAll(new SpanProjector(recording.tracer, String), run.drafts);
  return recording.spans();
}

function only(spans: readonly RecordedSpan[], name: string): RecordedSpan {
  const [span, ...others] = spans.filter((candidate) => candidate.name === name);
  if (span === undefined || others.length > 0) throw new Error(`Expected one span ${name}.`);
  return span;
}
