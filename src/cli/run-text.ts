// Formats runs as text: a run with its tree, the list of runs, and the lines for a settled run.
// Pure.

import type { Question, RunResult } from "espalier";
import type {
  AgentFold,
  QuestionRow,
  RunFold,
  RunHead,
  RunRow,
  Cause,
  RunRowStatus,
} from "espalier/view";

import { renderRun } from "../terminal/render-tree.ts";
import {
  createPainter,
  stripControlCharacters,
  formatSingleLine,
  formatFirstLine,
  formatShortLine,
} from "../terminal/terminal-text.ts";
import {
  formatCost,
  formatDuration,
  formatQuantity,
  describeUnpricedModels,
  formatShortCount,
} from "../read-model/amounts.ts";
import { formatTable, type Column, type Cell } from "../terminal/table.ts";
import { groupRuns, isAnswered, type RunGroup } from "../read-model/run-row.ts";
import { LOST, REST_SIGNS, QUESTION } from "../terminal/activity-text.ts";
import { suggestGrantCommand } from "./amount-options.ts";
import { formatJsonLine } from "./json-text.ts";
import type { Shell } from "./shell.ts";

/** Parts of the text about a run. */
interface ShownRunParts {
  readonly fold: RunFold;
  readonly head: RunHead;
  /** Open questions. */
  readonly questions: readonly QuestionRow[];
  readonly nowMs: number;
}

const MAX_ROWS = 50;

const PAST_TREE = "The process of the run has stopped. Each agent is shown as it was then:";

/** Returns the report of a run. */
export function formatRunOverview(parts: ShownRunParts, style: OutputStyle): string {
  const { fold, head, questions, nowMs } = parts;
  const { startedAtMs, budget, remaining, refusals, root, end } = fold;
  const isLost = head.status === "lost";
  const tree = renderRun(
    { startedAtMs, time: head, budget, remaining, refusals, root, end, questions },
    { width: style.width, nowMs, hasColor: style.hasColor, isLost },
  );
  const past = isLost ? [PAST_TREE] : [];
  return joinSections([describeRunHead(head, style), describeRunCauses(fold), [...past, ...tree]]);
}

/** Returns the problems of a run: its causes, and every agent, call and spawn without success. */
export function describeRunErrors({ fold, head }: ShownRunParts, style: OutputStyle): string {
  const sections = [
    describeRunHead(head, style),
    describeRunCauses(fold),
    formatListSection(
      "Agents that did not complete",
      fold.agents.flatMap(describeUncompletedAgent),
    ),
    formatListSection("Calls that failed", fold.agents.flatMap(describeFailedCalls)),
    formatListSection("Spawns that were refused", describeRefusals(fold)),
  ];
  const isWell = sections.slice(1).every((lines) => lines.length === 0);
  if (isWell) sections.push(["No failures."]);
  return joinSections(sections);
}

function describeRunHead(head: RunHead, { hasColor }: OutputStyle): readonly string[] {
  const {
    runId,
    status,
    reason,
    owner: leader,
    title,
    spent,
    agentCount: agents,
    forkedFrom,
  } = head;
  // If the run waits for a process, the reason of its last pause is obsolete.
  const isBrief = reason === undefined || status === "completed" || status === "waiting";
  const { text, style } = formatStatusCell(
    status,
    isBrief || reason.code === status ? "" : reason.code,
  );
  const paint = createPainter(hasColor);
  const facts = [
    `started ${new Date(head.startedAtMs).toISOString()}`,
    `lasted ${formatDuration(head.durationMs)}${describePausedTime(head)}`,
    formatQuantity(agents, "agent"),
    formatQuantity(spent.totalTokens, "token"),
    `cost ${formatCost(spent)}${describeUnpricedModels(head.unpricedModels ?? [])}`,
    ...(leader === null ? [] : [`run by process ${leader.processId} on ${leader.hostname}`]),
    ...(forkedFrom === undefined
      ? []
      : [`fork of ${forkedFrom.runId} at step ${forkedFrom.stepNumber}`]),
  ];
  return [
    `${formatSingleLine(runId)} ${paint(style, formatSingleLine(text))}`,
    formatSingleLine(title),
    ...(isBrief ? [] : [formatSingleLine(reason.message)]),
    facts.map(formatSingleLine).join(" · "),
  ];
}

