// The state of the page as an address, so that links, reloads and the back button restore it. It
// never contains text from a model.

import { computed, signal } from "@preact/signals";

import { BASE } from "../data/api.ts";

export const AGENT_TABS = ["overview", "steps", "given", "log"] as const;
export type AgentTab = (typeof AGENT_TABS)[number];

export const RUN_FILTERS = ["all", "working", "budget", "asking", "failed", "ended"] as const;
export type RunFilterName = (typeof RUN_FILTERS)[number];

export interface RunRoute {
  readonly screen: "run";
  readonly runId: string;
  readonly agent?: string | undefined;
  readonly tab?: AgentTab | undefined;
  readonly step?: number | undefined;
  readonly execution?: string | undefined;
  readonly q?: string | undefined;
  readonly show?: RunFilterName | undefined;
}

/** Route fields of an open agent, cleared. */
export const CLOSED = { agent: undefined, tab: undefined, step: undefined, execution: undefined };

export type Route =
  | { readonly screen: "runs"; readonly q?: string | undefined }
  | { readonly screen: "questions" }
  | RunRoute
  | { readonly screen: "unknown" };

const address = signal(location.pathname + location.search);
addEventListener("popstate", () => {
  address.value = location.pathname + location.search;
});

export const route = computed(() => parseRoute(address.value));

/** Navigates to a route, with an entry in the history. */
export function navigate(next: Route): void {
  history.pushState(null, "", formatHref(next));
  address.value = location.pathname + location.search;
}

/** Replaces the current route, without an entry in the history. */
export function replaceRoute(next: Route): void {
  if (formatHref(next) === address.value) return;
  history.replaceState(null, "", formatHref(next));
  address.value = location.pathname + location.search;
}

/** The last shown run, or the run at the cursor of the list. */
let visited = "";

export function recordVisit(runId: string): void {
  visited = runId;
}

export function getLastVisited(): string {
  return visited;
}

export function formatHref(to: Route): string {
  switch (to.screen) {
    case "runs":
      return `${BASE}${writeQuery({ q: to.q })}`;
    case "questions":
      return `${BASE}questions`;
    case "run": {
      const { screen: _screen, runId, step, ...rest } = to;
      return `${BASE}r/${encodeURIComponent(runId)}${writeQuery({ ...rest, step: step?.toString() })}`;
    }
    case "unknown":
      return BASE;
  }
}

function writeQuery(values: Readonly<Record<string, string | undefined>>): string {
  const set = Object.entries(values).flatMap(([name, value = ""]) =>
    value === "" ? [] : [[name, value]],
  );
  return set.length === 0 ? "" : `?${new URLSearchParams(set)}`;
}

function parseRoute(text: string): Route {
  const { pathname, searchParams } = new URL(text, location.origin);
  const path = pathname.slice(BASE.length);
  const readParam = (name: string): string | undefined => searchParams.get(name) ?? undefined;
  if (path === "") return { screen: "runs", q: readParam("q") };
  if (path === "questions") return { screen: "questions" };
  const [, runId] = /^r\/([^/]+)$/.exec(path) ?? [];
  if (runId === undefined) return { screen: "unknown" };
  const step = Number(readParam("step"));
  return {
    screen: "run",
    runId: decode(runId),
    agent: readParam("agent"),
    tab: AGENT_TABS.find((tab) => tab === readParam("tab")),
    step: Number.isInteger(step) && step > 0 ? step : undefined,
    execution: readParam("execution"),
    q: readParam("q"),
    show: RUN_FILTERS.find((filter) => filter === readParam("show")),
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
