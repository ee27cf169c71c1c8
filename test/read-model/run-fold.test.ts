// Goal: a fold shows exactly what has happened so far.
// Method: run a small tree, hold it at gates, fold its events and compare the state of each agent.

import { expect, test } from "vitest";

import type { AgentFold } from "../../src/read-model/agent-fold.ts";
import type { Spent } from "../../src/read-model/viewer-data.ts";
import { withFallback } from "../../src/model/with-fallback.ts";
import { says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { failing, roleOf } from "../support/limited-models.ts";
import { TASK, newTreeFixture } from "../support/terminal/tree-fixture.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

test("shows the activity and the usage of each agent of a running tree", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK, { budget: { totalTokens: 100_000, steps: 20 } });
  await isWaiting;

  const fold = foldOf(fixture.sink.events);
  expect(fold.agents.map(summary)).toEqual([
    "lead delegating SpawnSubagent,SpawnSubagent step 1 own 15 tree 30",
    "lead/researcher#1 thinking step 1 own 0 tree 0",
    "lead/researcher#2 thinking step 2 own 15 tree 15",
  ]);
  expect(fold.remaining).toEqual({ totalTokens: 99_970, steps: 18 });
  expect([fold.refusals.length, fold.root?.refusalCount, fold.end]).toEqual([1, 1, undefined]);

  docs.open();
  code.open();
  await fixture.outcome(run);
});

test("shows how each agent of an ended tree ended, with the same numbers as the result", async () => {
  const { lead, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK);
  docs.open();
  code.open();
  const result = await fixture.outcome(run);
  const fold = foldOf(fixture.sink.events);
  expect([fold.end?.status, fold.time.durationMs]).toEqual(["completed", 0]);
  expect(fold.agents.map(summary)).toEqual([
    "lead completed step 2 own 30 tree 75",
    "lead/researcher#1 completed step 1 own 15 tree 15",
    "lead/researcher#2 completed step 2 own 30 tree 30",
  ]);
  expect(fold.root?.subtree).toEqual(spentOf(result.usage.total));
});

function spentOf({ totalTokens, costUsd, unpricedCalls }: Spent): Spent {
  return { totalTokens, costUsd, unpricedCalls };
}

function summary({ activity, own, subtree, step, agentPath, openCalls }: AgentFold): string {
  const calls =
    openCalls.length === 0 ? "" : ` ${openCalls.map((call) => call.toolName).join(",")}`;
  return `${agentPath} ${activity}${calls} step ${step} own ${own.totalTokens} tree ${subtree.totalTokens}`;
}

proves(["V154"], "names only the model of a fallback that has no price", async () => {
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 100 };
  const main = new ScriptedModel([failing("model_unavailable")], { id: "main", price });
  const spare = new ScriptedModel([says("Spare.")], { id: "spare" });
  const well = (more: object): ScriptedModel =>
    new ScriptedModel([says("Main.")], { id: "main", ...more });
  for (const [model, expected] of [
    [withFallback([main, spare]), ["spare"]],
    [withFallback([well({ price }), spare]), []],
    [well({}), ["main"]],
  ] as const) {
    const fixture = newFixture();
    await fixture.run(roleOf(model));
    expect([...foldOf(fixture.sink.events).unpricedModels]).toEqual(expected);
  }
});
