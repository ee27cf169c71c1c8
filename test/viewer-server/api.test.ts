// Goal: each route of a viewer returns its documented content, and its refusals.
// Method: requests over real sockets for runs of every kind.

import { expect } from "vitest";

import { OWN_PACKAGE } from "../../src/kernel/own-package.ts";
import type { LogEntry } from "../../src/read-model/viewer-data.ts";
import { doings, latch, runId, solo, turns } from "../support/engine/engine-world.ts";
import { proves } from "../harness/proves.ts";
import { storedEvents } from "../support/journal/stored-events.ts";
import { askApi, placeOf } from "../support/viewer-server/asking.ts";
import { opened, survey, viewerWorld } from "../support/viewer-server/viewer-world.ts";

/** The parent, name and task of each agent. */
function rowsIn(snapshot: unknown): readonly unknown[] {
  const isSnapshot = typeof snapshot === "object" && snapshot !== null && "agents" in snapshot;
  const agents: unknown = isSnapshot ? snapshot.agents : [];
  if (!Array.isArray(agents)) throw new Error("It has no agents.");
  return agents.map((row: readonly unknown[]) => [row[0], row[2], row[4]]);
}

proves(["V70"], "returns meta, lists, run, agent and log of an ended run", async () => {
  const { place, process } = await viewerWorld({ storeName: "runs.db" });
  const role = survey();
  const run = process({ roles: [role] }).start(role, "Survey.", { runId: "survey" });
  const result = await run.result;
  expect((await askApi(place, "meta")).body).toEqual({
    version: OWN_PACKAGE.version,
    content: true,
    actions: ["answer", "cancel", "pause"],
    store: "runs.db",
    nowMs: 1_000_000,
  });
  const { body: list } = await askApi(place, "runs");
  expect(list).toMatchObject({
    runs: [
      { runId: "survey", title: "lead: Survey.", status: "completed", agentCount: 3, owner: null },
    ],
  });
  const { body: snapshot } = await askApi(place, "runs/survey");
  const { total } = result.usage;
  expect(snapshot).toMatchObject({
    run: {
      runId: "survey",
      status: "completed",
      traceId: result.traceId,
      agentCount: 3,
      running: 0,
      spent: { totalTokens: total.totalTokens, costUsd: total.costUsd },
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

proves(["V70"], "returns the log of a run in parts, by agent and by type", async () => {
  const { place, process, store } = await viewerWorld();
  const role = survey(3);
  await process({ roles: [role] }).start(role, "Survey.", { runId: "survey" }).result;
  const events = await storedEvents(store, runId("survey"));
  const read: unknown[] = [];
  const firsts: number[] = [];
  for (let after: number | undefined = 0; after !== undefined;) {
    const page = logIn((await askApi(place, `runs/survey/log?limit=7&after=${after}`)).body);
    expect(page.entries.length).toBeGreaterThanOrEqual(page.next === undefined ? 0 : 7);
    firsts.push(page.entries[0]?.record ?? 0);
    read.push(...page.entries.map(({ event }) => event));
    after = page.next;
  }
  expect(read).toEqual(events);
  expect(firsts.length).toBeGreaterThan(3);
  expect(firsts).toEqual([...new Set(firsts)]);
  for (const agentId of ["agent_2", "agent_4"]) {
    const { entries } = logIn((await askApi(place, `runs/survey/log?agent=${agentId}`)).body);
    expect(entries.map(({ event }) => event)).toEqual(
      events.filter((event) => event.agentId === agentId),
    );
  }
  const { entries } = logIn((await askApi(place, "runs/survey/log?type=agent.ended")).body);
  expect(entries).toHaveLength(4);
  expect(await askApi(place, "runs/nobody/log")).toMatchObject({ status: 404 });
});

proves(["V117"], "returns the calls that are running, or that a crash interrupted", async () => {
  const { place, process, store, clock, pushed } = await viewerWorld();
  const done = doings();
  const gate = latch();
  const role = solo(done, { hold: () => gate.opened });
  const run = process({ roles: [role] }).start(role, "Go.", { runId: "cut" });
  while (done.calls.size === 0) await turns(5);
  // The beginning of a call is written shortly afterwards.
  while ((await askApi(place, "runs/cut/interrupted")).text === '{"calls":[]}') {
    clock.advance(50);
    await turns(5);
  }
  const calls = [{ agentPath: "solo", toolName: "work" }];
  const bare = placeOf(await opened({ store, clock, content: false }));
  for (const one of [place, bare])
    expect(await askApi(one, "runs/cut/interrupted")).toMatchObject({
      status: 200,
      body: { calls },
    });
  gate.open();
  await pushed(run.result);
  expect((await askApi(place, "runs/cut/interrupted")).body).toEqual({ calls: [] });
  expect((await askApi(place, "runs/nobody/interrupted")).status).toBe(404);
});

interface Log {
  readonly entries: readonly LogEntry[];
  readonly next?: number;
}

function logIn(body: unknown): Log {
  if (isLog(body)) return body;
  throw new Error("There is no log.");
}

function isLog(value: unknown): value is Log {
  return typeof value === "object" && value !== null && "entries" in value;
}
