// Options of commands that execute a run, and the orchestrator for them.

import { EspalierError, Orchestrator, type Approver, type OrchestratorOptions } from "espalier";
import type { EspalierConfig } from "espalier/config";
import type { NodeTracing } from "espalier/otel/node";

import type { CommandCall } from "./command-call.ts";
import { RunFollower, type FollowOptions } from "./follow-run.ts";
import { addFileToError } from "./import-file.ts";
import {
  type Project,
  formatStoreName,
  openStore,
  chooseStorePlace,
  type ChosenStore,
} from "./project.ts";
import type { RoleSources } from "./available-roles.ts";
import { isTerminal, printNotice, quoteForShell, type Shell } from "./shell.ts";
import { describeCause, UsageError } from "./exit-codes.ts";
import type { Viewing } from "./open-viewer.ts";

/**
 * Way to answer the questions of the run: ask the person at the terminal, pause the run, or deny
 * them.
 */
type AnswerMode = "ask" | "pause" | "deny";

/** Returns the content of stdout, and whether stderr is quiet. Throws UsageError. */
export function readOutputChoice({ has }: CommandCall): Pick<FollowOptions, "output" | "isQuiet"> {
  if (has("json") && has("events"))
    throw new UsageError(
      "--json and --events exclude each other: both write to stdout. Leave one out.",
    );
  const plain = has("events") ? "events" : "result";
  return { output: has("json") ? "json" : plain, isQuiet: has("quiet") };
}

/**
 * Returns the mode of `--answer`, or `undefined` if it is absent. Throws UsageError for an unknown
 * mode, or for `ask` without a terminal.
 */
export function readAnswerMode({ shell, text }: CommandCall): AnswerMode | undefined {
  const mode = text("answer");
  if (mode === undefined) return undefined;
  if (mode !== "ask" && mode !== "pause" && mode !== "deny")
    throw new UsageError(
      `Expected --answer to be ask, pause or deny, got ${JSON.stringify(mode)}.`,
    );
  if (mode === "ask" && !isTerminal(shell))
    throw new UsageError(
      "--answer ask needs a terminal. Use --answer pause, and answer later: espalier questions",
    );
  return mode;
}

/**
 * Opens the store of a run. `undefined` with `--no-store`, or, with a note, if the default location
 * cannot be used.
 *
 * @throws the errors of `openStore`, for a location that the user has chosen.
 */
export async function openRunStore(
  call: CommandCall,
  project: Project,
): Promise<ChosenStore | undefined> {
  if (call.isOff("store")) return undefined;
  const place = chooseStorePlace(call, project);
  try {
    return await openStore(place);
  } catch (cause) {
    if (place.type !== "file" || !place.isDefault) throw cause;
    const why = describeCause(cause);
    printNotice(
      call.shell,
      `The run is not stored, because ${formatStoreName(place)} cannot be used: ${why}`,
    );
    return undefined;
  }
}

/** Parts of an orchestrator for one run. */
interface RunParts {
  readonly hand: Pick<RoleSources, "roles" | "config" | "configFile">;
  readonly chosenStore: ChosenStore | undefined;
  readonly tracing?: NodeTracing | undefined;
  /** Shows the active run. */
  readonly viewing?: Viewing | undefined;
  readonly report?: FollowOptions["report"];
  /** The `--roles` option with which `resume` finds the roles. Default: that of the command. */
  readonly roles?: string | undefined;
}

/**
 * Creates an orchestrator from the configuration and the options of a command, and the follower of
 * its run. `person` is `undefined` without a terminal.
 */
export function prepareRun(call: CommandCall, parts: RunParts) {
  const { shell } = call;
  const { hand, chosenStore, tracing, viewing, report, roles } = parts;
  const follower = new RunFollower(shell, {
    ...readOutputChoice(call),
    isKept: chosenStore !== undefined,
    command: call.command,
    resumeOptions: formatResumeOptions(call, roles),
    ...(report === undefined ? {} : { report }),
  });
  const { approver, ...configured } = selectOrchestratorOptions(hand.config);
  const page = viewing?.viewer;
  const usual = page?.approver ?? approver;
  const mode =
    readAnswerMode(call) ?? (usual === undefined && isTerminal(shell) ? "ask" : undefined);
  const person = mode === "ask" ? deferTerminalApprover(shell, follower) : undefined;
  const chosenApprover = mode === undefined ? usual : person;
  const store = chosenStore?.store ?? page?.store;
  const orchestrator = createConfiguredOrchestrator(hand, {
    ...configured,
    roles: hand.roles,
    sinks: [
      ...follower.sinks,
      ...(page === undefined ? [] : [page.sink]),
      ...(configured.sinks ?? []),
    ],
    ...(chosenApprover === undefined ? {} : { approver: chosenApprover }),
    ...(mode === "deny" ? { unansweredPolicy: "deny" } : {}),
    ...(store === undefined ? {} : { store }),
    ...(tracing === undefined ? {} : { tracing: tracing.tracing }),
  });
  page?.attach(orchestrator, { context: () => createRunContext(hand) });
  return { orchestrator, follower, person };
}

/**
 * Creates the orchestrator. Its option errors are reported for the configuration file, the only
 * source of these options.
 */
function createConfiguredOrchestrator(
  { configFile }: RunParts["hand"],
  options: OrchestratorOptions,
): Orchestrator {
  try {
    return new Orchestrator(options);
  } catch (cause) {
    if (configFile === undefined || !EspalierError.is(cause)) throw cause;
    throw new EspalierError({ ...addFileToError(configFile, cause), cause });
  }
}

/** Returns the options with which `resume` loads the roles as this command did. */
function formatResumeOptions({ text }: CommandCall, roles = text("roles")): string {
  const options = { roles, model: text("model"), "allow-read": text("allowRead") };
  return Object.entries(options)
    .map(([name, value]) => (value === undefined ? "" : ` --${name} ${quoteForShell(value)}`))
    .join("");
}

/** Asks at the terminal in place of the tree. Prompts are loaded with the first question. */
function deferTerminalApprover(shell: Shell, follower: RunFollower): Approver {
  const makeRoom = (): (() => void) => follower.view?.suspend() ?? (() => {});
  const place = { shell, makeRoom, interrupt: () => follower.leavePrompt() };
  let loading: Promise<Approver> | undefined;
  return async (question, context) => {
    loading ??= import("./terminal-approver.ts").then(({ createTerminalApprover }) =>
      createTerminalApprover(place),
    );
    const approver = await loading;
    return await approver(question, context);
  };
}

/** Returns the context of a run. Throws `context_failed` if the function of the configuration does. */
export async function createRunContext({
  config,
  configFile,
}: Pick<RunParts["hand"], "config" | "configFile">): Promise<unknown> {
  try {
    return await config.context?.();
  } catch (cause) {
    const message = `Expected \`context\` of ${configFile} to return the context, but it threw: ${describeCause(cause)}. Fix it.`;
    throw new EspalierError({ code: "context_failed", message, cause });
  }
}

/** Returns the options from the configuration for the orchestrator. */
export function selectOrchestratorOptions(config: EspalierConfig): OrchestratorOptions {
  const {
    roles: _roles,
    tools: _tools,
    context: _context,
    models: _models,
    mcp: _mcp,
    store: _store,
    ...shared
  } = config;
  return shared;
}
