// A run without a root, for tests that look at one part of its runtime.

import type { AgentRole } from "../../src/agent/agent-role.ts";
import type { Clock } from "../../src/kernel/clock.ts";
import { settingsOf } from "../../src/orchestrator/tree/settings.ts";
import { RoleRegistry } from "../../src/orchestrator/tree/role-registry.ts";
import type { RunRuntime } from "../../src/orchestrator/tree/run-runtime.ts";
import { Supervisor } from "../../src/orchestrator/tree/supervisor.ts";

export function bareRun(role: AgentRole, clock: Clock): RunRuntime {
  const settings = settingsOf({ clock });
  const registry = new RoleRegistry(role, settings);
  return new Supervisor(settings, { registry, onPiece: undefined, context: undefined }).run;
}