/** A pause of less than a second is not shown. */
function describePausedTime({ idleMs, status }: RunHead): string {
  const words = status === "lost" ? "without a process" : "paused";
  return idleMs < 1_000 ? "" : `, ${words} for ${formatDuration(idleMs)} of it`;
}

function describeRunCauses(fold: RunFold): readonly string[] {
  const causes = fold.causes();
  if (causes.length === 0) return [];
  const isBroken = fold.end?.status === "failed" || fold.end?.status === "stopped";
  const isWell = !isBroken && causes.every(({ isLimit }) => isLimit);
  return [isWell ? LIMITS_HEADING : "Why, first cause first:", ...describeCauses(causes)];
}

function describeUncompletedAgent({ agentPath, end: rest, step }: AgentFold): readonly string[] {
  if (rest === undefined || rest.status === "completed" || rest.status === "paused") return [];
  const { code, message } = rest.error ?? rest.reason;
  return [`${agentPath} · step ${step}: ${rest.status} (${code}): ${message}`];
}

function describeFailedCalls({ agentPath, steps }: AgentFold): readonly string[] {
  return steps.flatMap(({ number, calls }) =>
    calls.flatMap(({ toolName, outcome, error, durationMs }) => {
      if (outcome !== "failed" && outcome !== "retry") return [];
      const took = durationMs === undefined ? "" : `, after ${formatDuration(durationMs)}`;
      const { code, message } = error ?? {};
      const why = message ? `: ${message}` : "";
      return [`${agentPath} · step ${number} · ${toolName}: ${outcome} (${code})${took}${why}`];
    }),
  );
}

function describeRefusals(fold: RunFold): readonly string[] {
  return fold.refusals.map(({ agent, role, code, message }) => {
    const path = fold.agents[agent]?.agentPath ?? "";
    return `${path} · ${role}: ${code}: ${message}`;
  });
}

function formatListSection(title: string, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return [];
  const more = lines.length > MAX_ROWS ? [`  … ${lines.length - MAX_ROWS} more`] : [];
  const shown = lines
    .slice(0, MAX_ROWS)
    .map((line) => `  ${formatSingleLine(stripControlCharacters(line))}`);
  return [`${title} (${lines.length})`, ...shown, ...more];
}

const TITLES: Readonly<Record<RunGroup, string>> = {
  attention: "to do",
  working: "working",
  done: "done",
};

/** Returns lines for the runs of a list, newest first in each group. */
export function formatRunList(
  rows: readonly RunRow[],
  { nowMs, width, hasColor }: OutputStyle & { readonly nowMs: number },
): string {
  return groupRuns(rows)
    .flatMap(([name, group]) => {
      if (group.length === 0) return [];
      const columns = createRunColumns(`${TITLES[name]} (${group.length})`, nowMs).filter(
        ({ title }) => title !== "session" || group.some(({ sessionId }) => sessionId),
      );
      return [formatTable(columns, group, width, createPainter(hasColor)).join("\n")];
    })
    .join("\n\n");
}

function createRunColumns(title: string, nowMs: number): readonly Column<RunRow>[] {
  return [
    { title, cell: ({ runId }) => formatShortLine(runId) },
    {
      title: "state",
      cell: (row) => formatStatusCell(row.status, explainStatus(row)),
      minWidth: 12,
    },
    createRightColumn("agents", 3, showAgentCount),
    createRightColumn("tokens", 2, ({ spent }) =>
      spent === undefined ? "" : formatShortCount(spent.totalTokens),
    ),
    createRightColumn("cost", 1, ({ spent }) => (spent === undefined ? "" : formatCost(spent))),
    createRightColumn("time", 4, ({ durationMs: ms }) =>
      ms === undefined ? "" : formatDuration(ms),
    ),
    createRightColumn(
      "last seen",
      5,
      ({ updatedAtMs: ms }) => `${formatDuration(Math.max(0, nowMs - ms))} ago`,
    ),
    { title: "session", cell: ({ sessionId = "" }) => formatShortLine(sessionId), rank: 6 },
    { title: "task", cell: (row) => ({ text: describeTask(row), style: "dim" }), minWidth: 16 },
  ];
}

