// Code of the user's that decides or watches: a chain of hooks, a stop condition, a section, a processor.

import type { EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import type { Consulted } from "./effects.ts";
import { errorRecord } from "./error-record.ts";

/** Runs it within the agent's time. Never rejects. `at`: what its log lines belong to. */
export async function consult<T>(
  agent: AgentRuntime,
  work: () => T | Promise<T>,
  at: EventPosition = {},
): Promise<Consulted<T>> {
  agent.time.beginWork();
  try {
    const run = async (): Promise<Consulted<T>> => ({ type: "returned", value: await work() });
    return await agent.effects.consult(() => agent.at(at, run));
  } catch (cause) {
    return agent.signal.aborted
      ? { type: "cancelled" }
      : { type: "failed", error: errorRecord(cause) };
  } finally {
    agent.time.endWork();
  }
}
