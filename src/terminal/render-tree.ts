// Renders a run as lines for a terminal. Pure: the same run, size and time give the same lines, and
// none exceeds the width.

import type { SettledStatus } from "../index.ts";
import { formatActivityCell, LOST, REST_SIGNS, drawSpinner } from "./activity-text.ts";
import {
  AXES,
  formatCost,
  formatDuration,
  formatQuantity,
  formatShortCount,
  type AxisText,
} from "../read-model/amounts.ts";
import type { RunFold } from "../read-model/run-fold.ts";
import { projectRunTime, runTimeLeft } from "../read-model/run-row.ts";
import {
  countAgents,
  findSettledStatus,
  buildTreeRows,
  type ShownAgent,
  type TreeRow,
} from "./fold-tree.ts";
import { formatQuestionTable, createWaitColumn } from "./question-lines.ts";
import { formatTable, type Cell, type Column } from "./table.ts";
import {
  measureDisplayWidth,
  formatFirstLine,
  fit,
  formatShortLine,
  createPainter,
  type Paint,
  type Style,
} from "./terminal-text.ts";

export interface RenderOptions {
  /** Maximum number of cells per line. */
  readonly width: number;
  /** Maximum number of lines. Unlimited if it is absent. */
  readonly height?: number;
  readonly nowMs: number;
  readonly hasColor: boolean;
  /** True if the process of the run is gone. */
  readonly isLost?: boolean;
}

/** A run as drawn. */
export interface ShownRun extends Pick<RunFold, "startedAtMs" | "time" | "budget" | "questions"> {
  readonly remaining: Readonly<Record<string, number>>;
  readonly refusals: readonly unknown[];
  readonly root: ShownAgent | undefined;
  readonly end: Pick<NonNullable<RunFold["end"]>, "status" | "atMs"> | undefined;
}

/**
 * Renders the current state of a run: its open questions, its tree, its activity and its remaining
 * budget.
 */
export function renderRun(view: ShownRun, options: RenderOptions): readonly string[] {
  const { width, height = Infinity, nowMs, hasColor } = options;
  const paint = createPainter(hasColor);
  const foot = [
    ...wrap(buildStatusItems(view, options), width, paint),
    ...wrap(buildBudgetItems(view, nowMs), width, paint),
  ];
  const free = height - foot.length;
  const needs = formatQuestionTable(
    view.questions,
    { width, height: Math.floor(free / 2), time: createWaitColumn(nowMs) },
    paint,
  );
  const room = Math.max(MIN_TREE_LINES, free - needs.length);
  const tree = view.root === undefined ? [] : renderTree(view.root, { ...options, height: room });
  return [...needs, ...tree, ...foot].slice(0, Math.max(1, height));
}

/**
 * Renders a tree of agents: a title line and one line for each agent. Folds ended agents if the
 * height is too small.
 */
export function renderTree(root: ShownAgent, options: RenderOptions): readonly string[] {
  const { width, height = Infinity, hasColor } = options;
  const rows = buildTreeRows(root, Math.max(1, height - 1)).map((row) => buildCells(row, options));
  const isSteady = options.isLost === true || findSettledStatus(root) !== undefined;
  const columns = COLUMNS.map(({ key, ...column }) => ({
    ...column,
    ...(isSteady && { usualWidth: 0 }),
    cell: (row: RowCells) => row[key] ?? "",
  }));
  return formatTable(columns, rows, width, createPainter(hasColor));
}

const MIN_TREE_LINES = 2;

interface ColumnShape extends Omit<Column<RowCells>, "cell"> {
  readonly key: CellKey;
}

type Tokens = "ownTokens" | "subtreeTokens";
type CellKey = "agent" | "state" | "step" | Tokens | "ownCost" | "subtreeCost" | "time" | "remark";
type RowCells = Partial<Readonly<Record<CellKey, Cell | string>>>;

