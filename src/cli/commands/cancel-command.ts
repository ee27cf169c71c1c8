// `espalier cancel <run>`: requests a cancellation from the owner process. A run without an owner
// is executed here to its end, with its roles or with stand-ins.

import {
  defineAgent,
  defineTool,
  EspalierError,
  lookUpModelPrice,
  Orchestrator,
  type AgentRole,
  type Question,
  type RunId,
} from "espalier";
import type { Store, StoredRun, ToolsetTool } from "espalier/extend";
import { z } from "zod";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { resolveRunName, readRootRole, StoredRunReader } from "../stored-run-reader.ts";
import { createRunContext, selectOrchestratorOptions } from "../run-settings.ts";
import { openProjectStore, type Project } from "../project.ts";
import { loadNamedRole, resolveRolesOption } from "../available-roles.ts";
import { printNotice } from "../shell.ts";
import { UsageError } from "../exit-codes.ts";

export const body: CommandBody = async (call) => {
  const { shell, args, text } = call;
  await using chosenStore = await openProjectStore(call, "write");
  const { store, project } = chosenStore;
  const run = await resolveRunName(chosenStore, args[0] ?? "");
  const { runId } = run;
  if (run.status === "ended")
    throw new EspalierError({
      code: "run_ended",
      message: `Cannot cancel ${runId}: it has ended. See it: ${call.command} show ${runId}`,
      data: { runId },
    });
  const message = text("reason") ?? "Cancelled by espalier cancel.";
  const sources = [
    // A live owner needs no roles here. The recorded owner may also have crashed.
    ...(run.owner === null ? [] : [async () => []]),
    async () => await findRoles(call, project, run),
    async () => await createStandIns(store, run),
  ];
  for (const findSource of sources) {
    const roles = await findSource();
    try {
      const options = selectOrchestratorOptions(project.config);
      const orchestrator = new Orchestrator({ ...options, store, roles });
      const context = roles.length === 0 ? undefined : await createRunContext(project);
      await orchestrator.cancel(runId, { message, context });
      printNotice(shell, await describeCancelOutcome(orchestrator, store, runId));
      return 0;
    } catch (cause) {
      if (!EspalierError.is(cause) || !ROLE_PROBLEMS.has(cause.code)) throw cause;
    }
  }
  printNotice(
    shell,
    `Recorded the cancellation of ${runId}. It takes effect when the run is resumed with its roles: ${call.command} resume ${runId}`,
  );
  return 0;
};

/** Codes of a run that cannot continue with the given roles. The cancellation is in its mailbox. */
const ROLE_PROBLEMS: ReadonlySet<string> = new Set([
  "invalid_paused_run",
  "output_mismatch",
  "price_unknown",
]);

async function refuseExecution(): Promise<never> {
  throw new Error("A cancelled run calls no model.");
}

/**
 * Returns roles with the names that the run needs. A run that is only cancelled calls no model, tool
 * or hook.
 */
async function createStandIns(store: Store, run: StoredRun): Promise<readonly AgentRole[]> {
  const reading = new StoredRunReader(store, run);
  await reading.advance();
  const { agents: listed, questions } = reading.fold;
  const agents = new Map(listed.map((agent) => [agent.role, agent]));
  return [...agents].map(([name, { provider, model: id }]) => {
    const price = lookUpModelPrice(provider, id);
    const model = {
      provider,
      id,
      generate: refuseExecution,
      ...(price === undefined ? {} : { price }),
    };
    const subagents = [...agents.keys()];
    const ofRole = questions.filter(({ agentId }) => reading.fold.find(agentId)?.role === name);
    const tools = [
      ...new Map(
        ofRole.map((question) => [question.toolName, createPlaceholderTool(question)]),
      ).values(),
    ];
    return defineAgent({ name, description: name, instructions: name, model, subagents, tools });
  });
}

/** Returns a tool of the kind of the question, which accepts any arguments. */
function createPlaceholderTool({ kind, toolName: name }: Question): ToolsetTool {
  const definition = { name, description: name, inputSchema: z.looseObject({}) };
  if (kind === "external") return defineTool(definition);
  return defineTool({ ...definition, needsApproval: true, execute: refuseExecution });
}

/**
 * Reports whether the run has ended. The owner may not have cancelled it yet, or the run may have
 * ended before.
 */
async function describeCancelOutcome(
  orchestrator: Orchestrator,
  store: Store,
  runId: RunId,
): Promise<string> {
  const stored = await store.find(runId);
  if (stored?.status !== "ended")
    return `Cancellation requested: the process that owns ${runId} cancels it.`;
  const { status } = await orchestrator.getResult(runId);
  return status === "cancelled" ? `Cancelled ${runId}.` : `${runId} had already ended: ${status}.`;
}

/**
 * Returns the roles for a run that is cancelled here, without tools of servers, because no tool is
 * called. Empty if the roles are unavailable.
 */
async function findRoles(
  call: CommandCall,
  project: Project,
  run: StoredRun,
): Promise<readonly AgentRole[]> {
  const { shell } = call;
  const place = resolveRolesOption(call);
  const search = { shell, project, model: undefined, readFolder: shell.cwd };
  try {
    await using hand = await loadNamedRole(readRootRole(run), search, place);
    return hand.roles;
  } catch (cause) {
    if (cause instanceof UsageError) return [];
    throw cause;
  }
}
