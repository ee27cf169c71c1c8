import { useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { AgentPanel } from "../agent/agent-panel.tsx";
import { announce, copy } from "../app/announcer.tsx";
import { useLostFocus } from "../app/focus.ts";
import { useKeys } from "../app/keys.ts";
import { useRunTitle } from "../app/page-title.ts";
import { Panel } from "../app/panel.tsx";
import { Pending } from "../app/problem-notice.tsx";
import { CLOSED, navigate, recordVisit, replaceRoute, type RunRoute } from "../app/route.ts";
import { AT } from "../data/agent-row.ts";
import { FollowedRun } from "../data/followed-run.ts";
import { meta } from "../data/viewer-meta.ts";
import type { RunState } from "../data/run-state.ts";
import { formatQuantity } from "../../src/read-model/amounts.ts";
import { QuestionsBanner } from "../questions/questions-banner.tsx";
import { describeStatus } from "../text/status-words.ts";
import { LostBanner } from "./lost-banner.tsx";
import { Minimap } from "./minimap.tsx";
import { listErrorStops } from "./error-stops.ts";
import { RunFilter } from "./run-filter.tsx";
import { RunHeader } from "./run-header.tsx";
import { isClosed, isOpen, RunView } from "./run-view.ts";
import type { TreeLine } from "./tree-lines.ts";
import { hasSeveralCodes } from "./tree-row.tsx";
import { TimelineLegend } from "./timeline.tsx";
import { TreeView } from "./tree-view.tsx";

interface RunProps {
  readonly route: RunRoute;
  readonly firstRun: FollowedRun | undefined;
}

export function RunScreen({ route, firstRun }: RunProps) {
  const { runId } = route;
  const [tries, setTries] = useState(0);
  const [live, setLive] = useState<FollowedRun | undefined>(undefined);
  // In a layout effect, so that the request is sent before the page is painted.
  useLayoutEffect(() => {
    const opened = isOpenFor(runId, firstRun) ? firstRun : new FollowedRun(runId);
    setLive(opened);
    return () => opened.close();
  }, [runId, tries]);
  useEffect(() => recordVisit(runId), [runId]);
  const state = live?.runId === runId ? live.state.value : undefined;
  if (live !== undefined && state !== undefined)
    return <OpenRun key={runId} live={live} state={state} route={route} />;
  const problem = live?.problem.value;
  return (
    <main class="blank-screen">
      <h1 class="read-aloud" tabIndex={-1}>
        Run
      </h1>
      <Pending problem={problem} rows={12} onRetry={() => setTries(tries + 1)} />
    </main>
  );
}

function isOpenFor(runId: string, run: FollowedRun | undefined): run is FollowedRun {
  return run?.runId === runId && !run.isClosed;
}

interface OpenProps {
  readonly route: RunRoute;
  readonly live: FollowedRun;
  readonly state: RunState;
}

function OpenRun({ live, state, route }: OpenProps) {
  const view = useMemo(() => new RunView(state), [state]);
  useFollowedRoute(view, route);
  usePanelFocus(route);
  useRunTitle(live.runId, state.head.value.title);
  useNewsOfRun(state);
  const { errors, errorAt, goToError } = useErrors(view, route);
  useRunKeys(view, route, goToError);
  useTraceKeys(state);
  const isWide = useComputed(() => needsWideTree(view));
  return (
    <main class={route.agent === undefined ? "run-screen" : "run-screen with-panel"}>
      <LostBanner live={live} />
      <Panel name="header">
        <RunHeader
          live={live}
          state={state}
          errors={errors}
          errorAt={errorAt}
          onError={goToError}
        />
      </Panel>
      <Panel name="list of questions">
        <QuestionsBanner questions={state.questions.value} />
      </Panel>
      <div class="work">
        <section class={isWide.value ? "trunk wide" : "trunk"} aria-label="Agents of the run">
          <div class="tools">
            <RunFilter view={view} route={route} onReveal={() => closePanel(route)} />
            <Panel name="minimap">
              <Minimap view={view} />
            </Panel>
          </div>
          <Panel name="tree">
            <TreeView view={view} onOpen={(line) => openLine(view, route, line)} />
          </Panel>
          <TimelineLegend />
        </section>
        {route.agent !== undefined && (
          <Panel name="panel of the agent">
            <AgentPanel
              state={state}
              route={{ ...route, agent: route.agent }}
              view={view}
              onClose={() => closePanel(route)}
            />
          </Panel>
        )}
      </div>
    </main>
  );
}

/** Applies the filter of the address, and moves the cursor to the open agent. */
function useFollowedRoute(view: RunView, { agent, q = "", show = "all" }: RunRoute): void {
  // During the render, so that the first list is already filtered.
  useMemo(() => {
    view.filter.value = { words: q, show };
  }, [view, q, show]);
  useEffect(() => view.showRow(view.cursorAt), [view, q, show]);
  useEffect(() => {
    const { matches } = view.listing.peek();
    if (q !== "" || show !== "all") announce(`${formatQuantity(matches, "agent")} in the list`);
  }, [view, q, show]);
  useEffect(() => {
    const index = agent === undefined ? undefined : view.state.findIndex(agent);
    if (index !== undefined && view.cursorLine?.key !== agent) view.reveal(index);
  }, [view, agent]);
}

/** True if a line of the tree needs extra width: a group with several codes. */
function needsWideTree(view: RunView): boolean {
  return view.listing.value.lines.some((line) => hasSeveralCodes(line, view));
}

/** Returns the focus of a closed panel to the element that opened it. */
function usePanelFocus({ agent }: RunRoute): void {
  const isOpen = agent !== undefined;
  const opener = useRef<Element | null>(null);
  const wasOpen = useRef(isOpen);
  if (isOpen && !wasOpen.current) opener.current = document.activeElement;
  wasOpen.current = isOpen;
  useLostFocus(".agent-panel, .tree", () => {
    const { current } = opener;
    const isThere =
      current instanceof HTMLElement && current !== document.body && current.checkVisibility();
    return isThere ? current : document.querySelector<HTMLElement>(".tree");
  });
}

function useNewsOfRun(state: RunState): void {
  const { status } = state.head.value;
  const before = useRef(status);
  useEffect(() => {
    if (before.current !== status) announce(`The run: ${describeStatus(status)}`);
    before.current = status;
  }, [status]);
}

function useErrors(view: RunView, route: RunRoute) {
  const { state } = view;
  void state.structure.value;
  const causes = state.causes.value;
  const errorCount = state.head.value.toolErrorCount;
  const errors = useMemo(
    () => listErrorStops(state),
    [state, causes, state.structure.value, errorCount],
  );
  const [errorAt, setErrorAt] = useState(-1);
  const goToError = (by: 1 | -1): void => {
    if (errors.length === 0) return;
    // Before the first error, the previous one is the last.
    const from = errorAt < 0 && by < 0 ? 0 : errorAt;
    const next = (from + by + errors.length) % errors.length;
    setErrorAt(next);
    const stop = errors[next];
    const row = stop === undefined ? undefined : state.agents[stop.index];
    if (stop === undefined || row === undefined) return;
    view.reveal(stop.index);
    const tab = stop.step === undefined ? undefined : "steps";
    showAgent({ ...route, agent: row[AT.id], step: stop.step, tab, execution: undefined }, route);
  };
  return { errors, errorAt: Math.min(errorAt, errors.length - 1), goToError };
}

function useRunKeys(view: RunView, route: RunRoute, goToError: (by: 1 | -1) => void): void {
  const move = (by: number): void => {
    const line = view.moveTo(view.cursorAt + by);
    // An open panel follows the cursor.
    if (line?.kind === "agent" && route.agent !== undefined)
      replaceRoute({
        ...route,
        ...CLOSED,
        agent: line.key,
        tab: route.step === undefined ? route.tab : "steps",
      });
  };
  const open = (hasFocus: boolean): void => {
    const line = view.cursorLine;
    if (line !== undefined) openLine(view, route, line);
    if (hasFocus && line?.kind === "agent")
      requestAnimationFrame(() => document.getElementById("agent-title")?.focus());
  };
  useKeys("screen", {
    j: () => move(1),
    ArrowDown: () => move(1),
    k: () => move(-1),
    ArrowUp: () => move(-1),
    PageDown: () => move(20),
    PageUp: () => move(-20),
    Home: () => move(-Infinity),
    End: () => move(Infinity),
    ArrowRight: () => unfold(view, move),
    ArrowLeft: () => foldUp(view),
    Enter: () => open(true),
    " ": () => open(false),
    e: () => goToError(1),
    E: () => goToError(-1),
    f: () => {
      view.timeWindow.value = undefined;
    },
    Escape: () => {
      if (route.agent === undefined) navigate({ screen: "runs" });
      else closePanel(route);
    },
  });
}

function useTraceKeys(state: RunState): void {
  const { traceId } = state.head.value;
  const jaegerUrl = meta.value?.jaegerUrl;
  useKeys("screen", {
    Y: () => copy(traceId, "Trace id copied"),
    o:
      jaegerUrl === undefined
        ? undefined
        : () =>
            window.open(`${jaegerUrl.replace(/\/$/, "")}/trace/${traceId}`, "_blank", "noopener"),
  });
}

function unfold(view: RunView, move: (by: number) => void): void {
  const line = view.cursorLine;
  if (line === undefined) return;
  if (isClosed(line)) view.fold(line, true);
  else if (isOpen(line)) move(1);
}

/** Closes a line, or moves to its parent line. */
function foldUp(view: RunView): void {
  const line = view.cursorLine;
  if (line === undefined) return;
  if (isOpen(line) && view.filter.value.words === "") {
    view.fold(line, false);
    return;
  }
  const { lines } = view.listing.value;
  for (let at = view.cursorAt - 1; at >= 0; at -= 1)
    if ((lines[at]?.depth ?? 0) < line.depth) {
      view.moveTo(at);
      return;
    }
}

function openLine(view: RunView, route: RunRoute, line: TreeLine): void {
  if (line.kind === "group") {
    view.fold(line, !line.isOpen);
    return;
  }
  const agent = line.kind === "agent" ? line.key : view.state.agents[line.parent]?.[AT.id];
  const tab = route.step === undefined ? route.tab : undefined;
  if (agent !== undefined) showAgent({ ...route, ...CLOSED, agent, tab }, route);
}

/** Opens an agent. The back button closes an open panel, and does not repeat earlier agents. */
function showAgent(next: RunRoute, route: RunRoute): void {
  if (route.agent === undefined) navigate(next);
  else replaceRoute(next);
}

function closePanel(route: RunRoute): void {
  replaceRoute({ ...route, ...CLOSED });
}
