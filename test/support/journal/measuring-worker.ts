// A subagent for stories of deaths.

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { turns } from "./crash-play.ts";
import { countedTool, thinker } from "./thinkers.ts";

/**
 * Returns an agent that measures once for each task. A measurement takes until `ready` resolves.
 */
export function worker(
  calls: Map<string, number>,
  ready: (task: string) => Promise<void> = () => turns(3),
): AgentRole {
  return defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", ({ results, task, heard }) => {
      const tasks = [task, ...heard];
      return results.length < tasks.length
        ? { calls: [["measure", { thing: tasks.at(-1) ?? "" }]] }
        : { text: `Done: ${tasks.join(", ")}` };
    }),
    tools: [
      countedTool(calls, "measure", async ({ thing }) => {
        await ready(thing);
        return `measured ${thing}`;
      }),
    ],
  });
}
