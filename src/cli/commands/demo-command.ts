// `espalier demo [folder] [task]`: a lead surveys a folder with a tree of surveyors, under one
// budget and in one trace. Without a model, an offline planner decides: no key, no files.

import { existsSync } from "node:fs";
import { join } from "node:path";

import type { RunResult, Model } from "espalier";
import { jaegerLinks, stripControlCharacters, formatRunReport } from "espalier/terminal";

import { DEFAULT_BUDGET } from "../amount-options.ts";
import { type CommandBody, portOf, readableFolder } from "../command-call.ts";
import { folderTools } from "../folder-tools.ts";
import { modelByName, modelProblem } from "../model-by-name.ts";
import { nodeTracing } from "../follow-run.ts";
import { leadFor } from "../run-settings.ts";
import { note, readSetting, type Shell } from "../shell.ts";
import { offlinePlanner } from "../survey/offline-planner.ts";
import { surveyLead } from "../survey/survey-roles.ts";
import { describeCause, UsageError } from "../exit-codes.ts";

const DEFAULT_TASK = "What is each part for, and how do the parts fit together?";
const WIDEST_REPORT = 120;
const CONFIGURATION = { roles: [], config: {}, configFile: undefined };
const VIEWED = { project: undefined, store: undefined, storeName: "the demo" };

const OFFLINE_NOTICE = `\
This is the offline planner, which follows fixed rules and is not a language model.
For a real one, set ESPALIER_MODEL and OPENAI_API_KEY.`;

export const body: CommandBody = async (call) => {
  const { shell, args } = call;
  const [named, task = DEFAULT_TASK] = args;
  if (task.trim() === "")
    throw new UsageError("Expected a task, got an empty one. Leave it out for the default task.");
  portOf(call);
  const folder = readableFolder(shell, named ?? (existsSync(join(shell.cwd, "src")) ? "src" : "."));
  const endpoint =
    readSetting(shell.env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ??
    readSetting(shell.env, "OTEL_EXPORTER_OTLP_ENDPOINT");
  const jaeger = endpoint === undefined ? {} : findJaeger(shell, endpoint);
  const name = readSetting(shell.env, "ESPALIER_MODEL");
  const model = name === undefined ? offlinePlanner() : await findModel(shell, name);
  const warn = (cause: unknown): undefined => {
    note(shell, `No trace: ${describeCause(cause)}`);
  };
  const tracing = endpoint === undefined ? undefined : await nodeTracing().catch(warn);
  await using viewing = call.has("view")
    ? await (await import("../viewing.ts")).openViewing(call, VIEWED)
    : undefined;
  const report = (result: RunResult): string => {
    const width = Math.min(WIDEST_REPORT, shell.stderr.columns || WIDEST_REPORT);
    return formatRunReport(result, { width, color: follower.view?.isLive ?? false, ...jaeger });
  };
  const parts = { hand: CONFIGURATION, kept: undefined, tracing, viewing, report };
  const { orchestrator, follower } = leadFor(call, parts);
  const lead = surveyLead(model, folderTools(folder));
  // A cost can be limited only where the price is known.
  const { costUsd, ...limits } = { ...DEFAULT_BUDGET, totalTokens: 1_000_000 };
  const budget =
    costUsd === undefined || model.price === undefined ? limits : { ...limits, costUsd };
  const run = orchestrator.start(lead, task, { budget });
  note(shell, name === undefined ? OFFLINE_NOTICE : `Model: ${stripControlCharacters(name)}`);
  note(shell, `Folder: ${stripControlCharacters(folder)}\n`);
  return await follower.follow(run, { viewing, tracing });
};

async function findModel({ env }: Shell, name: string): Promise<Model> {
  const problem = modelProblem(name, env);
  if (problem !== undefined) throw new UsageError(problem);
  return await modelByName(name);
}

const THIS_MACHINE = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Returns the address of Jaeger, if it is known. */
function findJaeger(shell: Shell, endpoint: string): { readonly jaegerUrl?: string } {
  const isHere = URL.canParse(endpoint) && THIS_MACHINE.test(new URL(endpoint).hostname);
  const jaegerUrl =
    readSetting(shell.env, "ESPALIER_JAEGER_URL") ??
    (isHere ? "http://localhost:16686" : undefined);
  if (jaegerUrl === undefined) return {};
  try {
    jaegerLinks(jaegerUrl);
    return { jaegerUrl };
  } catch (cause) {
    throw new UsageError(`ESPALIER_JAEGER_URL: ${describeCause(cause)}`, { cause });
  }
}