function createRightColumn(
  title: string,
  rank: number,
  cell: (row: RunRow) => string,
): Column<RunRow> {
  return { title, align: "right", cell, rank };
}

function explainStatus(run: RunRow): string {
  const { status, reason, questions = [] } = run;
  if (status === "input_required") return [...new Set(questions.map(formatToolName))].join(", ");
  if (isAnswered(run)) return "answered, resume it";
  if (reason === undefined) return "";
  const isRefused = status === "paused" && !PAUSES.has(reason.code);
  const hasCode = status === "stopped" || status === "failed" || isRefused;
  return hasCode ? formatShortLine(reason.code) : "";
}

/** Codes of an intended pause, unlike a pause because no process could continue the run. */
const PAUSES: ReadonlySet<string> = new Set(["input_required", "pause_requested"]);

function formatToolName({ toolName }: { readonly toolName: string }): string {
  return formatShortLine(toolName);
}

function showAgentCount({ agentCount: agents, failedAgents = 0 }: RunRow): string {
  if (agents === undefined) return "";
  return failedAgents === 0 ? String(agents) : `${failedAgents} ✖ of ${agents}`;
}

function describeTask({ title, forkedFrom }: RunRow): string {
  const origin = forkedFrom === undefined ? "" : ` (fork of ${forkedFrom.runId})`;
  return formatFirstLine(title) + origin;
}

/** Settings of the text. */
interface RestOptions {
  /** Only errors and questions. */
  readonly isQuiet: boolean;
  readonly isKept: boolean;
  /** Name of this command. */
  readonly command: string;
  /** Options with which `resume` finds the roles of the run, such as ` --roles lead.ts`. */
  readonly resumeOptions: string;
}

/** Returns the lines for a settled run. */
export function describeSettledRun(
  result: RunResult,
  causes: readonly Cause[],
  { isQuiet, isKept, command, resumeOptions }: RestOptions,
): readonly string[] {
  const { status, runId } = result;
  const closing = isQuiet && status === "completed" ? [] : [summarizeRunEnd(result, causes)];
  if (status === "completed")
    return [...closing, ...describeToleratedFailures(result, causes)].map(stripControlCharacters);
  return [
    ...closing,
    ...(status === "paused" ? describeOpenQuestions(result) : describeCauses(causes)),
    ...(isKept
      ? suggestNextCommands(result, command, resumeOptions)
      : [`The run was not stored: it cannot be shown or resumed.`]),
    ...(isKept && status === "failed" ? [`See it: ${command} show ${runId} --errors`] : []),
  ].map(stripControlCharacters);
}

/** Returns the line about the end. The reason is left out if the causes below contain it. */
function summarizeRunEnd(result: RunResult, causes: readonly Cause[]): string {
  const { status, reason, runId, agents, durationMs, usage } = result;
  const spent = [
    formatQuantity(agents.length, "agent"),
    formatQuantity(usage.total.totalTokens, "token"),
    `cost ${formatCost(usage.total)}${describeUnpricedModels(findUnpricedModels(result))}`,
    formatDuration(durationMs),
  ].join(", ");
  if (status === "completed") return `${runId} completed: ${spent}`;
  const isSaid = status !== "paused" && causes.some(({ message }) => message === reason.message);
  return `${runId} ${status} (${reason.code})${isSaid ? "" : `: ${reason.message}`} · ${spent}`;
}

function findUnpricedModels({ usage }: RunResult): readonly string[] {
  const models = Object.entries(usage.byModel);
  return models.flatMap(([model, { unpricedCalls }]) => (unpricedCalls > 0 ? [model] : []));
}

/** Returns the lines for a run that completed although subagents failed or reached limits. */
function describeToleratedFailures(
  { errors }: RunResult,
  causes: readonly Cause[],
): readonly string[] {
  if (causes.length === 0) return [];
  const count = errors.length === 1 ? "One agent" : `${errors.length} agents`;
  const heading = errors.length === 0 ? LIMITS_HEADING : `${count} failed on the way:`;
  return [heading, ...describeCauses(causes)];
}

/** Heading above the causes of a run in which nothing failed. */
const LIMITS_HEADING = "Limits reached, first one first:";

