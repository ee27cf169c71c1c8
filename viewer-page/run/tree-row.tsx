// A line of the tree. Each line subscribes to `amounts` itself, so that a change redraws only the
// forty visible lines.

import type { ComponentChildren } from "preact";

import { addUsd } from "../../src/kernel/money.ts";
import type { AgentRow, Spent } from "../../src/read-model/viewer-data.ts";
import { AT, hasEnded, getDisplayStatus } from "../data/agent-row.ts";
import { tickMs } from "../data/page-clock.ts";
import {
  formatCost,
  formatFullCount,
  formatDuration,
  formatQuantity,
  formatShortCount,
} from "../../src/read-model/amounts.ts";
import { formatRoughly } from "../text/relative-time.tsx";
import { Icon } from "../text/icon.tsx";
import { Line, toLine } from "../text/shown-text.tsx";
import { describeActivity, chooseSign, getStatusInRun } from "./row-text.ts";
import { isClosed, isOpen, ROW_PX, type RunView } from "./run-view.ts";
import type { AgentLine, GroupLine, RefusalLine, TreeLine } from "./tree-lines.ts";

const INDENT_PX = 14;

interface RowProps {
  readonly view: RunView;
  readonly line: TreeLine;
  readonly at: number;
}

export function toRowId(at: number): string {
  return `row-${at}`;
}

export function TreeRow({ view, line, at }: RowProps) {
  void view.state.amounts.value;
  const isCursor = view.cursor.value === line.key || view.cursorAt === at;
  const expanded = isOpen(line) || isClosed(line) ? isOpen(line) : undefined;
  return (
    <div
      role="row"
      id={toRowId(at)}
      class={`row ${line.kind}${line.kind === "agent" && line.isDimmed ? " dimmed" : ""}`}
      data-at={at}
      style={{ top: `${at * ROW_PX}px` }}
      aria-level={line.depth}
      aria-posinset={line.position}
      aria-setsize={line.siblings}
      aria-expanded={expanded}
      aria-selected={isCursor}
    >
      {line.kind === "agent" && <AgentCells line={line} view={view} />}
      {line.kind === "group" && <GroupCells line={line} view={view} />}
      {line.kind === "refusal" && <RefusalCells line={line} />}
    </div>
  );
}

function Indent({ line }: { readonly line: TreeLine }) {
  const sign = isOpen(line) ? "open" : "closed";
  return (
    <span class="indent" style={{ paddingLeft: `${(line.depth - 1) * INDENT_PX}px` }}>
      <span class="twisty">{(isOpen(line) || isClosed(line)) && <Icon sign={sign} />}</span>
    </span>
  );
}

function AgentCells({ line, view }: { readonly line: AgentLine; readonly view: RunView }) {
  const row = view.state.agents[line.index];
  if (row === undefined) return null;
  const head = view.state.head.value;
  const status = getStatusInRun(row, head);
  const words = describeActivity(row, view.state);
  const isOver = hasEnded(getDisplayStatus(row));
  const title = status === "failed" ? `${words} · ${row[AT.task]}` : row[AT.task];
  const elapsedMs =
    (row[AT.endedAtMs] < 0 ? tickMs.value : row[AT.endedAtMs]) - row[AT.startedAtMs];
  const folded = line.fold === "closed" ? line.below : 0;
  return (
    <>
      <span role="gridcell" class="cell name" title={toLine(title)}>
        <Indent line={line} />
        <Icon sign={chooseSign(row, head)} />
        <span class="read-aloud">{status} </span>
        <b>
          <Line text={row[AT.name]} />
        </b>
        {folded > 0 && <span class="count">+{formatFullCount(folded)}</span>}
        <Marks row={row} />
        <span class={`words is-${status}`}>
          {words !== "" && <Line text={words} most={120} />}
          {!isOver && <span class="muted"> · {formatRoughly(tickMs.value - row[AT.sinceMs])}</span>}
        </span>
        <span class="task">
          <Line text={row[AT.task]} most={200} />
        </span>
      </span>
      <Cell column="time">{formatDuration(Math.max(0, elapsedMs))}</Cell>
      <Cell column="step">{row[AT.step] === 0 ? "–" : row[AT.step]}</Cell>
      <Cell column="own">{formatShortCount(row[AT.ownTokens])}</Cell>
      <Cell column="tree-tokens">{formatShortCount(row[AT.treeTokens])}</Cell>
      <Cell column="cost">{formatCost(getSpent(row))}</Cell>
    </>
  );
}

interface CellProps {
  readonly column: string;
  readonly children: ComponentChildren;
}

