// The functions of terminal and command through which foreign text goes, by name.

import { formatAgentReport, formatStepReport } from "../../src/cli/agent-text.ts";
import { formatJsonLine, formatJson } from "../../src/cli/json-text.ts";
import { describeSettledRun } from "../../src/cli/run-text.ts";
import { printError } from "../../src/cli/print-error.ts";
import { defineAgent, Orchestrator, type EspalierEvent, type RunResult } from "../../src/index.ts";
import { formatEventLine } from "../../src/terminal/plain-view.ts";
import { renderRun } from "../../src/terminal/render-tree.ts";
import { formatRunReport } from "../../src/terminal/report.ts";
import {
  measureDisplayWidth,
  formatFirstLine,
  fit,
  stripControlCharacters,
  formatShortLine,
  formatSingleLine,
  wrapLine,
  formatFileText,
} from "../../src/terminal/terminal-text.ts";
import { terminalView } from "../../src/terminal/terminal.ts";
import { createAgentDetail } from "../../src/read-model/agent-row.ts";
import { RunFold } from "../../src/view.ts";
import { ManualClock, says, ScriptedModel, sequentialIds } from "../../src/testing/index.ts";
import { FakeShell } from "./cli/fake-shell.ts";

type TextFunction = (text: string) => unknown;

/** Functions that take a text alone. */
export const TEXT_FUNCTIONS: Readonly<Record<string, TextFunction>> = {
  displayWidth: measureDisplayWidth,
  fit: (text) => fit(text, 80),
  shortLine: formatShortLine,
  firstLine: formatFirstLine,
  singleLine: formatSingleLine,
  stripControlCharacters: stripControlCharacters,
  writtenText: formatFileText,
  wrappedRows: (text) => wrapLine(formatSingleLine(text), 80),
  jsonLine: formatJsonLine,
  jsonText: (text) => formatJson({ text: [text] }),
  "an error": (text) => printError(new FakeShell("/"), new Error(text)),
  "print on a terminal": (text) => printed(true, text),
  "print into a log": (text) => printed(false, text),
};

/** A run whose task and answer are the given text, and the functions that show it. */
export interface TextRun {
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
  readonly fold: RunFold;
}

/** Functions that show a run, a part of a run, or its events. */
export const RUN_FUNCTIONS: Readonly<Record<string, (run: TextRun) => unknown>> = {
  formatRunReport: ({ result }) => formatRunReport(result),
  "rest of a run": ({ result }) => describeSettledRun(result, [], { ...REST, command: "espalier" }),
  "tree, thirty frames": ({ fold }) => {
    for (let frame = 0; frame < 30; frame += 1) renderRun(fold, { ...SCREEN, nowMs: frame });
  },
  agentText: ({ fold }) =>
    fold.agents.map((agent) => formatAgentReport(createAgentDetail(agent, []), fold, SCREEN)),
  stepText: ({ result }) =>
    result.agents[0]?.steps.map((step) =>
      formatStepReport({
        agentPath: "lead",
        execution: 1,
        stepCount: 1,
        step,
        request: undefined,
        repliedBy: undefined,
        attempts: { model: undefined, byCall: new Map() },
        answers: new Map(),
        findPath: String,
      }),
    ),
  "lines of events": ({ events }) => events.map(formatEventLine),
  "live view": ({ events }) => viewed(true, events),
  "plain view": ({ events }) => viewed(false, events),
};

const REST = { isQuiet: false, isKept: true, resumeOptions: "" };
const SCREEN = { width: 100, height: 40, hasColor: true };

/** Runs an agent whose task and answer are the text. */
export async function runWith(text: string): Promise<TextRun> {
  const events: EspalierEvent[] = [];
  const model = new ScriptedModel([says(`Read ${text}`)]);
  const role = defineAgent({ name: "lead", instructions: "Answer.", model });
  const sinks = [{ emit: (event: EspalierEvent) => void events.push(event) }];
  const orchestrator = new Orchestrator({ clock: new ManualClock(), ids: sequentialIds(), sinks });
  const result = await orchestrator.start(role, `Read ${text}`).result;
  const fold = new RunFold(result.runId);
  for (const event of events) fold.apply(event);
  return { result, events, fold };
}

/** A terminal or a log that records the written text. */
function quietStream(isTTY: boolean) {
  const writes: string[] = [];
  const write = (text: string): void => void writes.push(text);
  return { isTTY, columns: 80, rows: 24, write, on: () => {}, off: () => {}, writes };
}

/** Returns the output of a view for a text, as one string. */
function printed(isTTY: boolean, text: string): string {
  const stream = quietStream(isTTY);
  const view = terminalView({ stream, env: {}, clock: new ManualClock() });
  view.print(text);
  view.stop();
  return stream.writes.join("");
}

function viewed(isTTY: boolean, events: readonly EspalierEvent[]): string {
  const stream = quietStream(isTTY);
  const clock = new ManualClock();
  const view = terminalView({ stream, env: {}, clock });
  for (const event of events) {
    view.emit(event);
    clock.advance(100);
  }
  view.stop();
  return stream.writes.join("");
}
