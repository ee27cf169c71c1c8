// Formats the result of a run as text: its tree, its remaining budget, the usage of each agent, and
// its trace. Pure.

import type { AgentReport, RunResult, Usage, AgentId } from "../index.ts";
import { REST_SIGNS } from "./activity-text.ts";
import {
  AXES,
  formatCost,
  formatFullCount,
  formatDuration,
  formatQuantity,
  type AxisText,
} from "../read-model/amounts.ts";
import { jaegerLinks } from "./jaeger-links.ts";
import { DEADLINES, formatQuestionTable } from "./question-lines.ts";
import { describeSettledStatus, renderTree } from "./render-tree.ts";
import { formatTable, type Column } from "./table.ts";
import {
  fit,
  createPainter,
  formatShortLine,
  formatSingleLine,
  wrapLine,
  type Paint,
  checkArgument,
} from "./terminal-text.ts";
import { SPAWN_REFUSAL_CODES, type SpawnRefusalCode } from "../extend.ts";
import type { ShownAgent } from "./fold-tree.ts";

const DEFAULT_WIDTH = 100;

/**
 * Formats the result of a run as text, without a line break at its end. The text lists open
 * questions, the tree, the reasons of agents that did not complete, failed tool calls, the budget, the usage by role and model, and the trace.
 *
 * @example
 * ```ts
 * console.log(formatRunReport(result, { color: process.stdout.isTTY, width: 120 }));
 * ```
 */
export function formatRunReport(
  result: RunResult,
  options: {
    /**
     * Width of a line in cells. Longer content is wrapped or cut.
     *
     * @default 100
     */
    readonly width?: number;
    /**
     * Whether the text contains colours, as ANSI escape sequences.
     *
     * @default false
     */
    readonly color?: boolean;
    /**
     * Address of the Jaeger with the trace, for example `http://localhost:16686`. The report then
     * links to the trace and, if the run failed, to the failures. If it is absent, the report
     * contains the id of the trace.
     */
    readonly jaegerUrl?: string;
  } = {},
): string {
  checkArgument(result, hasAgents(result), "the result of a run for formatRunReport");
  const { width = DEFAULT_WIDTH, color = false, jaegerUrl } = options;
  const paint = createPainter(color);
  const root = rebuildTree(result);
  const tree = root === undefined ? [] : renderTree(root, { width, nowMs: 0, hasColor: color });
  const sections: Readonly<Record<string, readonly string[]>> = {
    "Open questions": formatQuestionTable(result.questions, { width, time: DEADLINES }, paint),
    Tree: tree,
    "Agents that did not complete": formatUncompletedAgents(result, width),
    "Calls that failed": formatFailedCalls(result, width, paint),
    "Budget of the run": formatBudgetTable(result, width, paint),
    "Usage by role": formatUsageTable("role", result.usage.byRole, width, paint),
    "Usage by model": formatUsageTable("model", result.usage.byModel, width, paint),
  };
  const shown = Object.entries(sections).filter(([, lines]) => lines.length > 0);
  const closing = [
    ...formatClosingLines(result, width, paint),
    ...formatTraceLines(result, jaegerUrl),
  ];
  return [...shown.map(([title, lines]) => [paint("bold", title), ...lines]), closing]
    .map((lines) => lines.join("\n"))
    .join("\n\n");
}

/** Returns the reasons of the subagents that did not complete. That of the root ends the report. */
function formatUncompletedAgents({ agents }: RunResult, width: number): readonly string[] {
  return agents.flatMap(({ depth, agentPath, status, reason }) => {
    if (depth === 0 || status === "completed" || status === "paused") return [];
    const place = formatShortLine(`${agentPath} · ${status} (${reason.code})`);
    return wrapLine(`${place}: ${formatSingleLine(reason.message)}`, width);
  });
}

/** Maximum number of failed calls in a report. */
const MAX_CALLS = 20;
const LONGEST_MESSAGE = 500;

function formatFailedCalls({ agents }: RunResult, width: number, paint: Paint): readonly string[] {
  const calls = agents.flatMap(({ agentPath, toolErrors }) =>
    toolErrors.map(({ stepNumber, toolName, code, message }) => {
      const place = `${agentPath} · step ${stepNumber} · ${toolName} (${code})`;
      return `${formatShortLine(place)}: ${formatShortLine(message, LONGEST_MESSAGE)}`;
    }),
  );
  const hidden = calls.length - MAX_CALLS;
  const more = hidden > 0 ? [paint("dim", fit(`… ${hidden} more`, width))] : [];
  return [...calls.slice(0, MAX_CALLS).flatMap((line) => wrapLine(line, width)), ...more];
}

