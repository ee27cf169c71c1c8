// (b) The same with espalier: budget, limits and ledger on, with or without tracing.

import { z } from "zod";

import { defineAgent, defineTool, openai, Orchestrator } from "espalier";
import { openTelemetry } from "espalier/otel";
import { setUpNodeTracing, type NodeTracing } from "espalier/otel/node";

import type { Contender } from "./contender.ts";

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
});

/** `no SDK`: tracing is asked for, and nothing records. `content`: spans hold what was said, too. */
export type BenchTracing = "none" | "no SDK" | "traced" | "content";

/** What an orchestrator is given, and what is to be shut down. */
function tracingOf(kind: BenchTracing): Partial<Pick<NodeTracing, "tracing" | "shutdown">> {
  if (kind === "none") return {};
  if (kind === "no SDK") return { tracing: openTelemetry() };
  return setUpNodeTracing({ serviceName: "bench", content: kind === "content" });
}

export function espalierAgent(baseUrl: string, traced: BenchTracing): Contender {
  const model = (id: string): ReturnType<typeof openai> => openai(id, { baseUrl: `${baseUrl}/v1` });
  const { tracing, shutdown } = tracingOf(traced);
  const orchestrator = new Orchestrator({
    limits: { maxBreadthPerParent: 10_000, maxTotalSubagents: 10_000 },
    concurrency: { modelCalls: 10_000, toolCalls: 10_000 },
    ...(tracing === undefined ? {} : { tracing }),
  });
  const budget = { totalTokens: 100_000_000, steps: 100_000 };

  return {
    steps: async (count) => {
      const role = defineAgent({
        name: "worker",
        instructions: "You work.",
        model: model(`tools-${count}`),
        tools: [add],
      });
      const result = await orchestrator.start(role, "Add up.", { budget }).result;
      if (result.status !== "completed" || result.steps.length !== count + 1)
        throw new Error(result.reason.message);
    },
    children: (count) => delegate(count, "tools-2"),
    waiting: (count) => delegate(count, "hold-1"),
    close: async () => {
      await shutdown?.();
    },
  };

  async function delegate(count: number, child: string): Promise<void> {
    const worker = defineAgent({
      name: "worker",
      purpose: "Adds",
      instructions: "You work.",
      model: model(child),
      tools: [add],
    });
    const lead = defineAgent({
      name: "lead",
      instructions: "You delegate.",
      model: model(`lead-${count}`),
      subagents: [worker],
    });
    const result = await orchestrator.start(lead, "Delegate.", { budget }).result;
    const completed = result.agents.filter((agent) => agent.status === "completed");
    if (completed.length !== count + 1) throw new Error(`${completed.length} agents completed`);
  }
}
