// What each route of a viewer gives, and with what it refuses.

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { askApi } from "./asking.ts";
import { survey, viewerWorld } from "./viewer-world.ts";

/** Parent, name and task of each agent. */
function rowsIn(snapshot: unknown): readonly unknown[] {
  const isSnapshot = typeof snapshot === "object" && snapshot !== null && "agents" in snapshot;
  const agents: unknown = isSnapshot ? snapshot.agents : [];
  if (!Array.isArray(agents)) throw new Error("It has no agents.");
  return agents.map((row: readonly unknown[]) => [row[0], row[2], row[4]]);
}

proves(["V70"], "meta, lists, a run, an agent and the log of a run that has ended", async () => {
  const { place, process } = await viewerWorld({ storeName: "runs.db" });
  const role = survey();
  const run = process({ roles: [role] }).start(role, "Survey.", { runId: "survey" });
  const result = await run.result;
  expect((await askApi(place, "meta")).body).toEqual({
    version: "0.1.0",
    content: true,
    actions: ["answer", "cancel", "pause"],
    store: "runs.db",
    nowMs: 1_000_000,
  });
  const { body: list } = await askApi(place, "runs");
  expect(list).toMatchObject({
    runs: [
      { runId: "survey", title: "lead: Survey.", status: "completed", agents: 3, leader: null },
    ],
  });
  const { body: snapshot } = await askApi(place, "runs/survey");
  const { total } = result.usage;
  expect(snapshot).toMatchObject({
    run: {
      runId: "survey",
      status: "completed",
      traceId: result.traceId,
      agents: 3,
      running: 0,
      spent: { totalTokens: total.totalTokens, costMicroUsd: total.costMicroUsd },
    },
    questions: [],
    causes: [],
  });
  expect(rowsIn(snapshot)).toEqual([
    [-1, "lead", "Survey."],
    [0, "helper#1", "Part 1."],
    [0, "helper#2", "Part 2."],
  ]);
  const [, helper] = result.agents;
  const { body: agent } = await askApi(place, `runs/survey/agents/${helper?.agentId}`);
  expect(agent).toMatchObject({
    agentPath: "lead/helper#1",
    task: "Part 1.",
    status: "completed",
    steps: [{ number: 1, calls: [{ toolName: "look", outcome: "succeeded" }] }, { number: 2 }],
  });
  const { body: log } = await askApi(place, "runs/survey/log?type=run.ended");
  expect(log).toMatchObject({ entries: [{ event: { type: "run.ended", status: "completed" } }] });
  expect((await askApi(place, "questions")).body).toEqual({ questions: [] });
});
