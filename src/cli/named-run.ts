// `<run>` as people write it: an id, a beginning of one that no other run has, or `@last`.

import type { RunId } from "espalier";
import type { Store, StoredRun } from "espalier/extend";

import { UsageError } from "./usage-error.ts";

export const LAST_RUN = "@last";
/** Runs among which a beginning is looked for: the newest. */
const MAX_RUNS = 10_000;
const MAX_SHOWN = 5;

/**
 * The run that is meant.
 *
 * @throws UsageError if there is none, or more than one; what the store rejects with.
 */
export async function namedRun(store: Store, name: string): Promise<StoredRun> {
  if (name === LAST_RUN) {
    const [last] = await store.list({ limit: 1 });
    if (last !== undefined) return last;
    throw new UsageError("Expected a run in the store, but it has none. Start one: espalier run …");
  }
  // Every id begins with nothing: a variable of the shell that is not set names no run.
  if (!mayBeRunId(name)) throw noSuchRun(name);
  const exact = await store.find(name);
  if (exact !== undefined) return exact;
  const all = await store.list({ limit: MAX_RUNS });
  const found = all.filter(({ runId }) => runId.startsWith(name));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (found.length === 0) throw noSuchRun(name);
  const shown = found.slice(0, MAX_SHOWN).map(({ runId }) => runId);
  const more = found.length > MAX_SHOWN ? `, and ${found.length - MAX_SHOWN} more` : "";
  throw new UsageError(
    `Expected the beginning of one run, got ${JSON.stringify(name)}, with which ${found.length} begin: ${shown.join(", ")}${more}. Write more of it.`,
  );
}

function noSuchRun(name: string): UsageError {
  return new UsageError(
    `Expected the id of a run, the beginning of one or ${LAST_RUN}, got ${JSON.stringify(name)}, which no run has. List them: espalier runs`,
  );
}

/** The name of the role of its root: a run is called by it and its task. */
export function rootRoleOf({ title }: StoredRun): string {
  return title.slice(0, Math.max(0, title.indexOf(": ")));
}

/** The store says whether it is one. */
function mayBeRunId(name: string): name is RunId {
  return name !== "";
}

const MOST_NAMED = 5;

/** Returns the paths of agents for an error, and how many more there are. */
export function namedPaths(agents: readonly { readonly agentPath: string }[]): string {
  const named = agents.slice(0, MOST_NAMED).map(({ agentPath }) => agentPath);
  const more = agents.length > MOST_NAMED ? `, and ${agents.length - MOST_NAMED} more` : "";
  return named.join(", ") + more;
}