/** Returns the causes, the root cause first. */
export function describeCauses(causes: readonly Cause[]): readonly string[] {
  return causes.flatMap(describeRootCause).map(stripControlCharacters);
}

function describeRootCause({
  agentPath,
  step,
  toolName,
  code,
  message,
  isLimit,
}: Cause): readonly string[] {
  const { icon } = isLimit ? REST_SIGNS.stopped : REST_SIGNS.failed;
  const where = [
    agentPath,
    ...(step === undefined ? [] : [`step ${step}`]),
    ...(toolName === undefined ? [] : [toolName]),
  ].join(" · ");
  return [`  ${icon} ${where}: ${code}`, `    ${message.replaceAll("\n", "\n    ")}`];
}

function describeOpenQuestions({ questions }: RunResult): readonly string[] {
  return questions.flatMap((question) => [
    `  ? ${question.agentPath}: ${question.toolName} ${formatJsonLine(question.arguments)}`,
    `    ${question.reason}`,
  ]);
}

function suggestNextCommands(
  { status, reason, runId, questions }: RunResult,
  command: string,
  resumeOptions: string,
): readonly string[] {
  const next = `${command} resume ${runId}${resumeOptions}`;
  if (status === "stopped") {
    const more = suggestGrantCommand(reason.code, next);
    return more === undefined ? [] : [`Raise its limits: ${more}`];
  }
  if (status !== "paused") return [];
  const [first, ...others] = questions;
  if (first === undefined) return [`Resume: ${next}`];
  return others.length === 0
    ? [`Answer: ${suggestAnswerCommands(first, runId, command)}. Then: ${next}`]
    : [`List how to answer each: ${command} questions. Then: ${next}`];
}

/**
 * Returns the commands that answer a question. `name` is that of the question, or of a run with
 * only this question.
 */
export function suggestAnswerCommands(
  { kind }: Pick<Question, "kind">,
  name: string,
  command: string,
): string {
  return kind === "approval"
    ? `${command} approve ${name}, or ${command} deny ${name} --reason "…"`
    : `${command} answer ${name} --result "…"`;
}

const SIGNS = {
  ...REST_SIGNS,
  input_required: QUESTION,
  working: { icon: "●", style: "cyan" },
  waiting: { icon: "…", style: "yellow" },
  lost: LOST,
  ended: { icon: "·", style: "dim" },
} as const satisfies Readonly<Record<RunRowStatus, object>>;

/** Statuses by which runs can be filtered. */
export const STATUSES: readonly string[] = Object.keys(SIGNS).toSorted();

/** Returns `✖ failed: token_limit`. `more` is the short reason. */
function formatStatusCell(status: RunRowStatus, more = ""): Cell {
  const { icon, style } = SIGNS[status];
  const words = status.replace("_", " ");
  return { text: `${icon} ${words}${more === "" ? "" : `: ${more}`}`, style };
}

export interface OutputStyle {
  /** Maximum number of cells per line in a table. */
  readonly width: number;
  readonly hasColor: boolean;
}

const DEFAULT_COLUMNS = 80;
/** Width for files and pipes. */
const WIDTH_ELSEWHERE = 160;

export function detectOutputStyle({ stdout, env }: Shell): OutputStyle {
  const isTTY = stdout.isTTY === true;
  const width = isTTY ? Math.max(1, (stdout.columns || DEFAULT_COLUMNS) - 1) : WIDTH_ELSEWHERE;
  const forced = env["FORCE_COLOR"] ?? "";
  if (forced !== "") return { width, hasColor: forced !== "0" };
  const isPlain = (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  return { width, hasColor: isTTY && !isPlain };
}

/** Maximum number of code units of a text that are shown. */
const MAX_SHOWN = 100_000;

/** Returns the text, or its beginning and the number of further characters. */
export function truncateWithCount(text: string): string {
  if (text.length <= MAX_SHOWN) return text;
  const more = formatQuantity(text.length - MAX_SHOWN, "more character");
  return `${text.slice(0, MAX_SHOWN)}… (${more}; --json shows all)`;
}

/** Returns the sections that have lines, with an empty line between them. */
export function joinSections(sections: readonly (readonly string[])[]): string {
  const filled = sections.filter((lines) => lines.length > 0);
  return filled.map((lines) => lines.join("\n")).join("\n\n");
}
