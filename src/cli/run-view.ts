// What a run looks like from outside, folded from its events. Pure: each event gives a new view,
// which shares with the old one all that did not change.

import type {
  AgentId,
  CallId,
  EspalierEvent,
  RunId,
  RunResult,
  StopReason,
  TerminalStatus,
  Usage,
} from "../index.ts";

/** One run. */
export interface RunView {
  readonly runId: RunId;
  readonly traceId: string;
  readonly startedAtMs: number;
  /** What the run may spend, by axis; limited axes only. */
  readonly budget: Amounts;
  /**
   * What of it is not spent. What is held for calls in flight still counts as left: most of it
   * comes back.
   */
  readonly left: Amounts;
  /** Spawns that were refused. */
  readonly refusals: number;
  /** Undefined until its agent has started. */
  readonly root: AgentView | undefined;
  /** Undefined while it goes on. */
  readonly end: { readonly status: TerminalStatus; readonly durationMs: number } | undefined;
}

type Amounts = Readonly<Record<string, number>>;

/** One agent, with those that it started in the order of their start. */
export interface AgentView {
  readonly agentId: AgentId;
  readonly agentPath: string;
  readonly role: string;
  readonly task: string;
  readonly startedAtMs: number;
  readonly activity: Activity;
  /** The step it is at; 0 before the first. */
  readonly step: number;
  readonly own: Spent;
  /** Its own and that of all below it. */
  readonly subtree: Spent;
  /** Spawns of its own that were refused. */
  readonly refusals: number;
  readonly children: readonly AgentView[];
}

export type Spent = Pick<Usage, "totalTokens" | "costMicroUsd" | "unpricedCalls">;

/** What an agent is doing. */
export type Activity =
  /** Between two effects, or waiting in line for its budget. */
  | { readonly kind: "preparing" }
  /** It has its budget, and waits for a free slot. */
  | { readonly kind: "queued" }
  | { readonly kind: "thinking" }
  | { readonly kind: "retrying"; readonly attempt: number; readonly errorCode: string }
  | { readonly kind: "calling"; readonly calls: readonly OpenCall[] }
  | {
      readonly kind: "ended";
      readonly status: TerminalStatus;
      readonly reason: StopReason;
      readonly durationMs: number;
    };

/** A tool call under way. */
export interface OpenCall {
  readonly callId: CallId | null;
  readonly toolName: string;
  readonly isDelegation: boolean;
}

const NOTHING_SPENT: Spent = { totalTokens: 0, costMicroUsd: 0, unpricedCalls: 0 };

/**
 * The view after one more event; undefined before the run's first. Events that nobody sees here,
 * also unknown ones, change nothing.
 */
export function nextRunView(view: RunView | undefined, event: EspalierEvent): RunView | undefined {
  if (event.type === "run.started") return openRun(event);
  if (view === undefined || view.runId !== event.runId) return view;
  switch (event.type) {
    case "agent.started":
      return { ...view, root: addAgent(view.root, event) };
    case "step.started":
      return change(view, event, { step: event.number });
    case "budget.reserved":
    case "budget.released":
      return doing(view, event, { kind: "queued" });
    case "budget.settled":
      return charge({ ...view, left: leftAfter(view.left, event) }, event);
    case "model.requested":
      return doing(view, event, { kind: "thinking" });
    case "model.retried":
      return doing(view, event, {
        kind: "retrying",
        attempt: event.attempt + 1,
        errorCode: event.error.code,
      });
    case "model.replied":
    case "model.failed":
    case "continuation.evaluated":
      return doing(view, event, { kind: "preparing" });
    case "tool.started":
      return calls(view, event, (open) => [
        ...open,
        {
          callId: event.callId,
          toolName: event.toolName,
          isDelegation: event.kind === "delegation",
        },
      ]);
    case "tool.ended":
      return calls(view, event, (open) => open.filter((call) => call.callId !== event.callId));
    case "subagent.refused":
      return countRefusal(view, event);
    case "agent.ended": {
      const { status, reason, durationMs, steps } = event;
      return change(view, event, {
        activity: { kind: "ended", status, reason, durationMs },
        step: steps,
      });
    }
    case "run.ended":
      return { ...view, end: { status: event.status, durationMs: event.durationMs } };
    case "step.completed":
    case "subagent.spawned":
    case "subagent.ended":
    case "budget.denied":
    case "signal.raised":
      return view;
    default:
      event satisfies never;
      return view;
  }
}

/** The tree of a run that is over, as its events would have left it. */
export function treeOf(result: RunResult): AgentView | undefined {
  const byParent = Map.groupBy(result.agents, (agent) => agent.parentAgentId);
  const below = (parentId: AgentId | null): readonly AgentView[] =>
    (byParent.get(parentId) ?? []).map((agent) => {
      const { status, reason, durationMs, usage } = agent;
      return {
        agentId: agent.agentId,
        agentPath: agent.agentPath,
        role: agent.role,
        task: agent.task,
        startedAtMs: 0,
        activity: { kind: "ended", status, reason, durationMs },
        step: agent.steps.length,
        own: usage.own,
        subtree: usage.total,
        refusals: refusedSpawns(agent),
        children: below(agent.agentId),
      };
    });
  return below(null)[0];
}

