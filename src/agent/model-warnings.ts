// What a provider warns of besides its replies: each warning is recorded once in a run.

import type { EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";

/** Of one run. A provider that has something else to say of each request says enough with so many. */
const MOST_WARNINGS = 100;

/** What the runs of this process were warned of. */
const warned = new WeakMap<object, Set<string>>();

export function recordWarnings(
  agent: AgentRuntime,
  warnings: readonly string[],
  position: EventPosition,
): void {
  const known = warned.get(agent.run) ?? new Set();
  warned.set(agent.run, known);
  for (const warning of warnings) {
    if (known.has(warning) || known.size >= MOST_WARNINGS) continue;
    known.add(warning);
    agent.emit({ type: "model.warned", warning }, position);
  }
}
