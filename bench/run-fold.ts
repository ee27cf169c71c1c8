// view: what an event costs in the fold of a run, with 10, 1,000 and 10,000 agents; what a snapshot costs, and a patch of what one event has
// changed. `node --conditions=@espalier/source bench/run-fold.ts`, with `--expose-gc` for what a fold holds.

import { z } from "zod";

import {
  defineAgent,
  defineTool,
  Orchestrator,
  type AgentRole,
  type EspalierEvent,
} from "espalier";
import { says, ScriptedModel, sequentialIds } from "espalier/testing";
import { RunFold } from "espalier/view";

import { median } from "./figures/median.ts";

const SIZES = [10, 1_000, 10_000];
const ROUNDS = 9;
const PATCHES = 100;

const read = defineTool({
  name: "read",
  description: "Reads the part.",
  inputSchema: z.object({}),
  execute: () => "A part.",
});

/** Returns a lead with leaders of groups. Each agent of a group calls one tool and answers. */
function lead(agents: number): AgentRole {
  const groups = Math.round(Math.sqrt(agents));
  const each = Math.max(1, Math.round((agents - groups - 1) / groups));
  let parts = 0;
  // No two calls are alike: those would be asked about.
  const spawns = (role: string, count: number) => ({
    calls: Array.from({ length: count }, () => ({
      toolName: "SpawnSubagent",
      arguments: { role, task: `Read part ${(parts += 1)}.` },
    })),
  });
  const worker = defineAgent({
    name: "worker",
    description: "Works.",
    instructions: "Work.",
    model: new ScriptedModel(({ messages }) =>
      messages.length === 2 ? { calls: [{ toolName: "read", arguments: {} }] } : says("Done."),
    ),
    tools: [read],
  });
  const head = defineAgent({
    name: "head",
    description: "Leads a group.",
    instructions: "Lead.",
    model: new ScriptedModel(({ messages }) =>
      messages.length === 2 ? spawns("worker", each) : says("Done."),
    ),
    subagents: [worker],
  });
  return defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([spawns("head", groups), says("Done.")]),
    subagents: [head],
  });
}

async function eventsOf(agents: number): Promise<readonly EspalierEvent[]> {
  const events: EspalierEvent[] = [];
  const orchestrator = new Orchestrator({
    ids: sequentialIds(),
    limits: { maxBreadthPerParent: agents, maxTotalSubagents: 2 * agents },
    concurrency: { modelCalls: 1e5, toolCalls: 1e5 },
    sinks: [{ emit: (event) => events.push(event) }],
  });
  await orchestrator.start(lead(agents), "Survey.", { budget: { steps: 1e7 } }).result;
  return events;
}

function folded(events: readonly EspalierEvent[]): RunFold {
  const [first] = events;
  if (first === undefined) throw new Error("Expected events.");
  const fold = new RunFold(first.runId);
  for (const event of events) fold.apply(event, event.seq);
  return fold;
}

/** Microseconds. */
function timed(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

for (const agents of SIZES) {
  const events = await eventsOf(agents);
  const repeats = Math.ceil(200_000 / events.length);
  const perEvent = Array.from({ length: ROUNDS }, () => {
    const us = timed(() => {
      for (let nth = 0; nth < repeats; nth += 1) folded(events);
    });
    return us / repeats / events.length;
  });
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const fold = folded(events);
  globalThis.gc?.();
  const heapMb = (process.memoryUsage().heapUsed - before) / 1e6;
  const json = JSON.stringify(fold.snapshot());
  const snapshotMs =
    median(Array.from({ length: ROUNDS }, () => timed(() => fold.snapshot()))) / 1e3;
  const half = folded(events.slice(0, events.length / 2));
  const patches = Array.from({ length: ROUNDS }, () =>
    timed(() => {
      for (let nth = 0; nth < PATCHES; nth += 1) half.patchSince(half.record - 100);
    }),
  );
  const patchUs = median(patches) / PATCHES;
  console.log(
    [
      `${fold.agents.length} agents, ${events.length} events:`,
      `${median(perEvent).toFixed(2)} µs an event (${Math.min(...perEvent).toFixed(2)} to ${Math.max(...perEvent).toFixed(2)}),`,
      `${heapMb.toFixed(1)} MB held, snapshot ${snapshotMs.toFixed(1)} ms and ${(json.length / 1e6).toFixed(2)} MB,`,
      `patch of 100 records ${patchUs.toFixed(0)} µs`,
    ].join(" "),
  );
}