// The usual widths keep the columns in place while numbers grow.
const COLUMNS: readonly ColumnShape[] = [
  { key: "agent", title: "agent", minWidth: 14, usualWidth: 16 },
  { key: "state", title: "state", minWidth: 23, usualWidth: 17 },
  { key: "step", title: "step", align: "right", rank: 2 },
  { key: "ownTokens", title: "own tok", align: "right", rank: 3 },
  { key: "subtreeTokens", title: "tree tok", align: "right" },
  { key: "ownCost", title: "own cost", align: "right", rank: 5 },
  { key: "subtreeCost", title: "tree cost", align: "right", rank: 1 },
  { key: "time", title: "time", align: "right", usualWidth: 6, rank: 6 },
  { key: "remark", title: "task", minWidth: 16, rank: 4 },
];

function buildCells(row: TreeRow, options: RenderOptions): RowCells {
  switch (row.kind) {
    case "agent":
      return buildAgentCells(row, options);
    case "group": {
      const { role, status, agents, hidden, subtree } = row.group;
      const { icon, style } = REST_SIGNS[status];
      return {
        agent: `${row.branch}${formatShortLine(role)} ×${agents}${describeHidden(hidden)}`,
        state: { text: `${icon} ${status}`, style },
        subtreeTokens: formatShortCount(subtree.totalTokens),
        subtreeCost: formatCost(subtree),
      };
    }
    case "rest": {
      const { agents, running, paused } = row.counts;
      const state = options.isLost === true ? "lost" : "running";
      const states = [...describeCount(running, state), ...describeCount(paused, "paused")];
      return {
        agent: { text: `${row.branch}… ${agents} more`, style: "dim" },
        state: { text: states.join(", "), style: "dim" },
      };
    }
  }
}

/** Returns `3 running` as a list. Empty for 0. */
function describeCount(count: number, state: string): readonly string[] {
  return count === 0 ? [] : [`${count} ${state}`];
}

function buildAgentCells(
  { branch, agent, hidden }: Extract<TreeRow, { kind: "agent" }>,
  { nowMs, isLost = false }: RenderOptions,
): RowCells {
  const { end, own, subtree } = agent;
  const name = formatShortLine(agent.agentPath.slice(agent.agentPath.lastIndexOf("/") + 1));
  // A pause is not an end: time passes for a paused agent as for its run.
  const sinceMs = Math.max(end?.durationMs ?? 0, nowMs - agent.executionStartedAtMs);
  const hasEnded = end !== undefined && end.status !== "paused";
  const ranMs = hasEnded ? end.durationMs : sinceMs;
  // A subtree that equals the agent itself is dimmed.
  const isAlone: { readonly style?: Style } = agent.children.length === 0 ? { style: "dim" } : {};
  return {
    agent: `${branch}${name}${describeHidden(hidden)}`,
    state: formatActivityCell(agent, nowMs, isLost),
    step: agent.step === 0 ? "" : String(agent.step),
    ownTokens: formatShortCount(own.totalTokens),
    subtreeTokens: { text: formatShortCount(subtree.totalTokens), ...isAlone },
    ownCost: formatCost(own),
    subtreeCost: { text: formatCost(subtree), ...isAlone },
    time: formatDuration(ranMs),
    remark: buildRemarkCell(agent),
  };
}

function describeHidden(hidden: number): string {
  return hidden === 0 ? "" : ` +${hidden}`;
}

function buildRemarkCell({ end, refusalCount, task }: ShownAgent): Cell {
  const refused = refusalCount === 0 ? "" : `${formatQuantity(refusalCount, "spawn")} refused · `;
  const shownTask = refused + formatFirstLine(task);
  if (end === undefined || end.status === "completed") return { text: shownTask, style: "dim" };
  const parts = [shownTask, formatShortLine(end.reason.message)].filter((part) => part !== "");
  return { text: parts.join(" · "), style: REST_SIGNS[end.status].style };
}

