// A fork, from the run that it is to be to its first event.

import type { AgentRole } from "../../agent/agent-role.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { continueAgent } from "../tree/create-agent.ts";
import type { ContinuedRun } from "./continue-run.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { AS_ROOT, NO_HISTORY, started } from "./start.ts";
import type { Settings } from "../tree/orchestrator-options.ts";
import { LiveRun } from "./run.ts";
import { restore } from "./pause-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import type { NewRun } from "../tree/run-runtime.ts";
import { Supervisor } from "../tree/supervisor.ts";
import type { RestoredRun } from "../durability/restored-run.ts";

/** What a fork begins with. */
export interface ForkParts {
  /** Its agents, none of which lives yet. */
  readonly run: RestoredRun;
  readonly registry: RoleRegistry;
  readonly roles: ReadonlyMap<AgentId, AgentRole>;
  /** The text that the role of its root has for it: see `instructionsFor`. */
  readonly instructions: string;
  /** What its root is told. */
  readonly message: UserMessage | undefined;
  readonly forkedFrom: EventBody<"run.started">["forkedFrom"];
  readonly onText: NewRun["onText"];
  readonly context: unknown;
  readonly journal: RunJournal | undefined;
}

export function startFork(settings: Settings, parts: ForkParts): ContinuedRun {
  const { run, registry, roles, instructions, message, forkedFrom, onText, context, journal } =
    parts;
  const supervisor = new Supervisor(settings, {
    registry,
    onText,
    context,
    restored: run,
    journal: () => journal,
  });
  const { run: runtime } = supervisor;
  const rested = restore(runtime, run, roles);
  for (const { agentId, state } of run.agents) journal?.knows(agentId, state);
  const root = continueAgent(runtime, rested, {
    ...AS_ROOT,
    task: rested.task,
    instructions,
    message,
  });
  journal?.continued(root, false);
  const event = (): EventBody<"run.started"> => ({ ...started(runtime, root), forkedFrom });
  return { run: new LiveRun(supervisor, root, { ...NO_HISTORY, event }), runtime };
}
