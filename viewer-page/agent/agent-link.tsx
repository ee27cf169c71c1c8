import { Link } from "../app/link.tsx";
import { CLOSED, type RunRoute } from "../app/route.ts";
import { AT, getDisplayStatus } from "../data/agent-row.ts";
import type { RunState } from "../data/run-state.ts";
import { Icon } from "../text/icon.tsx";
import { Line } from "../text/shown-text.tsx";

/** The run on screen and its route. */
export interface OnRun {
  readonly state: RunState;
  readonly route: RunRoute;
}

/** A link to another agent of the run on screen. */
export function AgentLink({ state, route, index }: OnRun & { readonly index: number }) {
  const row = state.agents[index];
  if (row === undefined) return null;
  return (
    <Link to={{ ...route, ...CLOSED, agent: row[AT.id] }} class="agent-link">
      <Icon sign={getDisplayStatus(row)} />
      <Line text={row[AT.name]} />
    </Link>
  );
}
