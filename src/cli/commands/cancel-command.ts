// `espalier cancel <run>`: requests a cancellation from the owner process. A run without an owner
// is executed here to its end, which needs its roles.

import { EspalierError, Orchestrator, type AgentRole, type RunId } from "espalier";
import type { Store, StoredRun } from "espalier/extend";

import { type CommandBody, type CommandCall, resolveReadableFolder } from "../command-call.ts";
import { resolveRunName, readRootRole } from "../run-reading.ts";
import { selectOrchestratorOptions } from "../run-settings.ts";
import { openProjectStore, type Project } from "../project.ts";
import { loadNamedRole } from "../roles-at-hand.ts";
import { printNotice } from "../shell.ts";
import { UsageError } from "../exit-codes.ts";

export const body: CommandBody = async (call) => {
  const { shell, args, text } = call;
  await using kept = await openProjectStore(call, "write");
  const { store, project } = kept;
  const run = await resolveRunName(kept, args[0] ?? "");
  const { runId } = run;
  if (run.status === "ended")
    throw new EspalierError({
      code: "run_ended",
      message: `Cannot cancel ${runId}: it has ended. See it: ${call.command} show ${runId}`,
      data: { runId },
    });
  const message = text("reason") ?? "Cancelled by espalier cancel.";
  const cancelWith = async (roles: readonly AgentRole[]): Promise<Orchestrator> => {
    const orchestrator = new Orchestrator({
      ...selectOrchestratorOptions(project.config),
      store,
      roles,
    });
    await orchestrator.cancel(runId, { message });
    return orchestrator;
  };
  const orchestrator = await (run.owner === null
    ? cancelWith(await findRoles(call, project, run))
    : // A live owner needs no roles here. The recorded owner may also have crashed.
      cancelWith([]).catch(async (cause: unknown) => {
        if (!EspalierError.is(cause) || cause.code !== "invalid_paused_run") throw cause;
        return await cancelWith(await findRoles(call, project, run));
      }));
  printNotice(shell, await describeCancelOutcome(orchestrator, store, runId));
  return 0;
};

/**
 * Reports whether the run has ended. The owner may not have cancelled it yet, or the run may have
 * ended before.
 */
async function describeCancelOutcome(
  orchestrator: Orchestrator,
  store: Store,
  runId: RunId,
): Promise<string> {
  const found = await store.find(runId);
  if (found?.status !== "ended")
    return `Cancellation requested: the process that owns ${runId} cancels it.`;
  const { status } = await orchestrator.getResult(runId);
  return status === "cancelled" ? `Cancelled ${runId}.` : `${runId} had already ended: ${status}.`;
}

/**
 * Returns the roles for a run that is cancelled here, without tools of servers, because no tool is
 * called. Empty if the roles are unavailable.
 */
async function findRoles(
  { shell, text }: CommandCall,
  project: Project,
  run: StoredRun,
): Promise<readonly AgentRole[]> {
  const folder = resolveReadableFolder(shell, text("roles"));
  const usual = text("model");
  const models = { model: undefined, ...(usual === undefined ? {} : { usualModel: usual }) };
  const search = { shell, project, ...models, readFolder: shell.cwd };
  try {
    await using hand = await loadNamedRole(readRootRole(run), search, folder);
    return hand.roles;
  } catch (cause) {
    if (cause instanceof UsageError) return [];
    throw cause;
  }
}
