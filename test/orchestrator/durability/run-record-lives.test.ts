// Goal: a reader follows a run through everything that can happen to it: further executions, forks,
// imported pauses, other processes; it shows steps in progress, and whose messages an agent has
// read.
// Method: real runs in all three stores, held at gates, read while they are held and after.

import { spawn as spawnProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect } from "vitest";
import { z } from "zod";

import { waitForTurnEnd } from "../../../src/kernel/throttle.ts";
import { RunRecord } from "../../../src/orchestrator/durability/run-record.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { findPostgres } from "../../support/store/postgres-server.ts";
import { onward } from "../../support/life-agents.ts";
import { threeSteps } from "../../support/life-forks.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";
import { checkRecord, eventsWithLines } from "../../support/journal/checked-record.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);
const folder = mkdtempSync(join(tmpdir(), "record-"));
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await server?.close();
});

interface Shared {
  readonly writer: Store;
  readonly reader: Store;
}

const places: Readonly<Record<string, () => Shared>> = {
  memory: () => {
    const store = memoryStore();
    return { writer: store, reader: store };
  },
  SQLite: () => {
    const path = join(folder, "runs.db");
    return { writer: sqliteStore(path), reader: sqliteStore(path, { access: "read" }) };
  },
  ...(server === undefined
    ? {}
    : {
        PostgreSQL: () => {
          const { url: connectionString } = server;
          const reader = postgresStore({ connectionString, access: "read" });
          return { writer: postgresStore({ connectionString }), reader };
        },
      }),
};

for (const [name, open] of Object.entries(places))
  proves(["V5", "V6", "V8"], `shows the known parts of a step in progress (${name})`, async () => {
    const { writer, reader } = open();
    const [asked, replied, ended, rest] = gates(4);
    const begun = gates(2);
    const look = defineTool({
      name: "look",
      description: "Looks.",
      inputSchema: z.object({ at: z.number() }),
      execute: async ({ at }) => {
        begun[at]?.resolve();
        await (at === 0 ? ended : rest)?.promise;
        return `seen ${at}`;
      },
    });
    const lead = part(
      "lead",
      [
        () => {
          asked?.resolve();
          const both = [1, 0].map((at) => ({ toolName: "look", arguments: { at } }));
          return { text: "I look.", calls: both, after: replied?.promise ?? Promise.resolve() };
        },
        says("Done."),
      ],
      { tools: [look] },
    );
    const run = new Orchestrator({ store: writer }).start(lead.role, "Go.");
    const record = new RunRecord(reader, run.runId);
    await asked?.promise;
    await readUntil(record, "model.requested");
    const [root] = record.agentIds;
    if (root === undefined) throw new Error("a root");
    const [asking] = await record.steps(root);
    expect(asking).toMatchObject({
      execution: 1,
      steps: [],
      open: { number: 1, executions: [] },
    });
    expect(asking?.open?.reply).toBeUndefined();
    const { request } = await record.request({ agentId: root, stepNumber: 1 });
    expect(request).toEqual(lead.model.requests[0]);
    replied?.resolve();
    for (const { promise } of begun) await promise;
    ended?.resolve();
    await readUntil(record, "tool.ended");
    const [working] = await record.steps(root);
    expect(working?.open?.reply).toMatchObject({
      message: { text: "I look." },
      finishReason: "tool_calls",
    });
    expect(working?.open?.executions.map(({ call }) => call.argumentsText)).toEqual(['{"at":0}']);
    rest?.resolve();
    await run.result;
    await readUntil(record, "run.ended");
    const result = await new Orchestrator({ store: writer }).getResult(run.runId);
    const [over] = await record.steps(root);
    expect(over?.open).toBeUndefined();
    expect(over?.steps).toEqual(result.agents[0]?.steps);
    expect(await checkRecord(reader, run.runId, record)).toBe(2);
    for (const store of new Set([reader, writer])) await store.close();
  });

function gates(count: number): readonly PromiseWithResolvers<void>[] {
  return Array.from({ length: count }, () => Promise.withResolvers<void>());
}

/** Reads on until an event of this type occurs. */
async function readUntil(record: RunRecord, type: string): Promise<void> {
  let isThere = false;
  const hasCome = (): boolean => isThere;
  for (; !hasCome(); await waitForTurnEnd())
    await record.advance((event) => {
      isThere ||= event.type === type;
    });
}

proves(["V9"], "attributes inherited messages to the ancestor that had them first", async () => {
  const store = memoryStore();
  const context = { inheritMessages: true };
  const leaf = part("leaf", [says("Leaf.")]);
  const middle = part("middle", [calls(spawn("leaf", "Deeper.")), says("Middle.")], {
    subagents: [leaf.role],
    contextPolicy: context,
  });
  const lead = part("lead", [calls(spawn("middle", "Deep.")), says("Lead.")], {
    subagents: [middle.role],
    contextPolicy: context,
  });
  const run = new Orchestrator({ store }).start(lead.role, "Go.");
  await run.result;
  const record = new RunRecord(store, run.runId);
  const paths = new Map<AgentId | null | undefined, string>();
  await record.advance(({ agentId, agentPath }) => void paths.set(agentId, agentPath));
  const read = async (path: string): Promise<readonly unknown[]> => {
    const agentId = record.agentIds.find((id) => paths.get(id) === path);
    if (agentId === undefined) throw new Error(path);
    const { request, inheritedFrom } = await record.request({ agentId, stepNumber: 1 });
    return request.messages.map(({ text }, at) => [text, paths.get(inheritedFrom[at])]);
  };
  expect(await read("lead")).toEqual([
    ["You are lead.", undefined],
    ["Go.", undefined],
  ]);
  expect(await read("lead/middle#1")).toEqual([
    ["You are middle.", undefined],
    ["Go.", "lead"],
    ["Deep.", undefined],
  ]);
  expect(await read("lead/middle#1/leaf#1")).toEqual([
    ["You are leaf.", undefined],
    ["Go.", "lead"],
    ["Deep.", "lead/middle#1"],
    ["Deeper.", undefined],
  ]);
});

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({}),
  needsApproval: true,
  execute: () => "paid",
});

