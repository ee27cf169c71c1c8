// Goal: the tree that tests compare shows who started whom, where, and how everything ended.
// Method: hand-written runs.

import { expect, test } from "vitest";
import { z } from "zod";

import { approve, defineAgent, defineTool, ModelError, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { formatEventTree } from "../../src/testing/event-tree.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { proves } from "../harness/proves.ts";
import { sampleEvents } from "../support/sample-events.ts";

function treeOf(...tell: Parameters<typeof sampleEvents>): string {
  return formatEventTree(sampleEvents(...tell));
}

const END = "1 steps, 120 of 120 tokens";

test("formats a run without events as an empty text", () => {
  expect(formatEventTree([])).toBe("");
});

test("shows one step for an agent that answers", () => {
  const tree = treeOf((run) => {
    run.started();
    run.root.lives();
    run.ended();
  });
  expect(tree).toBe(`lead completed (completed) ${END}\n└─ step 1 answered`);
});

test("lists tool calls below their step by start, each with its outcome", () => {
  const tree = treeOf(({ root }) => {
    root.started();
    root.asks();
    root.hears({ toolCallCount: 3 });
    root.calls("call_1", "search");
    root.calls("call_2", "read");
    root.calls("call_3", "write");
    root.gets("call_2", "read");
    root.gets("call_1", "search", { outcome: "failed", code: "tool_error" });
    root.decides("continue", 3);
    root.asks();
    root.hears();
    root.decides("stop");
    root.ended();
  });
  expect(tree).toBe(
    [
      "lead completed (completed) 2 steps, 120 of 120 tokens",
      "├─ step 1 asked for 3",
      "│  ├─ search failed (tool_error)",
      "│  ├─ read succeeded",
      "│  └─ write",
      "└─ step 2 answered",
    ].join("\n"),
  );
});

test("lists subagents below the call that started them at every depth, even if calls share an id", () => {
  const tree = treeOf((run) => {
    const { root } = run;
    const [left, right] = [root.child("reader"), root.child("reader")];
    const deep = left.child("helper");
    root.started();
    root.asks();
    root.hears({ toolCallCount: 2 });
    root.calls("call_1", "SpawnSubagent", "delegation");
    root.calls("call_2", "SpawnSubagent", "delegation");
    left.started("call_1");
    right.started("call_2");
    left.asks();
    right.asks();
    left.hears({ toolCallCount: 1 });
    right.hears({ toolCallCount: 1 });
    right.calls("call_1", "search");
    left.calls("call_1", "SpawnSubagent", "delegation");
    deep.lives("call_1");
    right.gets("call_1", "search");
    left.gets("call_1", "SpawnSubagent");
    left.ended();
    right.ended("failed", "model_timeout");
    root.gets("call_2", "SpawnSubagent", { outcome: "failed", code: "subagent_failed" });
    root.gets("call_1", "SpawnSubagent");
    root.ended("stopped");
  });
  expect(tree).toBe(
    [
      `lead stopped (token_limit) ${END}`,
      "└─ step 1 asked for 2",
      "   ├─ SpawnSubagent succeeded",
      `   │  └─ lead/reader#1 completed (completed) ${END}`,
      "   │     └─ step 1 asked for 1",
      "   │        └─ SpawnSubagent succeeded",
      `   │           └─ lead/reader#1/helper#1 completed (completed) ${END}`,
      "   │              └─ step 1 answered",
      "   └─ SpawnSubagent failed (subagent_failed)",
      `      └─ lead/reader#2 failed (error) ${END}`,
      "         └─ step 1 asked for 1",
      "            └─ search succeeded",
    ].join("\n"),
  );
});

test("shows the code of a failed model call, and no end for an agent that never ended", () => {
  const tree = treeOf(({ root }) => {
    root.started();
    root.asks();
    root.failsToHear("model_rate_limited");
  });
  expect(tree).toBe("lead\n└─ step 1 model_rate_limited");
});

proves(["D803"], "shows failed attempts, questions, answers and pauses", async () => {
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => "Paid.",
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([
      { error: new ModelError({ code: "model_rate_limited", message: "Slow down." }) },
      asks("pay", {}),
      says("Done."),
    ]),
    tools: [pay],
  });
  const sink = new RecordingSink();
  const options = { sinks: [sink], roles: [lead], retryPolicy: { random: () => 0 } };
  const paused = await new Orchestrator(options).start(lead, "Go.").result;
  if (paused.status !== "paused") throw new Error(paused.status);
  const before = formatEventTree(sink.events);
  const answers = paused.questions.map((question) => approve(question));
  await new Orchestrator(options).resume(paused.pausedRun, { answers }).result;
  const steps = [
    "├─ step 1 asked for 1",
    "│  ├─ attempt 1 failed (model_rate_limited)",
    "│  ├─ pay asked (approval)",
  ];
  expect(before).toBe(
    ["lead", ...steps, "└─ paused (input_required)"].join("\n").replace("├─ pay", "└─ pay"),
  );
  expect(formatEventTree(sink.events)).toBe(
    [
      "lead completed (completed) 2 steps, 30 of 30 tokens",
      ...steps.slice(0, -1),
      "│  ├─ pay asked (approval) approved (caller)",
      "│  └─ pay succeeded",
      "├─ paused (input_required)",
      "└─ step 2 answered",
    ].join("\n"),
  );
});

test("shows the agents of a resumed run below their parents, from the resumption on", async () => {
  const look = defineTool({
    name: "look",
    description: "Looks.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => "Seen.",
  });
  const reader = defineAgent({
    name: "reader",
    description: "Reads.",
    instructions: "Read.",
    model: new ScriptedModel([asks("look", {}), says("Read.")]),
    tools: [look],
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([
      asks("SpawnSubagent", { role: "reader", task: "Read." }),
      says("Done."),
    ]),
    subagents: [reader],
  });
  const paused = await new Orchestrator().start(lead, "Go.").result;
  if (paused.status !== "paused") throw new Error(paused.status);
  const sink = new RecordingSink();
  const answers = paused.questions.map((question) => approve(question));
  await new Orchestrator({ sinks: [sink], roles: [lead] }).resume(paused.pausedRun, { answers })
    .result;
  expect(formatEventTree(sink.events).replaceAll(/ \d+ of \d+ tokens/g, "")).toBe(
    [
      "lead completed (completed) 2 steps,",
      "├─ lead/reader#1 completed (completed) 2 steps,",
      "│  ├─ look approved (caller)",
      "│  ├─ look succeeded",
      "│  └─ step 2 answered",
      "└─ step 2 answered",
    ].join("\n"),
  );
});

test("records all events in order and returns those of one type", () => {
  const events = sampleEvents((run) => {
    run.started();
    run.root.lives();
    run.ended();
  });
  const sink = new RecordingSink();
  for (const event of events) sink.emit(event);
  expect(sink.events).toEqual(events);
  expect(sink.ofType("agent.ended")).toEqual(
    events.filter((event) => event.type === "agent.ended"),
  );
  expect(sink.ofType("tool.started")).toEqual([]);
});
