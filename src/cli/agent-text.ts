// One agent as text: what it was to do, how it stands, what it has spent, and its steps with their calls. Pure.

import type { AgentDetail, CallRow, RunFold, StepRow } from "espalier/view";

import { table, type Column } from "../terminal/table.ts";
import { painter, plainText, singleLine } from "../terminal/terminal-text.ts";
import { AXES, costText, costWords, durationText, numberOf, shortCount } from "../view/amounts.ts";
import { headOf, joinSections } from "./head-of.ts";
import type { OutputStyle } from "./output-style.ts";

/** The report of an agent. `fold`: of its run. */
export function agentText(detail: AgentDetail, fold: RunFold, style: OutputStyle): string {
  const { task, refusals } = detail;
  const refused = refusals.map(
    ({ role, code, message }) => `  ⊘ spawn of ${role} refused (${code}): ${message}`,
  );
  const steps = stepLines(detail, fold, style);
  const sections = [headLines(detail), ["Task:", headOf(task)], steps, refused];
  return joinSections(sections.map((lines) => lines.map(plainText)));
}

function headLines(detail: AgentDetail): readonly string[] {
  const { agentPath, role, provider, model, status, reason, error, executions } = detail;
  const why = error ?? reason;
  const again = executions === 1 ? [] : [`execution ${executions}`];
  const isBrief = why === undefined || status === "completed";
  return [
    [agentPath, status, ...again].join(" · "),
    `${role}, ${model} (${provider})`,
    ...(isBrief ? [] : [`${why.code}: ${singleLine(why.message)}`]),
    `own ${spentText(detail.own)} · with all below it ${spentText(detail.subtree)}`,
    ...budgetLines(detail),
  ];
}

function spentText(spent: AgentDetail["own"]): string {
  return `${numberOf(spent.totalTokens, "token")}, ${costWords(spent)}`;
}

function budgetLines({ budget, left }: AgentDetail): readonly string[] {
  const limited = AXES.flatMap(({ axis, label, text }) => {
    const limit = budget[axis];
    if (limit === undefined) return [];
    const rest = left?.[axis];
    return [`${label} ${rest === undefined ? "" : `${text(rest)} of `}${text(limit)}`];
  });
  return limited.length === 0 ? [] : [`left: ${limited.join(" · ")}`];
}

interface Line {
  readonly step: string;
  readonly what: string;
  readonly time: string;
  readonly tokens: string;
  readonly cost: string;
}

const COLUMNS: readonly Column<Line>[] = [
  { title: "step", cell: ({ step }) => step },
  { title: "time", align: "right", cell: ({ time }) => time, rank: 3 },
  { title: "tokens", align: "right", cell: ({ tokens }) => tokens, rank: 2 },
  { title: "cost", align: "right", cell: ({ cost }) => cost, rank: 1 },
  { title: "calls", cell: ({ what }) => what, minWidth: 16 },
];

function stepLines(
  { steps, executions }: AgentDetail,
  fold: RunFold,
  { width, hasColor }: OutputStyle,
): readonly string[] {
  if (steps.length === 0) return ["It has taken no step."];
  const rows = steps.flatMap((step) => linesOf(step, fold, executions > 1));
  return table(COLUMNS, rows, width, painter(hasColor));
}

/** A line for the step, with its first call, and one for each further call. */
function linesOf(step: StepRow, fold: RunFold, isNumbered: boolean): readonly Line[] {
  const { execution, number, startedAtMs, endedAtMs, usage, error } = step;
  const calls = step.calls.flatMap((call) => [
    callText(call, fold),
    ...attemptLines(call.attempts).map((line) => `  ${line}`),
    ...(call.message === undefined ? [] : [`  ${singleLine(call.message)}`]),
  ]);
  const broke = error === undefined ? [] : [`✖ ${error.code}: ${singleLine(error.message)}`];
  const [first = "", ...others] = [...attemptLines(step.attempts), ...calls, ...broke];
  const blank = { step: "", time: "", tokens: "", cost: "" };
  const line = {
    step: isNumbered ? `${execution}.${number}` : String(number),
    time: endedAtMs === undefined ? "open" : durationText(endedAtMs - startedAtMs),
    tokens: usage === undefined ? "" : shortCount(usage.totalTokens),
    cost: usage === undefined ? "" : costText(usage),
    what: first,
  };
  return [line, ...others.map((what) => ({ ...blank, what }))];
}

/** Returns a line for each failed attempt. */
export function attemptLines(attempts: StepRow["attempts"] = []): readonly string[] {
  return attempts.map((failed) => {
    const { attempt, code, message = "" } = failed;
    const why = message === "" ? "" : `: ${message}`;
    return singleLine(`↻ attempt ${attempt} failed (${sequelText(failed)}): ${code}${why}`);
  });
}

/** Returns what followed a failed attempt. */
function sequelText({ delayMs, nextModel }: NonNullable<StepRow["attempts"]>[number]): string {
  if (nextModel !== undefined) return `then ${nextModel}`;
  return delayMs === undefined ? "gave up" : `waited ${durationText(delayMs)}`;
}

const OUTCOMES: Readonly<Record<CallRow["outcome"], string>> = {
  open: "…",
  succeeded: "✔",
  retry: "✖ has to be corrected",
  failed: "✖",
  refused: "⊘ refused",
  not_executed: "– not executed",
  cancelled: "⊘ cancelled",
};

function callText(
  { toolName, outcome, errorCode, errorName, durationMs, child }: CallRow,
  fold: RunFold,
): string {
  const path = child === undefined ? undefined : fold.agents[child]?.agentPath;
  return [
    singleLine(toolName),
    OUTCOMES[outcome],
    ...(errorCode === undefined ? [] : [errorCode]),
    ...(errorName === undefined ? [] : [`(${errorName})`]),
    ...(durationMs === undefined ? [] : [durationText(durationMs)]),
    ...(path === undefined ? [] : [`→ ${path}`]),
  ].join(" ");
}