/** Creates a subagent with two executions, in the second of which the run is paused and resumed. */
async function pausedInSecond(later?: Store) {
  const store = memoryStore();
  const worker = part("worker", [says("One."), calls(use("pay")), says("Two.")], { tools: [pay] });
  const lead = part(
    "lead",
    [calls(spawn("worker", "First.")), calls(onward("worker#1", "Second.")), says("Done.")],
    { subagents: [worker.role] },
  );
  const s = newFixture({ store });
  const started = s.start(lead.role);
  const { pausedRun, questions } = await s.outcome(started);
  const record = new RunRecord(later ?? store, started.runId);
  if (later === undefined) await record.advance();
  const answers = questions.map((question) => approve(question));
  const more = later === undefined ? {} : { store: later };
  const result = await s.outcome(s.resume(lead.role, pausedRun, answers, more));
  return { store: later ?? store, runId: started.runId, record, result, worker };
}

proves(["V6", "V10"], "returns earlier executions of an agent, also across a pause", async () => {
  const { store, runId, record, result, worker } = await pausedInSecond();
  await checkRecord(store, runId, record);
  const [, below] = record.agentIds;
  if (below === undefined) throw new Error("a worker");
  const executions = await record.steps(below);
  expect(
    executions.map(({ execution, steps }) => [execution, steps.map(({ io }) => io.text)]),
  ).toEqual([
    [1, ["One."]],
    [2, ["", "Two."]],
  ]);
  expect(executions[1]?.steps).toEqual(result.agents[1]?.steps);
  const requests = [
    await record.request({ agentId: below, stepNumber: 1, execution: 1 }),
    await record.request({ agentId: below, stepNumber: 1 }),
    await record.request({ agentId: below, stepNumber: 2, execution: 2 }),
  ];
  expect(requests.map(({ request }) => request)).toEqual(worker.model.requests);
  // Reading everything at once returns the same.
  const whole = new RunRecord(store, runId);
  await whole.advance();
  expect(await whole.steps(below)).toEqual(executions);
});

proves(
  ["V6", "V10"],
  "returns the executions of a run that was resumed in another store from that store alone",
  async () => {
    const { store, runId, record } = await pausedInSecond(memoryStore());
    expect(await checkRecord(store, runId, record)).toBe(5);
    const [, below] = record.agentIds;
    if (below === undefined) throw new Error("a worker");
    expect((await record.steps(below)).map(({ execution }) => execution)).toEqual([2]);
  },
);

proves(["V6", "V10"], "returns the own and the inherited steps of a fork", async () => {
  const store = memoryStore();
  const { lead } = threeSteps([says("Forked.")]);
  const s = newFixture({ store });
  const started = s.start(lead.role);
  await s.outcome(started);
  const fork = s.fork(lead.role, started.snapshot(), { atStep: 2 });
  const result = await s.outcome(fork);
  const record = new RunRecord(store, fork.runId);
  expect(await checkRecord(store, fork.runId, record)).toBeGreaterThan(0);
  const [root] = record.agentIds;
  if (root === undefined) throw new Error("a root");
  const executions = await record.steps(root);
  expect(executions.at(-1)?.steps).toEqual(result.agents[0]?.steps);
  expect(executions.map(({ execution, steps }) => [execution, steps.length])).toEqual([
    [0, 2],
    [1, 1],
  ]);
  const given = await record.request({ agentId: root, stepNumber: 2, execution: 0 });
  expect(given.request).toEqual(lead.model.requests[1]);
});

proves(["V5", "V6"], "reads a run while another process writes it", async () => {
  const path = join(folder, "large.db");
  const program = join(import.meta.dirname, "../../../bench/workloads/large-run.ts");
  const options = ["--no-warnings", "--conditions=@espalier/source", program, path, "40"];
  const child = spawnProcess(process.execPath, options, { stdio: ["ignore", "pipe", "inherit"] });
  let isOver = false;
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  void ended.then(() => (isOver = true));
  const store = sqliteStore(path, { access: "read" });
  let record: RunRecord | undefined;
  const events: unknown[] = [];
  for (let isLast = false; !isLast;) {
    await waitForTurnEnd();
    isLast = isOver;
    const [run] = await store.list().catch(() => []);
    if (run === undefined) continue;
    record ??= new RunRecord(store, run.runId);
    await record.advance((event, line) => events.push([event, line]));
  }
  const [run] = await store.list();
  if (run === undefined || record === undefined) throw new Error("a run");
  expect(child.exitCode).toBe(0);
  expect(events).toEqual(await eventsWithLines(store, run.runId));
  expect(await checkRecord(store, run.runId, record)).toBeGreaterThan(60);
});
