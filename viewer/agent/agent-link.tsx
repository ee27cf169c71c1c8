import { Link } from "../app/link.tsx";
import type { RunRoute } from "../app/route.ts";
import { AT, standingOf } from "../data/agent-row.ts";
import type { RunState } from "../data/run-state.ts";
import { Icon } from "../text/icon.tsx";
import { Line } from "../text/shown-text.tsx";

/** A link to another agent of the run on screen. */
export function AgentLink({
  state,
  route,
  index,
}: {
  readonly state: RunState;
  readonly route: RunRoute;
  readonly index: number;
}) {
  const row = state.agents[index];
  if (row === undefined) return null;
  return (
    <Link
      to={{ ...route, agent: row[AT.id], tab: undefined, step: undefined, execution: undefined }}
      class="agent-link"
    >
      <Icon sign={standingOf(row)} />
      <Line text={row[AT.name]} />
    </Link>
  );
}