function buildStatusItems(
  view: ShownRun,
  { nowMs, isLost = false }: RenderOptions,
): readonly Cell[] {
  const { root, end, refusals } = view;
  const { agents, running, paused } = countAgents(root === undefined ? [] : [root]);
  const live = end === undefined ? [`${running} ${isLost ? "lost" : "running"}`] : [];
  const counts = [
    formatQuantity(agents, "agent"),
    ...live,
    ...describeCount(paused, "paused"),
  ].join(", ");
  const refused: readonly Cell[] =
    refusals.length === 0
      ? []
      : [{ text: `${formatQuantity(refusals.length, "spawn")} refused`, style: "yellow" }];
  return [buildStateCell(view, nowMs, isLost), { text: counts }, ...refused];
}

function buildStateCell(
  { startedAtMs, time, end }: ShownRun,
  nowMs: number,
  isLost: boolean,
): Cell {
  // The time until the pause, as in the report of the result.
  const shownTime = end === undefined ? time : { ...time, endedAtMs: end.atMs };
  const lastedMs = startedAtMs === undefined ? 0 : projectRunTime(shownTime, nowMs).durationMs;
  const sign = isLost ? LOST.icon : drawSpinner(nowMs);
  if (end === undefined) return { text: `${sign} ${formatDuration(lastedMs)}` };
  const { icon, style } = REST_SIGNS[end.status];
  return { text: `${icon} ${describeSettledStatus(end.status, lastedMs)}`, style };
}

/** Returns `completed in 5.0s` or `paused after 5.0s`. */
export function describeSettledStatus(status: SettledStatus, durationMs: number): string {
  return `${status} ${status === "paused" ? "after" : "in"} ${formatDuration(durationMs)}`;
}

function buildBudgetItems(view: ShownRun, nowMs: number): readonly Cell[] {
  const limited = AXES.filter(({ axis }) => view.budget[axis] !== undefined);
  if (limited.length === 0) return [];
  return [
    { text: "left", style: "dim" },
    ...limited.map((axis) => buildBudgetItem(view, axis, nowMs)),
  ];
}

function buildBudgetItem(
  view: ShownRun,
  { axis, label, short, text }: AxisText,
  nowMs: number,
): Cell {
  const limit = view.budget[axis] ?? 0;
  const left =
    axis === "timeMs" ? runTimeLeft(limit, view.time, nowMs) : (view.remaining[axis] ?? 0);
  const share = limit === 0 ? 0 : left / limit;
  const isBound = axis === "costUsd" && (view.root?.subtree.unpricedCalls ?? 0) > 0;
  // Rounding must not hide that a part of the budget is used.
  const format = left < limit && short(left) === short(limit) ? text : short;
  return {
    text: `${label} ${drawBar(share)} ${isBound ? "≤" : ""}${format(left)} of ${format(limit)}`,
    style: chooseLeftStyle(share),
  };
}

const BAR_CELLS = 6;

function drawBar(share: number): string {
  const full = Math.min(BAR_CELLS, Math.max(share > 0 ? 1 : 0, Math.round(share * BAR_CELLS)));
  return "█".repeat(full) + "░".repeat(BAR_CELLS - full);
}

function chooseLeftStyle(share: number): Style {
  if (share > 0.5) return "green";
  return share > 0.2 ? "yellow" : "red";
}

const ITEM_GAP = "  ";

/** Puts items side by side, on as many lines as needed. */
function wrap(items: readonly Cell[], width: number, paint: Paint): readonly string[] {
  const lines: { text: string; width: number }[] = [];
  for (const item of items) {
    const text = fit(item.text, width);
    const painted = paint(item.style, text);
    const needed = measureDisplayWidth(text);
    const last = lines.at(-1);
    if (last !== undefined && last.width + ITEM_GAP.length + needed <= width) {
      last.text += ITEM_GAP + painted;
      last.width += ITEM_GAP.length + needed;
    } else lines.push({ text: painted, width: needed });
  }
  return lines.map(({ text }) => text);
}
