// A fork, from the run that it is to be to its first event.

import type { AgentRole } from "../../agent/agent-role.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { bringBack } from "../tree/create-agent.ts";
import type { Gone } from "./continue-run.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { AS_ROOT, leadRun, NO_HISTORY, started } from "./start.ts";
import type { Settings } from "./orchestrator-options.ts";
import { restore } from "../durability/pause-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import { runScope, type ScopeParts } from "../tree/run-scope.ts";
import type { StandingRun } from "../durability/restored-run.ts";

/** What a fork begins with. */
export interface ForkParts {
  /** Its agents, none of which lives yet. */
  readonly run: StandingRun;
  readonly registry: RoleRegistry;
  readonly roles: ReadonlyMap<AgentId, AgentRole>;
  /** What its root is told. */
  readonly message: UserMessage | undefined;
  readonly forkedFrom: EventBody<"run.started">["forkedFrom"];
  readonly onText: ScopeParts["onText"];
  readonly journal: RunJournal | undefined;
}

export function leadFork(settings: Settings, parts: ForkParts): Gone {
  const { run, registry, roles, message, forkedFrom, onText, journal } = parts;
  const scope = runScope(settings, { registry, onText, run, journal: () => journal });
  const rested = restore(scope, run, roles);
  for (const { agentId, state } of run.agents) journal?.knows(agentId, state);
  const root = bringBack(scope, rested, { ...AS_ROOT, task: rested.task, message });
  journal?.wentOn(root, false);
  const event = (): EventBody<"run.started"> => ({ ...started(scope, root), forkedFrom });
  return { run: leadRun(scope, root, NO_HISTORY, { event }), scope };
}
