// The list of runs, in groups: those that need a person, those under way, those that are over. Pure.

import { PAUSE_CODES } from "espalier";
import type { RunRow } from "espalier/view";

import { table, type Column } from "../terminal/table.ts";
import { firstLine, painter, shortLine } from "../terminal/terminal-text.ts";
import { costText, durationText, shortCount } from "../view/amounts.ts";
import { groupedRuns, type RunGroup } from "../view/run-groups.ts";
import type { OutputStyle } from "./output-style.ts";
import { statusCell } from "./status-text.ts";

const TITLES: Readonly<Record<RunGroup, string>> = {
  needs_you: "needs you",
  working: "working",
  done: "done",
};

/** Lines for the runs of a list, newest first in each group. */
export function runsText(
  rows: readonly RunRow[],
  { nowMs, width, hasColor }: OutputStyle & { readonly nowMs: number },
): string {
  return groupedRuns(rows)
    .flatMap(([name, group]): readonly (readonly [string, readonly RunRow[]])[] => [
      [TITLES[name], group.filter((row) => !isLost(row))],
      // Nothing works on a run whose process is gone.
      ["lost", group.filter(isLost)],
    ])
    .flatMap(([title, group]) => {
      if (group.length === 0) return [];
      const columns = columnsOf(`${title} (${group.length})`, nowMs);
      return [table(columns, group, width, painter(hasColor)).join("\n")];
    })
    .join("\n\n");
}

function isLost({ status }: RunRow): boolean {
  return status === "lost";
}

function columnsOf(title: string, nowMs: number): readonly Column<RunRow>[] {
  return [
    { title, cell: ({ runId }) => shortLine(runId) },
    { title: "state", cell: (row) => statusCell(row.status, reasonOf(row)), minWidth: 12 },
    right("agents", 3, agentsOf),
    right("tokens", 2, ({ spent }) => (spent === undefined ? "" : shortCount(spent.totalTokens))),
    right("cost", 1, ({ spent }) => (spent === undefined ? "" : costText(spent))),
    right("time", 4, ({ durationMs: ms }) => (ms === undefined ? "" : durationText(ms))),
    right("last sign", 5, ({ updatedAtMs: ms }) => `${durationText(Math.max(0, nowMs - ms))} ago`),
    { title: "task", cell: (row) => ({ text: taskOf(row), style: "dim" }), minWidth: 16 },
  ];
}

function right(title: string, rank: number, cell: (row: RunRow) => string): Column<RunRow> {
  return { title, align: "right", cell, rank };
}

function reasonOf({ status, reason, questions = [] }: RunRow): string {
  if (status === "needs_you") return [...new Set(questions.map(toolOf))].join(", ");
  if (reason === undefined) return "";
  const isRefused = status === "paused" && !PAUSES.has(reason.code);
  const hasCode = status === "stopped" || status === "failed" || isRefused;
  return hasCode ? shortLine(reason.code) : "";
}

/** Codes of a run that is paused as it was asked to, and not because no process could lead it. */
const PAUSES: ReadonlySet<string> = new Set(PAUSE_CODES);

function toolOf({ toolName }: { readonly toolName: string }): string {
  return shortLine(toolName);
}

function agentsOf({ agents, failedAgents = 0 }: RunRow): string {
  if (agents === undefined) return "";
  return failedAgents === 0 ? String(agents) : `${failedAgents} ✖ of ${agents}`;
}

function taskOf({ title, forkedFrom }: RunRow): string {
  const origin = forkedFrom === undefined ? "" : ` (fork of ${forkedFrom.runId})`;
  return firstLine(title) + origin;
}