interface BudgetRow {
  readonly axis: AxisText;
  readonly limit: number;
  readonly spent: number;
}

function formatBudgetTable(result: RunResult, width: number, paint: Paint): readonly string[] {
  const rows = buildBudgetRows(result);
  if (rows.length === 0) return ["no limits"];
  const columns: readonly Column<BudgetRow>[] = [
    { title: "axis", cell: ({ axis }) => axis.label, minWidth: 8 },
    { title: "limit", align: "right", cell: ({ axis, limit }) => axis.text(limit) },
    { title: "spent", align: "right", cell: (row) => showSpent(row, result) },
    { title: "left", align: "right", cell: (row) => formatLeftAmount(row, result) },
  ];
  return formatTable(columns, rows, width, paint);
}

function buildBudgetRows({ accounts, settledAtMs, usage }: RunResult): readonly BudgetRow[] {
  const account = accounts.find(({ parentAgentId: parentId }) => parentId === null);
  if (account === undefined) return [];
  const { fixedDeadlineAtMs: fixed, timeLimitMs, openedAtMs, pausedMs } = account;
  const isFixed =
    fixed !== null && (timeLimitMs === null || fixed < openedAtMs + timeLimitMs + pausedMs);
  const timeMs = isFixed ? fixed - openedAtMs : timeLimitMs;
  const limits: Readonly<Record<string, number>> = {
    ...account.limits,
    ...(timeMs === null ? {} : { timeMs }),
  };
  const openMs = settledAtMs - openedAtMs;
  const usedMs = isFixed ? openMs : openMs - pausedMs;
  const { total } = usage;
  const costUsd = total.costUsd ?? 0;
  const spent: Readonly<Record<string, number>> = { ...total, costUsd, timeMs: usedMs };
  return AXES.flatMap((axis) => {
    const limit = limits[axis.axis];
    return limit === undefined ? [] : [{ axis, limit, spent: spent[axis.axis] ?? 0 }];
  });
}

/** Returns the spent amount. For a cost, only the known part. */
function showSpent({ axis, spent }: BudgetRow, { usage }: RunResult): string {
  return axis.axis === "costUsd" ? formatCost(usage.total) : axis.text(spent);
}

function formatLeftAmount({ axis, limit, spent }: BudgetRow, { usage }: RunResult): string {
  if (axis.axis === "costUsd" && usage.total.unpricedCalls > 0 && spent <= limit)
    return `≤${axis.text(limit - spent)}`;
  return spent <= limit ? axis.text(limit - spent) : `over by ${axis.text(spent - limit)}`;
}

function formatUsageTable(
  title: string,
  usageOf: Readonly<Record<string, Usage>>,
  width: number,
  paint: Paint,
): readonly string[] {
  type Row = readonly [string, Usage];
  const count = (axis: Exclude<keyof Usage, "costUsd">) => (row: Row) =>
    formatFullCount(row[1][axis]);
  const columns: readonly Column<Row>[] = [
    { title, cell: ([name]) => formatShortLine(name), minWidth: 8 },
    { title: "model calls", align: "right", cell: count("modelCalls"), rank: 4 },
    { title: "tool calls", align: "right", cell: count("toolCalls"), rank: 3 },
    { title: "input", align: "right", cell: count("inputTokens") },
    { title: "cached", align: "right", cell: count("cachedInputTokens"), rank: 2 },
    { title: "output", align: "right", cell: count("outputTokens") },
    { title: "cost", align: "right", cell: ([, usage]) => formatCost(usage), rank: 1 },
  ];
  return formatTable(columns, Object.entries(usageOf), width, paint);
}

function formatClosingLines(result: RunResult, width: number, paint: Paint): readonly string[] {
  const { status, reason, durationMs, agents, refusalsByCode } = result;
  const { icon, style } = REST_SIGNS[status];
  const why = status === "completed" ? "" : `: ${formatSingleLine(reason.message)}`;
  const pausedMs = agents[0]?.pausedMs ?? 0;
  const stood = pausedMs === 0 ? "" : `, of which ${formatDuration(pausedMs)} paused`;
  const depth = agents.reduce((deepest, agent) => Math.max(deepest, agent.depth), 0);
  const shape = `${formatQuantity(agents.length, "agent")}, deepest at depth ${depth}`;
  return [
    // Instructions and text to copy are never cut.
    paint(style, `${icon} ${describeSettledStatus(status, durationMs)}${stood}${why}`),
    ...suggestContinuation(result, paint),
    fit(`${shape}, ${summarizeRefusals(refusalsByCode)}`, width),
  ];
}

