import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { countedTool, spawnCall, thinker } from "../journal/thinkers.ts";

/**
 * Creates a lead with two readers, each of which uses a tool; one of them works in the background.
 */
export function leadOfReaders(): AgentRole {
  const reader = defineAgent({
    name: "reader",
    description: "Reads.",
    instructions: "You read.",
    model: thinker("reader-model", ({ results }) =>
      results.length === 0 ? { calls: [["look", { thing: "it" }]] } : { text: "Read." },
    ),
    tools: [countedTool(new Map(), "look", () => Promise.resolve("seen"))],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead-model", ({ results }) => {
      if (results.length > 0) return { text: "Done." };
      const [name, input] = spawnCall("reader", "One.");
      return { calls: [spawnCall("reader", "Two."), [name, { ...input, background: true }]] };
    }),
    subagents: [reader],
    delegation: { background: true },
  });
}
