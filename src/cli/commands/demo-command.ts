// `espalier demo [folder] [task]`: a lead surveys a folder with a tree of surveyors, under one
// budget and in one trace. Without a model, an offline planner decides: no key, no network.

import { existsSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

import { deny, type EspalierEvent, type Question } from "espalier";
import { formatRunReport, stripControlCharacters } from "espalier/terminal";

import { DEFAULT_BUDGET } from "../amount-options.ts";
import {
  type CommandBody,
  type CommandCall,
  readPortOption,
  resolveReadableFolder,
} from "../command-call.ts";
import { describeCause, UsageError } from "../exit-codes.ts";
import { createSurveyTools } from "../folder-tools.ts";
import { startNodeTracing, type FollowOptions } from "../follow-run.ts";
import { getPackageFolder } from "../installed-copy.ts";
import { findJaeger, findTraceEndpoint } from "../find-jaeger.ts";
import { createNamedModel, findModelProblem } from "../model-by-name.ts";
import { findProject } from "../project.ts";
import { prepareRun, openRunStore } from "../run-settings.ts";
import { isTerminal, isWatched, printNotice, readSetting } from "../shell.ts";
import { createOfflinePlanner } from "../survey/offline-planner.ts";
import { createSurveyLead } from "../survey/survey-roles.ts";
import { ANSWER_TIMEOUT_MS, askForKey, printMoment } from "../demo-story.ts";
import { openRunViewer } from "./run-command.ts";

const DEFAULT_TASK = "What is each part for, and how do the parts fit together?";
const WIDEST_REPORT = 120;
const REPLY_DELAY_MS = 700;
/** Minimum number of entries for a tree. */
const MIN_ENTRIES = 5;
/** Titles of the tables that show tokens or costs. */
const PRICED_TITLES = /(?:Tree|Budget of the run|Usage by (?:role|model))(?=(?:\W+22m)?$)/gm;

const OFFLINE_NOTICE = `\
This is the offline planner, which follows fixed rules and is not a language model.
Its tokens, prices and delays are simulated, also in later views of the run.
For a real one, set ESPALIER_MODEL and OPENAI_API_KEY.`;

export const body: CommandBody = async (call) => {
  const { shell, args } = call;
  const [named, task = DEFAULT_TASK] = args;
  if (task.trim() === "")
    throw new UsageError("Expected a task, got an empty one. Leave it out for the default task.");
  readPortOption(call);
  const folder = findFolder(call, named);
  const jaeger = findJaeger(shell);
  const isPaced = isWatched(shell) && !call.has("fast");
  const name = readSetting(shell.env, "ESPALIER_MODEL");
  const planner = createOfflinePlanner({ delayMs: isPaced ? REPLY_DELAY_MS : 0 });
  const problem = name === undefined ? undefined : findModelProblem(name, shell.env);
  if (problem !== undefined) throw new UsageError(problem);
  const model = name === undefined ? planner : await createNamedModel(name);
  const project = await findProject(shell);
  await using store = await openRunStore(call, project);
  const warn = (cause: unknown): undefined => {
    printNotice(shell, `No trace: ${describeCause(cause)}`);
  };
  const tracing =
    findTraceEndpoint(shell) === undefined ? undefined : await startNodeTracing().catch(warn);
  await using viewing = call.has("view") ? await openRunViewer(call, project, store) : undefined;
  const report: FollowOptions["report"] = (result) => {
    const width = Math.min(WIDEST_REPORT, shell.stderr.columns || WIDEST_REPORT);
    const color = follower.view?.isLive ?? false;
    const text = formatRunReport(result, { width, color, ...jaeger });
    return name === undefined ? text.replace(PRICED_TITLES, "$& (simulated)") : text;
  };
  const canAsk = isPaced && (viewing !== undefined || isTerminal(shell));
  const config = {
    sinks: [{ emit: (event: EspalierEvent) => printMoment(follower, event) }],
    approver: canAsk
      ? askForKey(shell, () => follower)
      : (question: Question) => deny(question, "Nobody can be asked here."),
    answerTimeoutMs: ANSWER_TIMEOUT_MS,
  };
  const hand = { roles: [], config, configFile: undefined };
  const settings = { hand, chosenStore: store, tracing, viewing, report };
  const { orchestrator, follower } = prepareRun(call, settings);
  // A cost limit needs a known price.
  const { costUsd, ...limits } = { ...DEFAULT_BUDGET, totalTokens: 1_000_000 };
  const budget =
    costUsd === undefined || model.price === undefined ? limits : { ...limits, costUsd };
  const lead = createSurveyLead(model, createSurveyTools(folder));
  const run = orchestrator.start(lead, task, { budget });
  const notice = name === undefined ? OFFLINE_NOTICE : `Model: ${stripControlCharacters(name)}`;
  printNotice(shell, notice);
  printNotice(shell, `Folder: ${stripControlCharacters(folder)}\n`);
  const exitCode = await follower.follow(run, { viewing, tracing });
  if (store !== undefined) printNextCommands(call, run.runId, store.name);
  return exitCode;
};

/**
 * Returns the named folder, `src` or the working folder. If that has few entries, returns the
 * folder of the documents.
 */
function findFolder({ shell, command }: CommandCall, named: string | undefined): string {
  const defaultFolder = existsSync(join(shell.cwd, "src")) ? "src" : ".";
  const folder = resolveReadableFolder(shell, named ?? defaultFolder);
  const visible = readdirSync(folder).filter((name) => !/^(\.|node_modules$)/.test(name));
  if (visible.length > 0 && (named !== undefined || visible.length >= MIN_ENTRIES)) return folder;
  const docs = join(getPackageFolder(), "docs");
  const advice = `${command} demo ${named === undefined ? "<folder>" : relative(shell.cwd, docs)}`;
  if (named !== undefined)
    throw new UsageError(
      `The folder ${JSON.stringify(named)} has no files. The demo reads the files of a folder and reports what they are for. Name another folder, for example: ${advice}`,
    );
  printNotice(shell, "There is little to read here, so the demo reads the documents of espalier.");
  printNotice(shell, `To read another folder, type: ${advice}\n`);
  return docs;
}

function printNextCommands(call: CommandCall, runId: string, storeName: string): void {
  const { shell, command } = call;
  printNotice(shell, `\nThe run is stored in ${storeName}. Next:`);
  for (const [label, typed] of [
    ["the tree again", `${command} show ${runId}`],
    ["what failed", `${command} show ${runId} --errors`],
    ["in the browser", `${command} view ${runId}`],
    ["all runs", `${command} runs`],
    ["in Jaeger", `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 ${command} demo`],
  ] as const)
    printNotice(shell, `  ${label.padEnd(14)}  ${typed}`);
}
