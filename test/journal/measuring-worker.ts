// A subagent for stories of deaths.

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { turns } from "./crash-play.ts";
import { countedTool, thinker } from "./thinkers.ts";

/** Measures once for each task. `ready`: until when its measuring takes. */
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
