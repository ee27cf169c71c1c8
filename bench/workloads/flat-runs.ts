// The runs of the flat workload: one agent that calls a tool in each of its steps but the last.

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, type AgentRole, type Model } from "espalier";
import { toCallId } from "espalier/extend";

import { benchTracing } from "../contenders/espalier-agent.ts";
import { longestBlock, memoryInUse } from "../harness/event-loop.ts";
import { variantOf, type Measured, type MeasuringTask } from "../harness/workload.ts";

const FEW = 10;
const BYTES_PER_MB = 1_048_576;
const BUDGET = { steps: 1_000_000 };

/** What a request has before the first reply: instructions and task. Each step adds a reply and a result to them. */
const MESSAGES_AT_FIRST = 2;

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
});

function agentOf(steps: number): AgentRole {
  const usage = { inputTokens: 100, cachedInputTokens: 0, outputTokens: 20, reasoningTokens: 0 };
  const model: Model = {
    provider: "bench",
    id: `steps-${steps}`,
    price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
    generate: async ({ messages }) => {
      await new Promise(setImmediate); // In a turn of its own, as from a network.
      const step = (messages.length - MESSAGES_AT_FIRST) / 2 + 1;
      const isLast = step >= steps;
      const call = {
        callId: toCallId(`call_${step}`),
        toolName: "add",
        argumentsText: `{"a":${step},"b":1}`,
      };
      return {
        message: {
          role: "assistant",
          text: isLast ? "Done." : "",
          toolCalls: isLast ? [] : [call],
        },
        finishReason: isLast ? "stop" : "tool_calls",
        usage,
      };
    },
  };
  return defineAgent({ name: "worker", instructions: "You work.", model, tools: [add] });
}

export async function flatFigures({ contender, sizes }: MeasuringTask): Promise<Measured> {
  const tracing = benchTracing(variantOf(contender));
  const orchestrator = new Orchestrator(tracing.options);
  const done = { runs: 0, agents: 0, modelCalls: 0, toolCalls: 0 };

  async function run(role: AgentRole, steps: number): Promise<void> {
    const {
      status,
      reason,
      steps: taken,
    } = await orchestrator.start(role, "Begin.", { budget: BUDGET }).result;
    if (status !== "completed") throw new Error(reason.message);
    if (taken.length !== steps) throw new Error(`Expected ${steps} steps, got ${taken.length}.`);
    done.runs += 1;
    done.agents += 1;
    done.modelCalls += steps;
    done.toolCalls += steps - 1;
  }

  /** In µs, with the delivery of the spans: `times` runs, so many `atOnce`, each of so many steps. */
  async function cpuPerRun(times: number, atOnce: number, steps: number): Promise<number> {
    const role = agentOf(steps);
    await tracing.flush();
    const before = process.cpuUsage();
    for (let first = 0; first < times; first += atOnce)
      await Promise.all(Array.from({ length: atOnce }, () => run(role, steps)));
    await tracing.flush();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / times;
  }

  const { waiting, flatSteps, shortSteps } = sizes;
  const shortRuns = flatSteps / shortSteps;
  // Warm: as many runs and steps as are measured.
  await cpuPerRun(waiting, FEW, 2);
  await cpuPerRun(shortRuns, 1, shortSteps);
  const heapBefore = (await memoryInUse()).heapUsed;
  const fewUs = await cpuPerRun(waiting, FEW, 2);
  const shortUs = (await cpuPerRun(shortRuns, 1, shortSteps)) / shortSteps;
  const blockMs = await longestBlock();
  const manyUs = await cpuPerRun(waiting, waiting, 2);
  const longUs = (await cpuPerRun(1, 1, flatSteps)) / flatSteps;
  const longestMs = await blockMs();
  const heapMb = ((await memoryInUse()).heapUsed - heapBefore) / BYTES_PER_MB;
  const figures = { fewUs, manyUs, shortUs, longUs, blockMs: longestMs, heapMb };
  const traced = await tracing.close(done);
  return { figures, ...(traced === undefined ? {} : { traced }) };
}
