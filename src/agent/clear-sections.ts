import type { AgentRuntime } from "./agent-runtime.ts";
import type { MadeSection } from "./agent-state.ts";

/** Says of each section that was made for the execution that it is over (R95). */
export function clearSections(agent: AgentRuntime, sections: readonly MadeSection[]): void {
  const made = new Map(sections.map(({ name, text }) => [name, text]));
  for (const { name, lifeCycle } of agent.role.sections) {
    if (lifeCycle !== "execution" || !made.has(name)) continue;
    const count = made.get(name) === undefined ? 0 : 1;
    agent.effects.record({ type: "section.cleared", name, count });
  }
}
