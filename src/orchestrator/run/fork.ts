// How a fork starts: a run that continues from a step of another one.

import { instructionsFor, type AgentRole } from "../../agent/agent-role.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { continueAgent } from "../tree/create-agent.ts";
import { resumedJournal } from "../durability/open-journal.ts";
import { parsePausedRun, type PausedRun } from "../durability/paused-run.ts";
import { restoredFrom, type RestoredRun } from "../durability/restored-run.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { assertReady, rootRole } from "./check-continuation.ts";
import type { ContinuedRun } from "./continue-run.ts";
import { forkedRun } from "./fork-run.ts";
import { checkForkOptions, type ForkOptions } from "./run-options.ts";
import { AS_ROOT, NO_HISTORY, started } from "./start.ts";
import type { Settings } from "../tree/settings.ts";
import { LiveRun } from "./run.ts";
import { restore, rolesOf } from "./pause-run.ts";
import { RoleRegistry } from "../tree/role-registry.ts";
import type { NewRun } from "../tree/run-runtime.ts";
import { Supervisor } from "../tree/supervisor.ts";

/** Starts a fork; see `Orchestrator.fork` for what it throws before anything has happened. */
export function forkRun(
  settings: Settings,
  stored: PausedRun | string,
  options: ForkOptions,
): LiveRun {
  checkForkOptions(options);
  const { onText, context, role } = options;
  const original = parsePausedRun(stored);
  const registry = new RoleRegistry(
    rootRole(restoredFrom(original), role, settings.roles),
    settings,
    { isReplacing: role !== undefined },
  );
  const { store, ids, clock } = settings;
  const { run, message, forkedFrom } = forkedRun(original, options, { ids, clock });
  const forked = restoredFrom(run);
  const roles = rolesOf(forked, registry);
  assertReady(forked, registry);
  const instructions = instructionsFor(registry.root, context);
  const journal = store === undefined ? undefined : resumedJournal({ store, clock }, run);
  const told = { instructions, message, forkedFrom, onText, context };
  return startFork(settings, { run: forked, registry, roles, journal, ...told }).run;
}

/** What a fork begins with. */
export interface ForkParts {
  /** Its agents, none of which lives yet. */
  readonly run: RestoredRun;
  readonly registry: RoleRegistry;
  readonly roles: ReadonlyMap<AgentId, AgentRole>;
  /** The text that the role of its root has for it: see `instructionsFor`. */
  readonly instructions: string;
  /** The message to its root. */
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