function Cell({ column, children }: CellProps) {
  return (
    <span role="gridcell" class={`cell number ${column}`}>
      {children}
    </span>
  );
}

/** Returns the usage of an agent and its descendants. */
function getSpent(row: AgentRow): Spent {
  return {
    totalTokens: row[AT.treeTokens],
    costUsd: row[AT.treeUsd],
    unpricedCalls: row[AT.treeUnpricedCalls],
  };
}

/** Shows problems that an agent survived. They do not colour its row. */
function Marks({ row }: { readonly row: AgentRow }) {
  const [refusals, toolErrors] = [row[AT.refusals], row[AT.toolErrors]];
  if (refusals === 0 && toolErrors === 0) return null;
  return (
    <span class="marks">
      {toolErrors > 0 && (
        <span class="mark" title={formatQuantity(toolErrors, "failed call")}>
          <Icon sign="tool-error" />
          {formatFullCount(toolErrors)}
          <span class="read-aloud"> failed calls</span>
        </span>
      )}
      {refusals > 0 && (
        <span class="mark" title={formatQuantity(refusals, "refused subagent")}>
          <Icon sign="refused" />
          {formatFullCount(refusals)}
          <span class="read-aloud"> refused subagents</span>
        </span>
      )}
    </span>
  );
}

/** Counts the members of a group by their end code. */
function countCodes({ members }: GroupLine, { state }: RunView): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const index of members) {
    const code = state.agents[index]?.[AT.note] ?? "";
    if (code !== "") counts.set(code, (counts.get(code) ?? 0) + 1);
  }
  return counts;
}

/** True if the line of a group has several codes, which need more width than the tree has. */
export function hasSeveralCodes(line: TreeLine, view: RunView): boolean {
  return line.kind === "group" && countCodes(line, view).size > 1;
}

/** Returns the end codes of a group, such as `model_error ×20`, the most frequent first. */
function describeCodes(line: GroupLine, view: RunView): string {
  const counts = countCodes(line, view);
  return [...counts]
    .toSorted(([, left], [, right]) => right - left)
    .map(([code, count]) => (counts.size === 1 ? code : `${code} ×${formatFullCount(count)}`))
    .join(", ");
}

function GroupCells({ line, view }: { readonly line: GroupLine; readonly view: RunView }) {
  let ownTokens = 0;
  const spent = { totalTokens: 0, costUsd: 0, unpricedCalls: 0 };
  for (const index of line.members) {
    const row = view.state.agents[index];
    if (row === undefined) continue;
    ownTokens += row[AT.ownTokens];
    spent.totalTokens += row[AT.treeTokens];
    spent.costUsd = addUsd(spent.costUsd, row[AT.treeUsd] ?? 0);
    spent.unpricedCalls += row[AT.treeUnpricedCalls];
  }
  const codes = describeCodes(line, view);
  const title = codes === "" ? undefined : toLine(`${line.status}: ${codes}`, 2_000);
  return (
    <>
      <span role="gridcell" class="cell name" title={title} aria-colspan={3}>
        <Indent line={line} />
        <Icon sign={line.status} />
        <b>
          <Line text={line.role} /> ×{formatFullCount(line.members.length)}
        </b>
        {codes === "" ? (
          <span class="read-aloud">{line.status}</span>
        ) : (
          <span class={`words is-${line.status}`}>
            <Line text={`${line.status}: ${codes}`} />
          </span>
        )}
        {line.below > 0 && <span class="count">+{formatFullCount(line.below)} below</span>}
        {line.failedBelow > 0 && (
          <span class="mark is-failed">
            <Icon sign="failed" />
            {formatFullCount(line.failedBelow)}
            <span class="read-aloud"> failed below</span>
          </span>
        )}
      </span>
      <Cell column="own">{formatShortCount(ownTokens)}</Cell>
      <Cell column="tree-tokens">{formatShortCount(spent.totalTokens)}</Cell>
      <Cell column="cost">{formatCost(spent)}</Cell>
    </>
  );
}

function RefusalCells({ line }: { readonly line: RefusalLine }) {
  return (
    <span role="gridcell" class="cell name" title={toLine(line.message)} aria-colspan={6}>
      <Indent line={line} />
      <Icon sign="refused" />
      <span class="words is-refused">
        refused: <Line text={line.role} />
        {line.count > 1 && ` ×${formatFullCount(line.count)}`}, {line.code}
      </span>
      <span class="task">
        <Line text={line.message} most={200} />
      </span>
    </span>
  );
}
