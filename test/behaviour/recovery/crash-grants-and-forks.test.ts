// Runs that continue a stopped run with a grant, and forks, die and are recovered like any other
// (D2).

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { proves } from "../../harness/proves.ts";
import {
  killedEverywhere,
  playThrough,
  turns,
  type Play,
} from "../../support/journal/crash-play.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

function team(): Play {
  const calls = new Map<string, number>();
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", ({ task, heard, results }) =>
      results.length <= heard.length
        ? { calls: [["work", { thing: [task, ...heard].join(" ") }]] }
        : { text: `Did ${[task, ...heard].join(" ")}` },
    ),
    tools: [
      countedTool(calls, "work", async ({ thing }) => {
        await turns(2);
        return `worked ${thing}`;
      }),
    ],
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results, heard }) => {
      if (results.length === 0) return { calls: [spawnCall("worker", "a")] };
      if (results.length === 1)
        return {
          calls: [spawnCall("worker", "more", { continue: "worker#1" }), spawnCall("worker", "b")],
        };
      return { text: `Led: ${results.length} ${heard.length}` };
    }),
    subagents: [worker],
  });
  return { role, calls };
}

function stopped(): Play {
  return { ...team(), start: { budget: { steps: 3 } } };
}

test("recovers a run that continues with a grant after a limit stopped it", async () => {
  const from = (await playThrough(stopped)).appends + 1;
  await killedEverywhere(
    (): Play => ({
      ...stopped(),
      onward: (orchestrator, run) =>
        orchestrator.resume(readPausedRun(JSON.stringify(run.snapshot())), {
          grants: [{ budget: { steps: 20 }, by: "the boss" }],
        }),
    }),
    undefined,
    { from },
  );
});

proves(["D287"], "continues a stopped run by its id with a grant, in its own journal", async () => {
  const first = await playThrough(stopped);
  const byId = (): Play => ({
    ...stopped(),
    onward: (orchestrator, { runId }) =>
      orchestrator.resume(runId, {
        takeOver: true,
        grants: [{ budget: { steps: 20 }, by: "the boss" }],
      }),
  });
  await killedEverywhere(byId, undefined, { from: first.appends + 1 });
  const { kept, recording } = await playThrough(byId);
  expect([kept.status, kept.text, kept.usage.total.steps]).toEqual(["completed", "Led: 3 1", 9]);
  expect(recording.match(/^\{"type":"run"/gmu)).toHaveLength(1);
});

test("recovers a fork", async () => {
  const from = (await playThrough(team)).appends + 1;
  await killedEverywhere(
    (): Play => ({
      ...team(),
      onward: (orchestrator, run) =>
        orchestrator.fork(readPausedRun(JSON.stringify(run.snapshot())), {
          atStep: 1,
          message: "Once more.",
        }),
    }),
    undefined,
    { from },
  );
});
