// What each route of a viewer gives, and with what it refuses.

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { act, ask, askApi } from "./asking.ts";
import { asker, survey, viewerWorld } from "./viewer-world.ts";

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
  expect(snapshot).toMatchObject({
    run: {
      runId: "survey",
      status: "completed",
      traceId: result.traceId,
      agents: 3,
      running: 0,
      spent: { totalTokens: result.usage.total.totalTokens },
    },
    agents: [
      [-1, expect.anything(), "lead", "lead", "Survey."],
      [0, expect.anything(), "helper#1", "helper", "Part 1."],
      [0, expect.anything(), "helper#2", "helper", "Part 2."],
    ],
    questions: [],
  });
  const [, helper] = result.agents;
  const { body: agent } = await askApi(place, `runs/survey/agents/${helper?.agentId}`);
  expect(agent).toMatchObject({
    agentPath: "lead/helper#1",
    task: "Part 1.",
    status: "completed",
    steps: [{ number: 1, calls: [{ toolName: "look", outcome: "succeeded" }] }, { number: 2 }],
  });
  const { body: log } = await askApi(place, "runs/survey/log?limit=1000");
  expect(log).toMatchObject({
    entries: expect.arrayContaining([
      expect.objectContaining({ event: expect.objectContaining({ type: "run.ended" }) }),
    ]),
  });
  expect((await askApi(place, "questions")).body).toEqual({ questions: [] });
});
