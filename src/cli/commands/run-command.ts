// `espalier run <role.md | file.ts | name> [task]`: executes one run, and returns its result on
// stdout and as an exit code.

import { text as textOf } from "node:stream/consumers";

import { EspalierError, type Budget, type Run, type StartOptions } from "espalier";

import { parseBudgetOption, describeBudget } from "../amount-options.ts";
import {
  type CommandBody,
  type CommandCall,
  readPortOption,
  resolveReadableFolder,
} from "../command-call.ts";
import { startNodeTracing } from "../follow-run.ts";
import { findProject, type Project, type ChosenStore } from "../project.ts";
import { loadRoleToRun, suggestRolesOption, type RoleSources } from "../available-roles.ts";
import {
  createRunContext,
  readAnswerMode,
  prepareRun,
  readOutputChoice,
  openRunStore,
} from "../run-settings.ts";
import { formatOwnCommand, printNotice } from "../shell.ts";
import { UsageError } from "../exit-codes.ts";
import type { Viewing } from "../open-viewer.ts";

export const body: CommandBody = async (call) => {
  const { shell, args, text, has } = call;
  const { isQuiet } = readOutputChoice(call);
  readAnswerMode(call);
  readPortOption(call);
  const budget = parseBudgetOption(text("budget"));
  const readFolder = resolveReadableFolder(shell, text("allowRead"));
  const project = await findProject(shell);
  const search = { shell, project, model: text("model"), readFolder };
  const task = await readTask(call);
  await using hand = await loadRoleToRun(args[0] ?? "", search);
  await using chosenStore = await openRunStore(call, { ...project, config: hand.config });
  const tracing = has("otel") ? await startNodeTracing() : undefined;
  await using viewing = has("view") ? await openRunViewer(call, project, chosenStore) : undefined;
  const { orchestrator, follower } = prepareRun(
    { ...call, command: formatNextCommand(call, project, hand, chosenStore) },
    { hand, chosenStore, tracing, viewing, roles: suggestRolesOption(args[0] ?? "") },
  );
  const session = text("session");
  if (session !== undefined && chosenStore === undefined)
    throw new UsageError("--session needs a store. Leave --no-store out.");
  const options: StartOptions = {
    context: await createRunContext(hand),
    ...(session === undefined ? {} : { session: await orchestrator.openSession(session) }),
  };
  const isCostSaid = text("budget")?.includes("cost=") ?? false;
  const { run, budget: appliedBudget } = startWithin(
    (limits) => orchestrator.start(hand.root, task, { ...options, budget: limits }),
    budget,
    isCostSaid,
  );
  if (!isQuiet) {
    const unpriced =
      appliedBudget.costUsd === budget.costUsd ? "" : " Cost is not limited: a price is unknown.";
    printNotice(shell, `Budget: ${describeBudget(appliedBudget)}.${unpriced}`);
  }
  return await follower.follow(run, { viewing, tracing });
};

/**
 * Returns how the user calls this command for the run. Other commands do not load the module that
 * was run.
 */
function formatNextCommand(
  { shell, command, text }: CommandCall,
  { configFile }: Project,
  hand: RoleSources,
  chosenStore: ChosenStore | undefined,
): string {
  const isOfModule = hand.configFile !== configFile && typeof hand.config.store === "string";
  const isNamed = isOfModule && chosenStore !== undefined && text("store") === undefined;
  return isNamed ? formatOwnCommand(shell, chosenStore.name) : command;
}

/**
 * Opens the viewer of the run's store. A run without a store is shown from a store of the viewer.
 */
export async function openRunViewer(
  call: CommandCall,
  project: Project,
  chosenStore: ChosenStore | undefined,
): Promise<Viewing> {
  const { openViewer } = await import("../open-viewer.ts");
  const storeName = chosenStore?.name ?? "this run alone";
  return await openViewer(call, { project, store: chosenStore?.store, storeName });
}

async function readTask({ shell, args }: CommandCall): Promise<string> {
  const [, argument = ""] = args;
  const task = argument === "-" ? await textOf(shell.stdin) : argument;
  if (task.trim() !== "") return task;
  throw new UsageError(
    'Expected a task, got none. Write it after the role, in quotes, or use "-" for stdin.',
  );
}

/** Starts a run. If a price is unknown, the cost is limited only if the user requested it. */
function startWithin(start: (budget: Budget) => Run, budget: Budget, isCostSaid: boolean) {
  try {
    return { run: start(budget), budget };
  } catch (cause) {
    if (isCostSaid || !EspalierError.is(cause) || cause.code !== "price_unknown") throw cause;
    const { costUsd: _cost, ...others } = budget;
    const rest: Budget = others;
    return { run: start(rest), budget: rest };
  }
}
