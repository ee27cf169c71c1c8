// A tree of thirty agents whose every reply follows from the messages of its agent: a repeated
// model call gets the same reply. Tools count how often each call was made, by its idempotency key.
// A payment must not be repeated.

import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model, ModelRequest } from "../../../src/model/model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { replyOf, type Thought } from "./thinkers.ts";

/** The calls of a world, and how often they were made. */
export interface World {
  readonly role: AgentRole;
  /** Calls of tools by their idempotency keys. */
  readonly calls: ReadonlyMap<string, number>;
  /** Model calls by the task of the agent and the number of its messages. */
  readonly modelCalls: ReadonlyMap<string, number>;
}

/** The size of a world, and callbacks of its calls. Calls end after their callbacks. */
export interface WorldOptions {
  readonly leads?: number;
  readonly workers?: number;
  /** Each worker pays once, beside its last measurement. */
  readonly isPaying?: boolean;
  readonly onTool?: (idempotencyKey: string, toolName: string) => Promise<void> | void;
  readonly onModel?: () => Promise<void> | void;
}

/** The limits that a tree of thirty agents needs. */
export const LIMITS = { maxDepth: 3, maxBreadthPerParent: 10, maxTotalSubagents: 100 };

/**
 * The exact number of steps and tool calls of a paying world of this size: a double charge exceeds
 * it.
 */
export const EXACT_BUDGET = { steps: 86, toolCalls: 124 };

/** Creates leads, and workers below each. Four leads with six workers are 29 subagents. */
export function world(options: WorldOptions = {}): World {
  const { leads = 4, workers = 6, isPaying = false, onTool, onModel } = options;
  const calls = new Map<string, number>();
  const modelCalls = new Map<string, number>();
  const measure = defineTool({
    name: "measure",
    description: "Measures one thing.",
    inputSchema: z.object({ thing: z.string() }),
    execute: async ({ thing }, { idempotencyKey }) => {
      count(calls, idempotencyKey);
      await onTool?.(idempotencyKey, "measure");
      return `${thing} measures ${thing.length}`;
    },
  });
  const pay = defineTool({
    name: "pay",
    description: "Pays once.",
    inputSchema: z.object({}),
    retryAfterCrash: false,
    execute: async (_input, { idempotencyKey }) => {
      count(calls, idempotencyKey);
      await onTool?.(idempotencyKey, "pay");
      return "paid";
    },
  });
  const model = (
    name: string,
    next: (results: readonly string[], task: string) => Thought,
  ): Model => ({
    provider: "test",
    id: name,
    price: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 },
    generate: async (request) => {
      count(modelCalls, `${taskOf(request)} ${request.messages.length}`);
      await onModel?.();
      return replyOf(next(resultsOf(request), taskOf(request)), request);
    },
  });
  const worker = defineAgent({
    name: "worker",
    description: "Measures",
    instructions: "You measure.",
    model: model("worker", (results) => {
      if (results.length === 0)
        return {
          calls: [
            ["measure", { thing: "apple" }],
            ["measure", { thing: "pear" }],
          ],
        };
      if (results.length === 2)
        return {
          calls: [
            ["measure", { thing: "a long thing ".repeat(30) }],
            ...(isPaying ? [["pay", {}] as const] : []),
          ],
        };
      return { text: `measured ${results.length} things` };
    }),
    tools: isPaying ? [measure, pay] : [measure],
  });
  const lead = defineAgent({
    name: "lead",
    description: "Leads workers",
    instructions: "You lead.",
    model: model("lead", (results, task) => {
      const half = Math.ceil(workers / 2);
      if (results.length === 0) return { calls: spawns("worker", task, [0, half]) };
      if (results.length === half && workers > half)
        return { calls: spawns("worker", task, [half, workers]) };
      return { text: `all ${results.length} are done` };
    }),
    subagents: [worker],
  });
  const role = defineAgent({
    name: "root",
    instructions: "You start leads.",
    model: model("root", (results) =>
      results.length === 0
        ? { calls: spawns("lead", "Go.", [0, leads]) }
        : { text: `the end of ${results.length}` },
    ),
    subagents: [lead],
  });
  return { role, calls, modelCalls };
}

function spawns(
  role: string,
  of: string,
  [from, to]: readonly [number, number],
): readonly [string, object][] {
  return Array.from({ length: to - from }, (_one, index) => [
    "SpawnSubagent",
    { role, task: `${of} Part ${from + index + 1}.` },
  ]);
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function taskOf({ messages }: ModelRequest): string {
  return messages.find(({ role }) => role === "user")?.text ?? "";
}

function resultsOf({ messages }: ModelRequest): readonly string[] {
  return messages.flatMap((message) => (message.role === "tool" ? [message.text] : []));
}
