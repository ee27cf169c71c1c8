// How a fork starts: a run that continues from a step of another one.

import { instructionsFor } from "../../agent/agent-role.ts";
import type { UserMessage } from "../../protocol/message.ts";
import { resumedJournal } from "../durability/open-journal.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import { restoredFrom, type RestoredRun } from "../durability/restored-run.ts";
import { acceptPausedRun } from "./accept-paused-run.ts";
import { assertReady, rootRole } from "./check-continuation.ts";
import { checkOutputs } from "./check-outputs.ts";
import { continuedParts, type Continuation } from "./continue-run.ts";
import { forkedRun } from "./fork-run.ts";
import { withCeilings } from "./role-ceilings.ts";
import { checkForkOptions, type ForkOptions } from "./run-options.ts";
import { findStorage, type Settings } from "../tree/settings.ts";
import { LiveRun } from "./live-run.ts";
import { rolesOf } from "./pause-run.ts";
import { RoleRegistry } from "../tree/role-registry.ts";

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
  const { run: paused, message, forkedFrom } = forkedRun(original, options, settings);
  const run = restoredFrom(paused);
  assertReady(run, registry);
  const ready = readyToFork(run, registry, message, options);
  const storage = findStorage(settings);
  const journal = storage && resumedJournal(storage, paused);
  return new LiveRun(continuedParts(settings, run, ready, { journal, forkedFrom }));
}

/** Returns what a fork begins with. None of its agents works yet. `message`: the one to its root. */
export function readyToFork(
  run: RestoredRun,
  registry: RoleRegistry,
  message: UserMessage | undefined,
  { onPiece, context }: Pick<ForkOptions, "onPiece" | "context">,
): Continuation {
  const roles = rolesOf(run, registry);
  checkOutputs(run, roles);
  const next = { instructions: instructionsFor(registry.root, context), message };
  const given = { answers: new Map(), grants: [], mail: [[], new Map()] as const };
  return { registry, roles, onPiece, context, next, session: undefined, ...given };
}
