// Everything that must be equal however a run was driven. A pause may change times, trace and span
// ids, event numbers, how a request compares with the one before (X31), and the events that report
// pauses and resumptions. It may also change the order of events and errors of parallel agents, the
// order of events of parallel calls of one reply, and ids that are assigned in starting order;
// places in the tree replace those ids.

import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Outside } from "./equivalence-agents.ts";

/** A run that was played to its end. */
export interface Performance {
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
  readonly outside: Outside;
}

/** The remaining record of a run, to be compared as a whole. */
export interface RunRecord {
  readonly result: unknown;
  /** By agent; the run's own under "run". */
  readonly events: Readonly<Record<string, readonly unknown[]>>;
  /** The requests to every agent's model, by agent. */
  readonly requests: unknown;
  /** Every tool body that ran, sorted. */
  readonly toolRuns: readonly string[];
}

/** Returns the record of a run. `hidden`: fields that reveal how it was driven. */
export function recordOf(
  { result, events, outside }: Performance,
  hidden: ReadonlySet<string> = NOTHING,
): RunRecord {
  const plain = plainFor(events, hidden);
  const { agents, accounts, ...whole } = result;
  return {
    result: plain({
      ...whole,
      errors: inPathOrder(whole.errors),
      agents: agents.toSorted((left, right) => byText(left.agentPath, right.agentPath)),
      accounts: accounts.toSorted((left, right) => byText(left.agentPath, right.agentPath)),
    }),
    events: Object.fromEntries(
      [...grouped(events)].map(([place, own]) => [place, inCallOrder(own).map(plain)]),
    ),
    requests: plain(outside.requests),
    toolRuns: outside.toolRuns.toSorted(byText),
  };
}

/** Errors by agent, each with the agents above and below it that had failed before. */
function inPathOrder(errors: RunResult["errors"]): readonly unknown[] {
  const isAbove = (above: string, below: string): boolean => below.startsWith(`${above}/`);
  return errors
    .map((error, index) => ({
      ...error,
      after: errors
        .slice(0, index)
        .map((earlier) => earlier.agentPath)
        .filter((path) => isAbove(path, error.agentPath) || isAbove(error.agentPath, path))
        .toSorted(byText),
    }))
    .toSorted((left, right) => byText(left.agentPath, right.agentPath));
}

const NOTHING: ReadonlySet<string> = new Set();

const OF_PAUSES: ReadonlySet<string> = new Set([
  "run.paused",
  "run.resumed",
  "agent.paused",
  "agent.resumed",
  "tool.paused",
  "tool.resumed",
]);

function grouped(events: readonly EspalierEvent[]): ReadonlyMap<string, readonly EspalierEvent[]> {
  const groups = new Map<string, readonly EspalierEvent[]>();
  for (const event of events) {
    if (OF_PAUSES.has(event.type)) continue;
    const place = event.executionId === null ? "run" : event.agentPath;
    groups.set(place, [...(groups.get(place) ?? []), withoutPrefix(event)]);
  }
  return new Map([...groups].toSorted(([left], [right]) => byText(left, right)));
}

/** The comparison with the request before is known within one process only. */
function withoutPrefix(event: EspalierEvent): EspalierEvent {
  if (event.type !== "model.requested") return event;
  const { prefix: _ofThisProcess, ...others } = event;
  return others;
}

/** Orders events of parallel calls and of parallel subtasks call by call. */
function inCallOrder(events: readonly EspalierEvent[]): readonly EspalierEvent[] {
  const ordered: EspalierEvent[] = [];
  let parallel: EspalierEvent[] = [];
  const close = (): void => {
    ordered.push(
      ...parallel.toSorted((left, right) => byText(lane(left) ?? "", lane(right) ?? "")),
    );
    parallel = [];
  };
  for (const event of events) {
    if (lane(event) === undefined) {
      close();
      ordered.push(event);
    } else parallel.push(event);
  }
  close();
  return ordered;
}

function lane(event: EspalierEvent): string | undefined {
  if (event.callId !== null) return `call ${event.callId}`;
  if (event.type === "subagent.spawned" || event.type === "subagent.ended") return event.childPath;
  if (event.type === "subagent.refused") return "";
  return event.type === "hook.applied" && event.point === "subagentStart" ? "" : undefined;
}

const CHANGES_WITH_A_PAUSE: ReadonlySet<string> = new Set([
  "traceId",
  "spanId",
  "seq",
  "atMs",
  "startedAtMs",
  "endedAtMs",
  "settledAtMs",
  "openedAtMs",
  "askedAtMs",
  "durationMs",
  "pausedMs",
  "waitedMs",
  "queuedMs",
]);

/** Returns a copy without the fields that a pause changes, and with places for ids. */
function plainFor(
  events: readonly EspalierEvent[],
  hidden: ReadonlySet<string>,
): (value: unknown) => unknown {
  const names = new Map<string, string>();
  const leases = new Map<string, number>();
  for (const event of events) {
    const { agentId, executionId, agentPath } = event;
    names.set(agentId, `<agent ${agentPath}>`);
    if (executionId !== null) names.set(executionId, `<execution ${agentPath}>`);
    if (event.type !== "budget.reserved") continue;
    const count = (leases.get(agentPath) ?? 0) + 1;
    leases.set(agentPath, count);
    names.set(event.leaseId, `<lease ${count} of ${agentPath}>`);
  }
  const named = (text: string): string =>
    text.replaceAll(/\b(?:agent|execution|lease)_\d+/g, (id) => names.get(id) ?? id);
  return (value) => {
    const text = JSON.stringify(value, (key, part: unknown) => {
      if (hidden.has(key)) return undefined;
      if (key === "subagentsByDepth" && isSpawnCount(value)) return undefined;
      if (CHANGES_WITH_A_PAUSE.has(key)) return undefined;
      return typeof part === "string" ? named(part) : part;
    });
    const copy: unknown = JSON.parse(text);
    return copy;
  };
}

/** The number at the time of a spawn depends on parallel agents. */
function isSpawnCount(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    "type" in value &&
    value.type === "subagent.spawned"
  );
}

function byText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
