// The same work with the AI SDK: `generateText` with its loop of tools, and a tool that does the same for a subagent. Nothing is traced.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText, tool, type StepResult, type ToolSet } from "ai";
import { z } from "zod";

import { modelName, type AgentWork } from "../workloads/agent-work.ts";
import type { Contender, WorkWatch } from "../contenders/contender.ts";

/** It stops after one step unless configured otherwise. */
const MOST_STEPS = 1_000;

/** For each loop: it has no limit that holds over several. `maxTokens`: as its documents show a condition for the usage of a loop. */
export function peer(serverUrl: string, maxTokens = Infinity): Contender {
  const provider = createOpenAI({ apiKey: "none", baseURL: `${serverUrl}/v1` });

  function toolsFor({ child }: AgentWork, watch: WorkWatch): ToolSet {
    if (child !== undefined)
      return {
        SpawnSubagent: tool({
          description: "Delegates a part.",
          inputSchema: z.object({ role: z.string(), task: z.string() }),
          execute: ({ task }) => textOf(child, task, watch),
        }),
      };
    return {
      add: tool({
        description: "Adds two numbers.",
        inputSchema: z.object({ a: z.number(), b: z.number() }),
        execute: ({ a, b }) => {
          watch.onToolCall?.();
          return String(a + b);
        },
      }),
    };
  }

  async function textOf(work: AgentWork, prompt: string, watch: WorkWatch): Promise<string> {
    const request = {
      model: provider.chat(modelName(work)),
      instructions: "You work.",
      prompt,
      tools: toolsFor(work, watch),
      stopWhen: [
        isStepCount(MOST_STEPS),
        ({ steps }: { readonly steps: readonly StepResult<ToolSet>[] }) =>
          tokensOf(steps) > maxTokens,
      ],
    };
    const { onDelta } = watch;
    if (onDelta === undefined) return (await generateText(request)).text;
    let text = "";
    for await (const piece of streamText(request).textStream) {
      text += piece;
      onDelta(piece);
    }
    return text;
  }

  function tokensOf(steps: readonly StepResult<ToolSet>[]): number {
    return steps.reduce((sum, { usage }) => sum + (usage.totalTokens ?? 0), 0);
  }

  return {
    prepare:
      (work, watch = {}) =>
      async () => {
        if ((await textOf(work, "Begin.", watch)) === "" && maxTokens === Infinity)
          throw new Error("Expected a text.");
      },
    flush: () => Promise.resolve(),
    journalBytes: () => Promise.resolve(0),
    close: () => Promise.resolve(undefined),
  };
}