/** Returns the lines about the trace. They are never cut, because a part of a URL is useless. */
function formatTraceLines({ status, traceId }: RunResult, jaegerUrl: string | undefined): string[] {
  const id = `Trace id ${traceId}`;
  if (jaegerUrl === undefined) return [id];
  const links = jaegerLinks(jaegerUrl);
  const failures = status === "failed" ? [`Failures ${links.failures(traceId)}`] : [];
  return [id, `Trace    ${links.trace(traceId)}`, ...failures];
}

/** Returns the advice for a run that is paused. */
function suggestContinuation(
  { status, runId, questions }: RunResult,
  paint: Paint,
): readonly string[] {
  if (status !== "paused") return [];
  const count = questions.length;
  const options = count === 0 ? "" : ", { answers }";
  const call = `orchestrator.resume(result.pausedRun${options})`;
  const storedCall = `await orchestrator.resume(${formatSingleLine(JSON.stringify(runId))}${options})`;
  const needed = count === 0 ? "" : `; it needs ${formatQuantity(count, "answer")}, or an approver`;
  return [
    `Continue with ${paint("bold", call)}${needed}`,
    `If a store has the run: ${paint("bold", storedCall)}`,
  ];
}

function summarizeRefusals(refusalsByCode: RunResult["refusalsByCode"]): string {
  const refused = Object.entries(refusalsByCode);
  if (refused.length === 0) return "no spawn refused";
  const total = refused.reduce((sum, [, count]) => sum + count, 0);
  const codes = refused.map(([code, count]) => `${code} ${count}`).join(", ");
  return `${formatQuantity(total, "spawn")} refused (${codes})`;
}

/** Returns the tree of a settled run, as its events would have built it. */
export function rebuildTree(result: RunResult): ShownAgent | undefined {
  const byParent = Map.groupBy(result.agents, (agent) => agent.parentAgentId);
  const openSteps = collectOpenSteps(result);
  const buildChildren = (parentId: AgentId | null): readonly ShownAgent[] =>
    (byParent.get(parentId) ?? []).map((agent) => {
      const { usage, status, reason, durationMs } = agent;
      return {
        agentPath: agent.agentPath,
        role: agent.role,
        task: agent.task,
        executionStartedAtMs: 0,
        activity: status,
        retry: undefined,
        end: { status, reason, durationMs, atMs: 0 },
        openCalls: [],
        step: openSteps.get(agent.agentId) ?? agent.steps.length,
        own: usage.own,
        subtree: usage.total,
        refusalCount: countRefusedSpawns(agent),
        children: buildChildren(agent.agentId),
      };
    });
  return buildChildren(null)[0];
}

/** Returns the numbers of open steps of paused agents. A result contains only completed steps. */
function collectOpenSteps({ pausedRun }: RunResult): ReadonlyMap<AgentId, number> {
  const steps = new Map<AgentId, number>();
  for (const { agentId, state } of pausedRun?.agents ?? []) {
    if (state.status === "paused" && state.step !== undefined)
      steps.set(agentId, state.step.number);
  }
  return steps;
}

const REFUSALS: ReadonlySet<string> = new Set(SPAWN_REFUSAL_CODES);
/** Codes that calls of other tools can have, too. */
const REFUSALS_OF_ANY_TOOL: ReadonlySet<string> = new Set<SpawnRefusalCode>([
  "blocked",
  "tool_not_available",
]);

function countRefusedSpawns({ steps }: AgentReport): number {
  const executions = steps.flatMap((step) => step.tools.executions);
  return executions.filter(
    ({ errorCode = "", call: { toolName } }) =>
      REFUSALS.has(errorCode) &&
      (toolName === "SpawnSubagent" || !REFUSALS_OF_ANY_TOOL.has(errorCode)),
  ).length;
}

function hasAgents(result: unknown): boolean {
  return (
    typeof result === "object" &&
    result !== null &&
    "agents" in result &&
    Array.isArray(result.agents)
  );
}
