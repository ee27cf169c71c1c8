// The same work with the OpenAI Agents SDK: an agent with tools, of which one is another agent. Nothing is traced.

import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { z } from "zod";

import { modelName, roleName, type AgentWork } from "../workloads/agent-work.ts";
import type { Contender, WorkWatch } from "../contenders/contender.ts";

/** It gives up after ten unless configured otherwise. */
const DEFAULT_TURNS = 10;
const MOST_TURNS = 1_000;

/** `maxTokens`: it has no such limit, so the turns of each agent stay what they are by default. */
export function peer(serverUrl: string, maxTokens = Infinity): Contender {
  const maxTurns = maxTokens === Infinity ? MOST_TURNS : DEFAULT_TURNS;
  const modelProvider = new OpenAIProvider({
    apiKey: "none",
    baseURL: `${serverUrl}/v1`,
    useResponses: false,
  });
  const runner = new Runner({ modelProvider, tracingDisabled: true });

  function agentFor(work: AgentWork, watch: WorkWatch): Agent {
    const common = {
      name: roleName(work.level),
      instructions: "You work.",
      model: modelName(work),
    };
    const { child } = work;
    if (child !== undefined) {
      const below = agentFor(child, watch);
      const spawn = tool({
        name: "SpawnSubagent",
        description: "Delegates a part.",
        parameters: z.object({ role: z.string(), task: z.string() }),
        execute: async ({ task }) => {
          const { finalOutput } = await runner.run(below, task, { maxTurns });
          return finalOutput ?? "";
        },
      });
      return new Agent({ ...common, tools: [spawn] });
    }
    const add = tool({
      name: "add",
      description: "Adds two numbers.",
      parameters: z.object({ a: z.number(), b: z.number() }),
      execute: ({ a, b }) => {
        watch.onToolCall?.();
        return String(a + b);
      },
    });
    return new Agent({ ...common, tools: [add] });
  }

  async function textOf(agent: Agent, { onDelta }: WorkWatch): Promise<string> {
    if (onDelta === undefined) {
      const { finalOutput } = await runner.run(agent, "Begin.", { maxTurns });
      return finalOutput ?? "";
    }
    const streamed = await runner.run(agent, "Begin.", { stream: true, maxTurns });
    for await (const piece of streamed.toTextStream()) onDelta(piece);
    await streamed.completed;
    return streamed.finalOutput ?? "";
  }

  return {
    prepare: (work, watch = {}) => {
      const agent = agentFor(work, watch);
      return async () => {
        if ((await textOf(agent, watch)) === "") throw new Error("Expected a text.");
      };
    },
    flush: () => Promise.resolve(),
    journalBytes: () => Promise.resolve(0),
    close: () => Promise.resolve(undefined),
  };
}
