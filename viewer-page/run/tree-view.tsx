// The tree of a run with its timeline, as a virtual list: only visible rows are rendered. The list
// has the focus, and its active descendant is the row of the cursor.

import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { Panel } from "../app/panel.tsx";
import { createHover, TimeAxis, Timeline, TimelineTip } from "./timeline.tsx";
import { isClosed, isOpen, ROW_PX, type RunView } from "./run-view.ts";
import type { TreeLine } from "./tree-lines.ts";
import { toRowId, TreeRow } from "./tree-row.tsx";

const HEAD_PX = 28;

interface TreeViewProps {
  readonly view: RunView;
  readonly onOpen: (line: TreeLine) => void;
}

export function TreeView({ view, onOpen }: TreeViewProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const hover = useMemo(createHover, [view]);
  useEffect(
    () => (scroller.current === null ? undefined : watchScroller(scroller.current, view)),
    [view],
  );
  const cursorAt = useComputed(() => view.cursorAt);
  const choose = (at: number): void => {
    const line = view.moveTo(at);
    if (line !== undefined) onOpen(line);
  };
  const handleClick = (event: MouseEvent): void => {
    if (!(event.target instanceof Element)) return;
    const at = Number(event.target.closest("[data-at]")?.getAttribute("data-at") ?? NaN);
    const line = view.listing.value.lines[at];
    if (line === undefined) return;
    const isTwisty = event.target.closest(".twisty") !== null || line.kind === "group";
    if (isTwisty && (isOpen(line) || isClosed(line))) {
      view.fold(line, isClosed(line));
      view.moveTo(at);
    } else choose(at);
  };
  const isEmpty = view.listing.value.lines.length === 0;
  return (
    <div
      ref={scroller}
      class="tree"
      role="treegrid"
      aria-label="Agents"
      aria-rowcount={view.listing.value.lines.length + 1}
      aria-activedescendant={isEmpty ? undefined : toRowId(cursorAt.value)}
      tabIndex={0}
      onScroll={(event) => {
        view.scrollTop.value = event.currentTarget.scrollTop;
      }}
      onClick={handleClick}
    >
      <div class="tree-head" role="rowgroup">
        <HeadCells />
        <TimeAxis view={view} />
      </div>
      <Panel name="timeline">
        <Timeline view={view} hover={hover} onChoose={choose} />
        <TimelineTip hover={hover} />
      </Panel>
      {isEmpty && <p class="tree-empty">No agent matches the filter.</p>}
      <Rows view={view} />
    </div>
  );
}

const HEADS = [
  ["name", "agent", ""],
  ["number time", "time", ""],
  ["number step", "step", ""],
  ["number own", "own", "Own tokens"],
  ["number tree-tokens", "tree", "Tokens, including subagents"],
  ["number cost", "cost", "Cost, including subagents"],
] as const;

function HeadCells() {
  return (
    <div role="row" class="head-cells">
      {HEADS.map(([kind, text, title]) => (
        <span key={text} role="columnheader" class={`cell ${kind}`} title={title}>
          {text}
        </span>
      ))}
    </div>
  );
}

function Rows({ view }: { readonly view: RunView }) {
  const { lines } = view.listing.value;
  const { from, to } = view.range.value;
  const cursorAt = view.cursorAt;
  const shown = Array.from({ length: Math.max(0, to - from) }, (_none, place) => from + place);
  // The row of the cursor is always rendered, because it is the active descendant of the list.
  if (lines[cursorAt] !== undefined && !shown.includes(cursorAt)) shown.push(cursorAt);
  return (
    <div class="rows" role="rowgroup" style={{ height: `${lines.length * ROW_PX}px` }}>
      {shown.map((at) => {
        const line = lines[at];
        return line !== undefined && <TreeRow key={at} view={view} line={line} at={at} />;
      })}
    </div>
  );
}

/**
 * Synchronises the view with the scroll position and size of the list. Returns the function that
 * stops it.
 */
function watchScroller(scroller: HTMLElement, view: RunView): () => void {
  const measure = (): void => {
    view.heightPx.value = Math.max(0, scroller.clientHeight - HEAD_PX);
  };
  const sizes = new ResizeObserver(measure);
  sizes.observe(scroller);
  measure();
  scroller.scrollTop = view.scrollTop.peek();
  const show = (at: number): void => {
    const top = at * ROW_PX;
    const room = scroller.clientHeight - HEAD_PX - ROW_PX;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
    view.scrollTop.value = scroller.scrollTop;
  };
  view.showRow = (at) => {
    show(at);
    // Lines that have just been opened exist only in the next frame.
    requestAnimationFrame(() => show(at));
  };
  return () => {
    sizes.disconnect();
    view.showRow = () => undefined;
  };
}
