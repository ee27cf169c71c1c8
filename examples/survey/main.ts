// The demo: a lead surveys a folder with a tree of surveyors, under one budget and in one trace.
// `npm run demo -- --help` says how to use it.

import { EspalierError, Orchestrator, type Budget, type Run, type RunResult } from "espalier";
import type { Model } from "espalier/extend";
import { plainText, runReport, terminalView, type TerminalView } from "espalier/terminal";
import type { FlushReport, NodeTracing } from "espalier/otel/node";

import { HELP, readCommand, type Command } from "./command.ts";
import { EXIT_CODES } from "./exit-codes.ts";
import { offlinePlanner } from "./offline-planner.ts";
import { surveyRoles } from "./roles.ts";
import { surveyModel } from "./survey-model.ts";
import { surveyTools } from "./survey-tools.ts";

const BUDGET: Budget = { totalTokens: 1_000_000, steps: 120, wallTimeMs: 600_000 };
const COST_LIMIT_USD = 1;
const WIDEST_REPORT = 120;

const OFFLINE_NOTICE = `\
This is the offline planner: it follows fixed rules and is not a language model.
For a real one, set ESPALIER_MODEL and OPENAI_API_KEY.`;

async function main(): Promise<number> {
  const command = readCommand(process.argv.slice(2), process.env);
  switch (command.kind) {
    case "help":
      say(HELP);
      return 0;
    case "invalid":
      process.stderr.write(`${command.message}\n`);
      return 2;
    case "survey":
      return await survey(command);
  }
}

async function survey(command: Extract<Command, { readonly kind: "survey" }>): Promise<number> {
  const { folder, task, modelName } = command;
  let model: Model;
  try {
    model = modelName === undefined ? offlinePlanner() : await surveyModel(modelName);
  } catch (cause) {
    return misuse(cause);
  }
  say(modelName === undefined ? OFFLINE_NOTICE : `Model: ${plainText(modelName)}`);
  say(`Folder: ${plainText(folder)}\n`);
  const tracing = command.isTraced ? await nodeTracing() : undefined;
  const view = terminalView({ lastFrame: "erase" });
  const orchestrator = new Orchestrator({
    sinks: [view],
    ...(tracing === undefined ? {} : { tracing: tracing.tracing }),
  });
  const { lead } = surveyRoles(model, surveyTools(folder));
  let run: Run;
  try {
    run = orchestrator.start(lead, task, { budget: budgetFor(model) });
  } catch (cause) {
    return misuse(cause);
  }
  const result = await resultOf(run);
  show(result, view, tracing === undefined ? undefined : command.jaegerUrl);
  if (tracing !== undefined) say(deliveryText(await tracing.shutdown()));
  return EXIT_CODES[result.status];
}

/** Says what was wrong with the use of the demo. */
function misuse(cause: unknown): number {
  if (!EspalierError.is(cause)) throw cause;
  process.stderr.write(`${cause.message}\n`);
  return 2;
}

/** A cost can be limited only where the price is known. */
function budgetFor(model: Model): Budget {
  return model.price === undefined ? BUDGET : { ...BUDGET, costUsd: COST_LIMIT_USD };
}

/**
 * Loads OpenTelemetry only for those who want it. Whatever is wrong with it, the survey continues.
 */
async function nodeTracing(): Promise<NodeTracing | undefined> {
  try {
    const { setUpNodeTracing } = await import("espalier/otel/node");
    return setUpNodeTracing();
  } catch (cause) {
    process.stderr.write(`No trace: ${cause instanceof Error ? cause.message : String(cause)}\n`);
    return undefined;
  }
}

/** Ctrl-C cancels the tree once; a second press ends the program. */
async function resultOf(run: Run): Promise<RunResult> {
  let isOver = false;
  process.on("SIGINT", () => {
    if (isOver) process.exit(EXIT_CODES.cancelled);
    isOver = true;
    void run.cancel("Ctrl-C was pressed.");
  });
  const result = await run.result;
  isOver = true;
  return result;
}

function show(result: RunResult, view: TerminalView, jaegerUrl: string | undefined): void {
  const width = Math.min(WIDEST_REPORT, process.stdout.columns ?? WIDEST_REPORT);
  if (!view.isLive) say("");
  if (result.text !== "") say(`${plainText(result.text)}\n`);
  const link = jaegerUrl === undefined ? {} : { jaegerUrl };
  say(runReport(result, { width, hasColor: view.isLive, ...link }));
}

function deliveryText({ deliveredSpans, lostSpans, pendingSpans, lastError }: FlushReport): string {
  const missing = lostSpans + pendingSpans;
  if (missing === 0) return `Trace sent: ${deliveredSpans} spans`;
  const why =
    lastError === undefined ? "the endpoint did not answer in time" : plainText(lastError);
  return `Trace incomplete: ${missing} of ${deliveredSpans + missing} spans not sent (${why})`;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

// The reader of our output may stop reading, as `head` does.
process.stdout.on("error", () => process.exit());
process.exitCode = await main();
