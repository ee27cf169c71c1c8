// The panel of an agent beside the tree. Each tab loads its content when it is opened, and again
// when the agent has made progress.

import { useLayoutEffect, useRef } from "preact/hooks";

import { useLostFocus } from "../app/focus.ts";
import { useKeys } from "../app/keys.ts";
import { Panel } from "../app/panel.tsx";
import { Pending } from "../app/problem-notice.tsx";
import { AGENT_TABS, replaceRoute, type AgentTab, type RunRoute } from "../app/route.ts";
import { AT, getActivity, buildPath, getDisplayStatus } from "../data/agent-row.ts";
import { api } from "../data/api.ts";
import type { RunState } from "../data/run-state.ts";
import { useLoaded } from "../data/use-loaded.ts";
import { Icon } from "../text/icon.tsx";
import { Line } from "../text/shown-text.tsx";
import type { RunView } from "../run/run-view.ts";
import { describeActivity, getStatusInRun } from "../run/row-text.ts";
import { AgentContext } from "./agent-context.tsx";
import { AgentLog } from "./agent-log.tsx";
import { AgentOverview } from "./agent-overview.tsx";
import { AgentSteps, toStepKey } from "./agent-steps.tsx";
import { StepPanel } from "./step-panel.tsx";

interface AgentPanelProps {
  readonly state: RunState;
  readonly route: RunRoute & { readonly agent: string };
  readonly view: RunView;
  readonly onClose: () => void;
}

const TAB_TEXTS: Readonly<Record<AgentTab, string>> = {
  overview: "Overview",
  steps: "Steps",
  given: "Given",
  log: "Log",
};

export function AgentPanel({ state, route, view, onClose }: AgentPanelProps) {
  void state.amounts.value;
  const { runId, agent } = route;
  const index = state.findIndex(agent);
  const row = index === undefined ? undefined : state.agents[index];
  // The agent's activity changes ten times a second. The panel is loaded again only when the agent
  // completes a step, settles, or an attempt has failed.
  const attempt = row !== undefined && getActivity(row) === "retrying" ? row[AT.note] : "";
  const version =
    row === undefined
      ? ""
      : `${row[AT.step]} ${getDisplayStatus(row)} ${row[AT.endedAtMs]} ${row[AT.toolErrors]} ${attempt}`;
  const loaded = useLoaded({ key: `${runId} ${agent}`, version }, (signal) =>
    api.agent(runId, agent, signal),
  );
  const tab = route.tab ?? (route.step === undefined ? "overview" : "steps");
  const panel = useFocusInPanel(route);
  return (
    <aside
      ref={panel}
      class={route.step === undefined ? "agent-panel" : "agent-panel wide"}
      aria-label="Agent"
    >
      <header class="panel-head">
        {row !== undefined && <Icon sign={getStatusInRun(row, state.head.value)} />}
        <h2 id="agent-title" tabIndex={-1}>
          <Line text={index === undefined ? agent : buildPath(state.agents, index)} />
        </h2>
        {row !== undefined && (
          <span class={`is-${getStatusInRun(row, state.head.value)}`}>
            <Line text={describeActivity(row, state)} />
          </span>
        )}
        <button class="small" aria-label="Close" title="Close: Esc" onClick={onClose}>
          ✕
        </button>
      </header>
      {index !== undefined && <NotListed view={view} route={route} index={index} />}
      <Tabs route={route} tab={tab} />
      <div class="panel-body" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        <Panel key={`${agent} ${tab} ${route.step === undefined}`} name="panel of the agent">
          <TabBody state={state} route={route} tab={tab} loaded={loaded} version={version} />
        </Panel>
      </div>
    </aside>
  );
}

function useFocusInPanel(route: AgentPanelProps["route"]) {
  const panel = useRef<HTMLElement>(null);
  const last = useRef(route);
  useLostFocus(".agent-panel", () => {
    const { agent, step = 0, execution } = last.current;
    const line = `[data-step="${CSS.escape(toStepKey(step, execution))}"]`;
    const place = agent === route.agent ? line : "#agent-title";
    const find = (selector: string) => panel.current?.querySelector<HTMLElement>(selector);
    return find(route.step === undefined ? place : "#step-title") ?? find(".panel-body");
  });
  useLayoutEffect(() => {
    last.current = route;
  }, [route]);
  return panel;
}

interface ListedProps extends Pick<AgentPanelProps, "view" | "route"> {
  readonly index: number;
}

/** Reports that the list leaves out the agent that is open, and offers to show it there. */
function NotListed({ view, route, index }: ListedProps) {
  const { agent } = route;
  const isListed = view.listing.value.places.has(agent);
  const { words, show } = view.filter.value;
  const isFiltered = words !== "" || show !== "all";
  const reveal = (): void => {
    document.getElementById("agent-title")?.focus();
    if (isFiltered) replaceRoute({ ...route, q: undefined, show: undefined });
    view.reveal(index);
  };
  return (
    <p class="not-listed" role="status">
      {!isListed && (
        <>
          {isFiltered ? "The filter hides this agent in the list." : "This agent is collapsed."}
          <button class="link" onClick={reveal}>
            show it in the list
          </button>
        </>
      )}
    </p>
  );
}

function Tabs({ route, tab }: { readonly route: RunRoute; readonly tab: AgentTab }) {
  const list = useRef<HTMLDivElement>(null);
  const show = (next: AgentTab): void =>
    replaceRoute({ ...route, tab: next, step: undefined, execution: undefined });
  useKeys(
    "panel",
    Object.fromEntries(AGENT_TABS.map((name, at) => [String(at + 1), () => show(name)])),
  );
  const move = (by: number): void => {
    const next = AGENT_TABS[(AGENT_TABS.indexOf(tab) + by + AGENT_TABS.length) % AGENT_TABS.length];
    if (next === undefined) return;
    show(next);
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label="Details of the agent">
      {AGENT_TABS.map((name) => (
        <button
          key={name}
          role="tab"
          id={`tab-${name}`}
          aria-selected={name === tab}
          tabIndex={name === tab ? 0 : -1}
          onClick={() => show(name)}
          onKeyDown={(event) => {
            const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (by === undefined) return;
            event.preventDefault();
            move(by);
          }}
        >
          {TAB_TEXTS[name]}
        </button>
      ))}
    </div>
  );
}

interface TabBodyProps extends Omit<AgentPanelProps, "onClose" | "view"> {
  readonly tab: AgentTab;
  readonly version: string;
  readonly loaded: ReturnType<typeof useLoaded<Awaited<ReturnType<typeof api.agent>>>>;
}

function TabBody({ state, route, tab, loaded, version }: TabBodyProps) {
  const { runId, agent, step } = route;
  if (tab === "log") return <AgentLog runId={runId} agentId={agent} version={version} />;
  const detail = loaded.value;
  if (detail === undefined) return <Pending problem={loaded.problem} rows={6} />;
  switch (tab) {
    case "overview":
      return <AgentOverview detail={detail} state={state} route={route} />;
    case "given":
      return <AgentContext detail={detail} />;
    case "steps":
      return step === undefined ? (
        <AgentSteps detail={detail} state={state} route={route} />
      ) : (
        <StepPanel
          key={agent}
          state={state}
          route={{ ...route, step }}
          detail={detail}
          version={version}
        />
      );
  }
}
