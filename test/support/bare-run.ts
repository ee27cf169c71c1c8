// A run without a root, for tests that look at one part of its runtime.

import type { AgentRole } from "../../src/agent/agent-role.ts";
import type { Clock } from "../../src/kernel/clock.ts";
import { Journal } from "../../src/orchestrator/durability/journal.ts";
import { RunJournal } from "../../src/orchestrator/durability/run-journal.ts";
import { parseId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { createSettings } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import { RoleRegistry } from "../../src/orchestrator/tree/role-registry.ts";
import { RunRuntime } from "../../src/orchestrator/tree/run-runtime.ts";
import { Supervisor } from "../../src/orchestrator/tree/supervisor.ts";

export function bareRun(role: AgentRole, clock: Clock): RunRuntime {
  const settings = createSettings({ clock });
  const registry = new RoleRegistry(role, settings);
  return new RunRuntime(
    settings,
    { registry, onStreamPart: undefined, context: undefined, runId: parseId<"RunId">("run_1") },
    Supervisor,
  );
}

/** A journal that was never opened: nothing can be kept in it. */
export function unopenedJournal(clock: Clock): RunJournal {
  const open = (): Promise<never> => Promise.reject(new Error("Expected nothing to be kept."));
  const times = { heartbeatIntervalMs: 1_000, staleAfterMs: 10_000 };
  const effects = (): never => {
    throw new Error("Expected no agent to ask for its effects.");
  };
  const writer = new Journal({ store: memoryStore(), clock, ...times, open });
  return new RunJournal(writer, { effects, hasDeadlines: true });
}
