// The trees of the spawn workload.

import { defineAgent, Orchestrator, type AgentRole } from "espalier";

import type { SpanCounts } from "./agent-work.ts";
import { benchTracing } from "../contenders/espalier-agent.ts";
import { longestBlock, memoryInUse } from "../harness/event-loop.ts";
import type { Shape } from "./spawn.ts";
import { leadModel, leafModel } from "./spawn-model.ts";
import { variantOf, type Measured, type MeasuringTask } from "../harness/workload.ts";

const PER_REPLY = 100;
const FAN_OUT = 10;
const MOST = 1_000_000;
const BYTES_PER_MB = 1_048_576;
const BUDGET = { totalTokens: 10_000_000_000, steps: MOST * 10, costUsd: 100_000 };

const worker = defineAgent({
  name: "worker",
  description: "Works",
  instructions: "You work.",
  model: leafModel,
});

interface Tree {
  readonly root: AgentRole;
  /** The spans of one run. */
  readonly spans: SpanCounts;
}

function lead(name: string, below: AgentRole, total: number, perReply: number): AgentRole {
  const model = leadModel(below.name, total, perReply);
  const instructions = "You delegate.";
  return defineAgent({ name, description: "Leads", instructions, model, subagents: [below] });
}

function treeOf(shape: Shape, size: number): Tree {
  if (shape === "tens") return treeOfTens(size);
  const perReply = shape === "once" ? size : Math.min(size, PER_REPLY);
  const modelCalls = Math.ceil(size / perReply) + 1 + size;
  return {
    root: lead("lead", worker, size, perReply),
    spans: { runs: 1, agents: size + 1, modelCalls, toolCalls: size },
  };
}

function treeOfTens(size: number): Tree {
  let root: AgentRole = worker;
  let [agents, modelCalls] = [1, 1];
  for (let level = Math.round(Math.log10(size)); level > 0; level -= 1) {
    root = lead(`lead${level}`, root, FAN_OUT, FAN_OUT);
    agents = 1 + FAN_OUT * agents;
    modelCalls = 2 + FAN_OUT * modelCalls;
  }
  return { root, spans: { runs: 1, agents, modelCalls, toolCalls: agents - 1 } };
}

export async function spawnFigures(shape: Shape, task: MeasuringTask): Promise<Measured> {
  const { contender, sizes } = task;
  const { smallTree, smallTrees, largeTree } = sizes;
  const tracing = benchTracing(variantOf(contender));
  const orchestrator = new Orchestrator({
    limits: { maxDepth: 10, maxBreadthPerParent: MOST, maxTotalSubagents: MOST },
    ...tracing.options,
  });
  const done = { runs: 0, agents: 0, modelCalls: 0, toolCalls: 0 };

  /** How many subagents it had. */
  async function run({ root, spans }: Tree): Promise<number> {
    const started = orchestrator.start(root, "Begin.", { budget: BUDGET });
    const { status, agents, reason } = await started.result;
    if (status !== "completed") throw new Error(reason.message);
    if (agents.length !== spans.agents)
      throw new Error(`Expected ${spans.agents} agents, got ${agents.length}.`);
    done.runs += 1;
    done.agents += spans.agents;
    done.modelCalls += spans.modelCalls;
    done.toolCalls += spans.toolCalls;
    return spans.agents - 1;
  }

  /** In µs, over at least so many subagents, with the delivery of their spans. */
  async function cpuPerSpawn(tree: Tree, atLeast: number): Promise<number> {
    await tracing.flush();
    const before = process.cpuUsage();
    let spawns = 0;
    while (spawns < atLeast) spawns += await run(tree);
    await tracing.flush();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / spawns;
  }

  const small = treeOf(shape, smallTree);
  await cpuPerSpawn(small, smallTrees);
  const smallUs = await cpuPerSpawn(small, smallTrees);
  const heapBefore = (await memoryInUse()).heapUsed;
  const blockMs = await longestBlock();
  const largeUs = await cpuPerSpawn(treeOf(shape, largeTree), 1);
  const longestMs = await blockMs();
  const heapMb = ((await memoryInUse()).heapUsed - heapBefore) / BYTES_PER_MB;
  const figures = { smallUs, largeUs, blockMs: longestMs, heapMb };
  const traced = await tracing.close(done);
  return { figures, ...(traced === undefined ? {} : { traced }) };
}
