// One measurement of the spawn workload in a fresh process: `spawn-worker.ts <contender> <shape> <count>`, with `--expose-gc`. Prints
// as JSON what a subagent costs from its birth to its settlement, what one that lives weighs, and the longest block of the event loop.

import { performance } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";

import { defineAgent, Orchestrator, type AgentRole } from "espalier";
import { setUpNodeTracing } from "espalier/otel/node";

import { longestBlock, memoryInUse } from "./event-loop.ts";
import { LeafModel, leadModel } from "./spawn-model.ts";

const [contender, shape, countText] = process.argv.slice(2);
const count = Number(countText);
const PER_REPLY = 100;
const FAN_OUT = 10;
const MOST = 1_000_000;

const leaf = new LeafModel();
const worker = defineAgent({
  name: "worker",
  purpose: "Works",
  instructions: "You work.",
  model: leaf,
});
const node =
  contender === "espalier, traced" ? setUpNodeTracing({ serviceName: "bench" }) : undefined;
const orchestrator = new Orchestrator({
  limits: { maxDepth: 10, maxBreadthPerParent: MOST, maxTotalSubagents: MOST },
  concurrency: { modelCalls: MOST, toolCalls: MOST },
  ...(node === undefined ? {} : { tracing: node.tracing }),
});
const budget = { totalTokens: 10_000_000_000, steps: MOST * 10, costUsd: 100_000 };

function lead(name: string, below: AgentRole, total: number, perReply: number): AgentRole {
  const model = leadModel(below.name, total, perReply);
  const instructions = "You delegate.";
  return defineAgent({ name, purpose: "Leads", instructions, model, subagents: [below] });
}

/** `at once`: one root, one reply. `by hundreds`: one root, replies of 100. `by tens`: a tree in which every agent has ten below it. */
function root(of: string | undefined, size: number): AgentRole {
  if (of === "at once") return lead("lead", worker, size, size);
  if (of === "by hundreds") return lead("lead", worker, size, PER_REPLY);
  let role = worker;
  for (let level = Math.round(Math.log10(size)); level > 0; level -= 1)
    role = lead(`lead${level}`, role, FAN_OUT, FAN_OUT);
  return role;
}

async function run(role: AgentRole): Promise<number> {
  const { status, agents, reason } = await orchestrator.start(role, "Begin.", { budget }).result;
  if (status !== "completed") throw new Error(reason.message);
  return agents.length - 1;
}

/** Once with all leaves alive at the same time: what each agent that lives weighs, in KB. */
async function heapPerAgent(): Promise<number> {
  const role = root(shape === "by hundreds" ? "at once" : shape, count);
  const before = await memoryInUse();
  leaf.shut();
  const running = run(role);
  while (leaf.waiting < count) await nextTurn();
  const during = await memoryInUse();
  leaf.open();
  return (during.heapUsed - before.heapUsed) / 1_024 / (await running);
}

// The same number of spawns before and during each measurement, so that sizes can be compared.
const SPAWNS = Number(process.env["SPAWNS"] ?? 10_000);
const role = root(shape, count);
for (let spawns = 0; spawns < SPAWNS / 2;) spawns += await run(root(shape, Math.min(100, count)));
const cpuBefore = process.cpuUsage();
const startedAt = performance.now();
let spawns = 0;
do spawns += await run(role);
while (spawns < SPAWNS);
const wallMs = performance.now() - startedAt;
const cpu = process.cpuUsage(cpuBefore);
const blockMs = await longestBlock();
await run(role);
const longestBlockMs = await blockMs();
const heapKb = await heapPerAgent();
await node?.shutdown();
process.stdout.write(
  JSON.stringify({
    cpuUs: (cpu.user + cpu.system) / spawns,
    wallUs: (wallMs * 1_000) / spawns,
    heapKb,
    longestBlockMs,
  }),
);
