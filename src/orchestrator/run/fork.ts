// How a fork starts: a run that continues from a step of another one.

import { instructionsFor } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { continueAgent } from "../tree/create-agent.ts";
import { resumedJournal } from "../durability/open-journal.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import { restoredFrom, type RestoredRun } from "../durability/restored-run.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { acceptPausedRun } from "./accept-paused-run.ts";
import { assertReady, rootRole } from "./check-continuation.ts";
import { checkOutputs } from "./check-outputs.ts";
import { forkedRun } from "./fork-run.ts";
import { withCeilings } from "./role-ceilings.ts";
import { checkForkOptions, type ForkOptions } from "./run-options.ts";
import { AS_ROOT, NO_HISTORY, runStarted } from "./start.ts";
import { findStorage, type Settings } from "../tree/settings.ts";
import { LiveRun, type LedParts } from "./live-run.ts";
import { restore, rolesOf } from "./pause-run.ts";
import { RoleRegistry } from "../tree/role-registry.ts";
import { Supervisor } from "../tree/supervisor.ts";

/** Starts a fork; see `Orchestrator.fork` for what it throws before anything has happened. */
export function forkRun(
  settings: Settings,
  stored: PausedRun | string,
  options: ForkOptions,
): LiveRun {
  checkForkOptions(options);
  const accepted = acceptPausedRun(settings, stored);
  const role = rootRole(accepted, options.role, settings.roles);
  const isReplacing = options.role !== undefined;
  const registry = new RoleRegistry(role, settings, { isReplacing });
  const original = withCeilings(accepted, registry, settings.limits);
  const { ids, clock } = settings;
  const storage = findStorage(settings);
  const { run: paused, ...begin } = forkedRun(original, options, { ids, clock });
  const run = restoredFrom(paused);
  assertReady(run, registry);
  const journal = (): RunJournal | undefined => storage && resumedJournal(storage, paused);
  return new LiveRun(forkedParts(settings, { run, registry, ...begin, journal }, options));
}

/** What a fork begins with. */
export interface ForkParts {
  /** Its agents, none of which works yet. */
  readonly run: RestoredRun;
  readonly registry: RoleRegistry;
  /** The message to its root. */
  readonly message: UserMessage | undefined;
  readonly forkedFrom: EventBody<"run.started">["forkedFrom"];
  /** Makes its journal, where it is kept. */
  readonly journal: () => RunJournal | undefined;
}

/** Makes the fork with its agents: gives what it is led with. */
export function forkedParts(
  settings: Settings,
  { run, registry, message, forkedFrom, journal: open }: ForkParts,
  { onPiece, context }: Pick<ForkOptions, "onPiece" | "context">,
): LedParts {
  const roles = rolesOf(run, registry);
  checkOutputs(run, roles);
  const instructions = instructionsFor(registry.root, context);
  const journal = open();
  const supervisor = new Supervisor(settings, {
    registry,
    onPiece,
    context,
    restored: run,
    journal: () => journal,
  });
  const { run: runtime } = supervisor;
  let root: AgentRuntime;
  try {
    const restored = restore(runtime, run, roles);
    const { taskContent: task } = restored;
    root = continueAgent(runtime, restored, { ...AS_ROOT, task, instructions, message });
  } catch (cause) {
    journal?.writer.abandon(); // Before its first record: the store knows nothing of the fork.
    throw cause;
  }
  journal?.continued(root, false);
  const event = (): EventBody<"run.started"> => ({ ...runStarted(runtime, root), forkedFrom });
  return { supervisor, root, beginning: { ...NO_HISTORY, event } };
}
