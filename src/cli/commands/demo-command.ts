// `espalier demo [folder] [task]`: a lead surveys a folder with a tree of surveyors, under one budget and in one trace. Without a model it is
// an offline planner, which is not a language model and says so: no key, no files.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { Orchestrator, type Budget, type RunResult } from "espalier";
import type { Model } from "espalier/extend";
import type { NodeTracing } from "espalier/otel/node";
import { jaegerLinks, plainText, runReport } from "espalier/terminal";

import { DEFAULT_BUDGET } from "../amount-options.ts";
import type { CommandBody, CommandCall } from "../command-call.ts";
import { folderTools } from "../folder-tools.ts";
import { RunFollower } from "../follow-run.ts";
import { modelByName, modelProblem } from "../model-by-name.ts";
import { nodeTracing } from "../node-tracing.ts";
import { readableFolder } from "../readable-folder.ts";
import { note, type Shell } from "../shell.ts";
import { offlinePlanner } from "../survey/offline-planner.ts";
import { surveyRoles } from "../survey/survey-roles.ts";
import { UsageError } from "../usage-error.ts";
import { portOf } from "../port-option.ts";
import type { Viewing } from "../viewing.ts";

const BUDGET: Budget = { ...DEFAULT_BUDGET, totalTokens: 1_000_000 };
const DEFAULT_TASK = "What is each part for, and how do the parts fit together?";
const WIDEST_REPORT = 120;

const OFFLINE_NOTICE = `\
This is the offline planner: it follows fixed rules and is not a language model.
For a real one, set ESPALIER_MODEL and OPENAI_API_KEY.`;

export const body: CommandBody = async (call) => {
  const { shell, args } = call;
  const [named, task = DEFAULT_TASK] = args;
  if (task.trim() === "")
    throw new UsageError(
      "Expected a task in words, got an empty one. Leave it out for the usual one.",
    );
  portOf(call);
  const folder = readableFolder(shell, named ?? (existsSync(join(shell.cwd, "src")) ? "src" : "."));
  const jaegerUrl = jaegerUrlOf(shell);
  const { model, name } = await surveyModelOf(shell);
  const isTraced = endpointOf(shell) !== undefined;
  const tracing = isTraced ? await tracingIfThere(shell) : undefined;
  const report = (result: RunResult): string => {
    const { stderr } = shell;
    const width = Math.min(WIDEST_REPORT, stderr.columns || WIDEST_REPORT);
    const hasColor = follower.view?.isLive ?? false;
    return runReport(result, {
      width,
      hasColor,
      ...(jaegerUrl === undefined ? {} : { jaegerUrl }),
    });
  };
  const options = { output: "result", isQuiet: false, isKept: false, report } as const;
  const follower = new RunFollower(shell, options);
  await using viewing = call.has("view") ? await viewingOf(call) : undefined;
  const page = viewing?.viewer;
  const orchestrator = new Orchestrator({
    sinks: page === undefined ? follower.sinks : [...follower.sinks, page.sink],
    ...(page === undefined ? {} : { store: page.store }),
    ...(tracing === undefined ? {} : { tracing: tracing.tracing }),
  });
  page?.attach(orchestrator);
  const { lead } = surveyRoles(model, folderTools(folder));
  const run = orchestrator.start(lead, task, { budget: budgetFor(model) });
  note(shell, name === undefined ? OFFLINE_NOTICE : `Model: ${plainText(name)}`);
  note(shell, `Folder: ${plainText(folder)}\n`);
  return await follower.follow(run, { viewing, tracing });
};

/** The viewer of this run alone: no file is written, not even for its token. */
async function viewingOf(call: CommandCall): Promise<Viewing> {
  const { openViewing } = await import("../viewing.ts");
  return await openViewing(call, { project: undefined, store: undefined, storeName: "the demo" });
}

/** A cost can be limited only where the price is known. */
function budgetFor(model: Model): Budget {
  const { costUsd: _cost, ...rest } = BUDGET;
  return model.price === undefined ? rest : BUDGET;
}

/** Without a model's name there is none, whatever keys the shell has for other programs. */
async function surveyModelOf({
  env,
}: Shell): Promise<{ readonly model: Model; readonly name: string | undefined }> {
  const name = settingIn(env, "ESPALIER_MODEL");
  if (name === undefined) return { model: offlinePlanner(), name };
  const problem = modelProblem(name, env);
  if (problem !== undefined) throw new UsageError(problem);
  return { model: await modelByName(name), name };
}

/** Whatever is wrong with OpenTelemetry, the survey continues. */
async function tracingIfThere(shell: Shell): Promise<NodeTracing | undefined> {
  try {
    return await nodeTracing();
  } catch (cause) {
    note(shell, `No trace: ${cause instanceof Error ? cause.message : String(cause)}`);
    return undefined;
  }
}

function endpointOf({ env }: Shell): string | undefined {
  return (
    settingIn(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ??
    settingIn(env, "OTEL_EXPORTER_OTLP_ENDPOINT")
  );
}

const THIS_MACHINE = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Where the pages of Jaeger are; undefined: unknown, or there is no trace. Throws UsageError for what is no address. */
function jaegerUrlOf(shell: Shell): string | undefined {
  const endpoint = endpointOf(shell);
  if (endpoint === undefined) return undefined;
  const isHere = URL.canParse(endpoint) && THIS_MACHINE.test(new URL(endpoint).hostname);
  const url =
    settingIn(shell.env, "ESPALIER_JAEGER_URL") ?? (isHere ? "http://localhost:16686" : undefined);
  try {
    if (url !== undefined) jaegerLinks(url);
    return url;
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(`ESPALIER_JAEGER_URL: ${message}`, { cause });
  }
}

function settingIn(env: Shell["env"], name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}
