// Goal: a view shows what has happened so far, no more and no less, whatever was drawn before.
// Method: run a small tree, stop it at gates, fold its events, compare what the view says of each
// agent.

import { expect, test } from "vitest";

import type { AgentView, Spent } from "../../src/terminal/agent-view.ts";
import { treeOf } from "../../src/terminal/result-tree.ts";
import { nextRunView, type RunView } from "../../src/terminal/run-view.ts";
import { defineAgent, type EspalierEvent } from "../../src/index.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import { says, ScriptedModel } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import { newFixture, settled } from "../harness/run-scripted.ts";
import { TASK, newTreeFixture } from "./tree-fixture.ts";

test("a running tree shows what each agent does, and what it and its subtree spent", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK, { budget: { totalTokens: 100_000, steps: 20 } });
  await isWaiting;

  const view = fold(fixture.sink.events);
  expect(summary(view?.root)).toEqual([
    "lead calling SpawnSubagent,SpawnSubagent step 1 own 15 tree 30",
    "lead/researcher#1 thinking step 1 own 0 tree 0",
    "lead/researcher#2 thinking step 2 own 15 tree 15",
  ]);
  expect(view?.left).toEqual({ totalTokens: 99_970, steps: 18 });
  expect([view?.refusals, view?.root?.refusals, view?.end]).toEqual([1, 1, undefined]);

  docs.open();
  code.open();
  await fixture.outcome(run);
});

test("a tree that is over shows how each agent ended, with the same numbers as the result", async () => {
  const { lead, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK);
  docs.open();
  code.open();
  const result = await fixture.outcome(run);

  const view = fold(fixture.sink.events);
  expect(view?.end).toEqual({ status: "completed", atMs: 0, durationMs: 0 });
  expect(summary(view?.root)).toEqual([
    "lead completed step 2 own 30 tree 75",
    "lead/researcher#1 completed step 1 own 15 tree 15",
    "lead/researcher#2 completed step 2 own 30 tree 30",
  ]);
  expect(view?.root?.subtree).toEqual(spentOf(result.usage.total));
  expect(summary(treeOf(result))).toEqual(summary(view?.root));
});

test("an event changes its own branch; the rest of the view stays the same value", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK);
  await isWaiting;
  const before = fold(fixture.sink.events);
  const seen = fixture.sink.events.length;
  docs.open();
  while (fixture.sink.of("subagent.ended").length === 0) await settled();
  const after = fold(fixture.sink.events.slice(seen), before);

  expect(after?.root?.children[0]).not.toBe(before?.root?.children[0]);
  expect(after?.root?.children[1]).toBe(before?.root?.children[1]);
  code.open();
  await fixture.outcome(run);
});

test("events of another run, and events of agents without a start, change nothing", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK);
  await isWaiting;
  const [first] = fixture.sink.of("run.started");
  const [step] = fixture.sink.of("step.started");
  const view = fold(fixture.sink.events);
  if (first === undefined || step === undefined) throw new Error("Expected a run with a step.");

  expect(nextRunView(undefined, step)).toBeUndefined();
  expect(
    fold(fixture.sink.of("step.started"), nextRunView(undefined, first))?.root,
  ).toBeUndefined();
  const runId = RunIdSchema.parse("run_2");
  const foreign = fixture.sink.events.slice(1).map((event) => ({ ...event, runId }));
  expect(fold(foreign, view)).toBe(view);
  docs.open();
  code.open();
  await fixture.outcome(run);
});

proves(["R57"], "calls without a price stay unknown in the view", async () => {
  const model = new ScriptedModel([says("Done.")]);
  const fixture = newFixture();
  await fixture.run(defineAgent({ name: "lead", instructions: "Lead.", model }));

  const root = fold(fixture.sink.events)?.root;
  expect(root?.own).toEqual({ totalTokens: 15, costMicroUsd: 0, unpricedCalls: 1 });
});

function fold(events: readonly EspalierEvent[], start?: RunView): RunView | undefined {
  return events.reduce<RunView | undefined>(nextRunView, start);
}

function summary(agent: AgentView | undefined): readonly string[] {
  if (agent === undefined) return [];
  const { activity, own, subtree, step, agentPath } = agent;
  const calls =
    activity.kind === "calling" ? ` ${activity.calls.map((call) => call.toolName).join(",")}` : "";
  const state = activity.kind === "settled" ? activity.status : `${activity.kind}${calls}`;
  const line = `${agentPath} ${state} step ${step} own ${own.totalTokens} tree ${subtree.totalTokens}`;
  return [line, ...agent.children.flatMap(summary)];
}

function spentOf({ totalTokens, costMicroUsd, unpricedCalls }: Spent): Spent {
  return { totalTokens, costMicroUsd, unpricedCalls };
}
