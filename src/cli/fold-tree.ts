// Which agents of a tree get a line when there are fewer lines than agents. Pure. What is finished
// is folded first, then what is paused; what runs is shown as long as there is room.

import type { SettledStatus } from "../index.ts";
import type { AgentView, Spent } from "./agent-view.ts";

/** One line of the tree. `branch` is what is drawn before its name. */
export type TreeRow =
  | {
      readonly kind: "agent";
      readonly branch: string;
      readonly agent: AgentView;
      readonly hidden: number;
    }
  | { readonly kind: "group"; readonly branch: string; readonly group: SettledGroup }
  | {
      readonly kind: "rest";
      readonly branch: string;
      readonly agents: number;
      readonly running: number;
      readonly paused: number;
    };

/** Siblings of one role that came to rest alike. */
interface SettledGroup {
  readonly role: string;
  readonly status: SettledStatus;
  /** The siblings, without those below them. */
  readonly agents: number;
  readonly hidden: number;
  readonly subtree: Spent;
}

/**
 * At most `maxRows` lines for the tree below and with `root`. Costs as much as the lines it gives,
 * and one look at each agent.
 */
export function treeRows(root: AgentView, maxRows: number): readonly TreeRow[] {
  for (const fold of FOLDS) {
    const rows = upTo(maxRows + 1, grow({ agent: root, branch: "", below: "" }, fold));
    if (rows.length <= maxRows) return rows;
  }
  return cut(root, maxRows);
}

/** All agents of a tree. */
export function countAgents(agent: AgentView): number {
  let count = 1;
  for (const child of agent.children) count += countAgents(child);
  return count;
}

/** The agents of a tree that are not at rest. */
export function countRunning(agent: AgentView): number {
  return countIf(agent, (one) => restOf(one) === undefined);
}

/** The agents of a tree that are paused. */
export function countPaused(agent: AgentView): number {
  return countIf(agent, (one) => restOf(one) === "paused");
}

/** How an agent came to rest; undefined while it runs. */
export function restOf({ activity }: AgentView): SettledStatus | undefined {
  if (activity.kind === "ended") return activity.status;
  return activity.kind === "paused" ? "paused" : undefined;
}

function countIf(agent: AgentView, isCounted: (agent: AgentView) => boolean): number {
  let count = isCounted(agent) ? 1 : 0;
  for (const child of agent.children) count += countIf(child, isCounted);
  return count;
}

interface Fold {
  /** An ended agent stands for all below it. */
  readonly hidesBelowEnded: boolean;
  /** Settled siblings of one role and status share a line. */
  readonly mergesSettled: boolean;
  /** Agents that get no line. */
  readonly drops: "none" | "ended" | "settled";
}

const FOLDS: readonly Fold[] = [
  { hidesBelowEnded: false, mergesSettled: false, drops: "none" },
  { hidesBelowEnded: true, mergesSettled: false, drops: "none" },
  { hidesBelowEnded: true, mergesSettled: true, drops: "none" },
];
const RUNNING_ONLY: Fold = { hidesBelowEnded: true, mergesSettled: false, drops: "settled" };
const PAUSED_ONLY: Fold = { hidesBelowEnded: true, mergesSettled: false, drops: "ended" };

interface Place {
  readonly agent: AgentView;
  /** Drawn before the agent's name. */
  readonly branch: string;
  /** Drawn before the branches of its children. */
  readonly below: string;
}

function* grow({ agent, branch, below }: Place, fold: Fold): Generator<TreeRow, void> {
  const isFolded = fold.hidesBelowEnded && agent.activity.kind === "ended";
  yield { kind: "agent", branch, agent, hidden: isFolded ? countAgents(agent) - 1 : 0 };
  if (isFolded) return;
  const twigs = twigsOf(agent.children, fold);
  for (const [index, twig] of twigs.entries()) {
    const isLast = index === twigs.length - 1;
    const fork = below + (isLast ? "└─ " : "├─ ");
    if ("group" in twig) yield { kind: "group", branch: fork, group: twig.group };
    else
      yield* grow(
        { agent: twig.agent, branch: fork, below: below + (isLast ? "   " : "│  ") },
        fold,
      );
  }
}

function upTo(count: number, rows: Iterable<TreeRow>): readonly TreeRow[] {
  const taken: TreeRow[] = [];
  for (const row of rows) {
    taken.push(row);
    if (taken.length >= count) break;
  }
  return taken;
}

type Twig = { readonly agent: AgentView } | { readonly group: SettledGroup };

function twigsOf(children: readonly AgentView[], fold: Fold): readonly Twig[] {
  const kept = children.filter((child) => !isDropped(child, fold));
  if (!fold.mergesSettled) return kept.map((agent) => ({ agent }));
  const alike = Map.groupBy(kept, likenessOf);
  return [...alike.values()].flatMap((agents): readonly Twig[] => {
    const [first] = agents;
    const status = first === undefined ? undefined : restOf(first);
    if (first === undefined || status === undefined || agents.length === 1) {
      return agents.map((agent) => ({ agent }));
    }
    return [{ group: groupOf(first.role, status, agents) }];
  });
}

function isDropped(agent: AgentView, { drops }: Fold): boolean {
  const rest = restOf(agent);
  if (rest === undefined || drops === "none") return false;
  return drops === "settled" || rest !== "paused";
}

const RUNNING = "";

function likenessOf(agent: AgentView): string {
  const rest = restOf(agent);
  return rest === undefined ? RUNNING : `${rest} ${agent.role}`;
}

function groupOf(role: string, status: SettledStatus, agents: readonly AgentView[]): SettledGroup {
  const all = agents.reduce((sum, agent) => sum + countAgents(agent), 0);
  return {
    role,
    status,
    agents: agents.length,
    hidden: all - agents.length,
    subtree: sumOf(agents),
  };
}

function sumOf(agents: readonly AgentView[]): Spent {
  return agents.reduce<Spent>(
    (sum, { subtree }) => ({
      totalTokens: sum.totalTokens + subtree.totalTokens,
      costMicroUsd: sum.costMicroUsd + subtree.costMicroUsd,
      unpricedCalls: sum.unpricedCalls + subtree.unpricedCalls,
    }),
    { totalTokens: 0, costMicroUsd: 0, unpricedCalls: 0 },
  );
}

/**
 * The running agents as far as they fit, or the paused ones if none runs, and one line for all
 * others.
 */
function cut(root: AgentView, maxRows: number): readonly TreeRow[] {
  const place = { agent: root, branch: "", below: "" };
  const running = countRunning(root);
  const fold = running > 0 ? RUNNING_ONLY : PAUSED_ONLY;
  const kept = upTo(Math.max(1, maxRows - 1), grow(place, fold));
  if (maxRows <= 1) return kept;
  const shown = kept.flatMap((row) => (row.kind === "agent" ? [restOf(row.agent)] : []));
  const rest: TreeRow = {
    kind: "rest",
    branch: "└─ ",
    agents: countAgents(root) - kept.length,
    running: running - shown.filter((status) => status === undefined).length,
    paused: countPaused(root) - shown.filter((status) => status === "paused").length,
  };
  return [...kept, rest];
}
