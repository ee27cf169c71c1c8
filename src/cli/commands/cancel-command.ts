// `espalier cancel <run>`: whoever leads the run is told; one that nobody leads is led to its end here, for which its roles are needed.

import { Orchestrator } from "espalier";

import type { CommandBody } from "../command-call.ts";
import { namedRun } from "../named-run.ts";
import { configuredOptions } from "../configured-options.ts";
import { findProject } from "../project.ts";
import { note } from "../shell.ts";
import { openKeptStore, storePlace } from "../store-choice.ts";

export const body: CommandBody = async (call) => {
  const { shell, args, text } = call;
  const project = await findProject(shell);
  await using kept = await openKeptStore(storePlace(call, project));
  const { store } = kept;
  const run = await namedRun(store, args[0] ?? "");
  const message = text("reason") ?? "Cancelled by espalier cancel.";
  const orchestrator = new Orchestrator({ ...configuredOptions(project.config), store });
  await orchestrator.cancel(run.runId, { message });
  note(shell, `Cancelled ${run.runId}.`);
  return 0;
};