type Placed = Pick<EspalierEvent, "agentPath">;

function openRun(event: EspalierEvent<"run.started">): RunView {
  const { runId, traceId, atMs: startedAtMs, budget } = event;
  const counts = { refusals: 0, root: undefined, end: undefined };
  return { runId, traceId, startedAtMs, budget, left: budget, ...counts };
}

function addAgent(
  root: AgentView | undefined,
  event: EspalierEvent<"agent.started">,
): AgentView | undefined {
  const { agentId, agentPath, role, task, atMs: startedAtMs } = event;
  const agent: AgentView = {
    agentId,
    agentPath,
    role,
    task,
    startedAtMs,
    activity: { kind: "preparing" },
    step: 0,
    own: NOTHING_SPENT,
    subtree: NOTHING_SPENT,
    refusals: 0,
    children: [],
  };
  const parentPath = agentPath.slice(0, Math.max(0, agentPath.lastIndexOf("/")));
  if (parentPath === "") return agent;
  if (root === undefined) return undefined;
  return changeAt(root, parentPath, (parent) => ({
    ...parent,
    children: [...parent.children, agent],
  }));
}

function change(view: RunView, at: Placed, fields: Partial<AgentView>): RunView {
  if (view.root === undefined) return view;
  return { ...view, root: changeAt(view.root, at.agentPath, (agent) => ({ ...agent, ...fields })) };
}

function doing(view: RunView, at: Placed, activity: Activity): RunView {
  return change(view, at, { activity });
}

function calls(
  view: RunView,
  at: Placed,
  next: (open: readonly OpenCall[]) => readonly OpenCall[],
): RunView {
  if (view.root === undefined) return view;
  const root = changeAt(view.root, at.agentPath, (agent) => {
    const open = next(agent.activity.kind === "calling" ? agent.activity.calls : []);
    return {
      ...agent,
      activity: open.length === 0 ? { kind: "preparing" } : { kind: "calling", calls: open },
    };
  });
  return { ...view, root };
}

function charge(view: RunView, event: EspalierEvent<"budget.settled">): RunView {
  if (view.root === undefined) return view;
  const { agentPath, usage } = event;
  const onPath = (agent: AgentView): AgentView => ({
    ...agent,
    subtree: plus(agent.subtree, usage),
  });
  const payer = (agent: AgentView): AgentView => onPath({ ...agent, own: plus(agent.own, usage) });
  return { ...view, root: changeAt(view.root, agentPath, payer, onPath) };
}

/** Tool calls are charged without an event of their own: for them the ledger says what is left. */
function leftAfter(left: Amounts, event: EspalierEvent<"budget.settled">): Amounts {
  const used: Amounts = event.usage;
  const next: Record<string, number> = {};
  for (const [axis, amount] of Object.entries(left)) {
    const byLedger = axis === "toolCalls" ? event.runRemaining[axis] : undefined;
    next[axis] = byLedger ?? Math.max(0, amount - (used[axis] ?? 0));
  }
  return next;
}

function countRefusal(view: RunView, at: Placed): RunView {
  const counted = { ...view, refusals: view.refusals + 1 };
  if (view.root === undefined) return counted;
  const root = changeAt(view.root, at.agentPath, (agent) => ({
    ...agent,
    refusals: agent.refusals + 1,
  }));
  return { ...counted, root };
}

/**
 * Changes the agent at `path`, and with `onPath` each of its ancestors; the rest of the tree stays
 * the same value.
 */
function changeAt(
  agent: AgentView,
  path: string,
  target: (agent: AgentView) => AgentView,
  onPath: (agent: AgentView) => AgentView = (unchanged) => unchanged,
): AgentView {
  if (agent.agentPath === path) return target(agent);
  const index = agent.children.findIndex(
    ({ agentPath }) => agentPath === path || path.startsWith(`${agentPath}/`),
  );
  const child = agent.children[index];
  if (child === undefined) return agent;
  const children = agent.children.with(index, changeAt(child, path, target, onPath));
  return onPath({ ...agent, children });
}

function plus(left: Spent, right: Spent): Spent {
  return {
    totalTokens: left.totalTokens + right.totalTokens,
    costMicroUsd: left.costMicroUsd + right.costMicroUsd,
    unpricedCalls: left.unpricedCalls + right.unpricedCalls,
  };
}

function refusedSpawns({ steps }: RunResult["agents"][number]): number {
  return steps
    .flatMap((step) => step.tools.executions)
    .filter(({ type, errorCode }) => type === "refused" && errorCode !== "tool_calls_limit").length;
}
