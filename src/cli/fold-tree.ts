// Which agents of a tree get a line when there are fewer lines than agents. Pure. What is finished
// is folded first; what runs is shown as long as there is room.

import type { AgentView, Spent } from "./run-view.ts";
import type { TerminalStatus } from "../index.ts";

/** One line of the tree. `branch` is what is drawn before its name. */
export type TreeRow =
  | {
      readonly kind: "agent";
      readonly branch: string;
      readonly agent: AgentView;
      readonly hidden: number;
    }
  | { readonly kind: "group"; readonly branch: string; readonly group: EndedGroup }
  | {
      readonly kind: "rest";
      readonly branch: string;
      readonly agents: number;
      readonly running: number;
    };

/** Siblings of one role that ended alike. */
interface EndedGroup {
  readonly role: string;
  readonly status: TerminalStatus;
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

/** The agents of a tree that have not ended. */
export function countRunning(agent: AgentView): number {
  let count = agent.activity.kind === "ended" ? 0 : 1;
  for (const child of agent.children) count += countRunning(child);
  return count;
}

interface Fold {
  /** An ended agent stands for all below it. */
  readonly hidesBelowEnded: boolean;
  /** Ended siblings of one role and status share a line. */
  readonly mergesEnded: boolean;
  readonly dropsEnded: boolean;
}

const FOLDS: readonly Fold[] = [
  { hidesBelowEnded: false, mergesEnded: false, dropsEnded: false },
  { hidesBelowEnded: true, mergesEnded: false, dropsEnded: false },
  { hidesBelowEnded: true, mergesEnded: true, dropsEnded: false },
];
const RUNNING_ONLY: Fold = { hidesBelowEnded: true, mergesEnded: false, dropsEnded: true };

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

type Twig = { readonly agent: AgentView } | { readonly group: EndedGroup };

function twigsOf(children: readonly AgentView[], fold: Fold): readonly Twig[] {
  if (fold.dropsEnded) {
    return children.filter((child) => child.activity.kind !== "ended").map((agent) => ({ agent }));
  }
  if (!fold.mergesEnded) return children.map((agent) => ({ agent }));
  const alike = Map.groupBy(children, likenessOf);
  return [...alike].flatMap(([likeness, agents]): readonly Twig[] => {
    const [first] = agents;
    if (first?.activity.kind !== "ended" || likeness === RUNNING || agents.length === 1) {
      return agents.map((agent) => ({ agent }));
    }
    return [{ group: groupOf(first.role, first.activity.status, agents) }];
  });
}

const RUNNING = "";

function likenessOf({ activity, role }: AgentView): string {
  return activity.kind === "ended" ? `${activity.status} ${role}` : RUNNING;
}

function groupOf(role: string, status: TerminalStatus, agents: readonly AgentView[]): EndedGroup {
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

/** The running agents as far as they fit, and one line for all others. */
function cut(root: AgentView, maxRows: number): readonly TreeRow[] {
  const place = { agent: root, branch: "", below: "" };
  const kept = upTo(Math.max(1, maxRows - 1), grow(place, RUNNING_ONLY));
  if (maxRows <= 1) return kept;
  const agents = countAgents(root) - kept.length;
  const shown = kept.filter((row) => row.kind === "agent" && row.agent.activity.kind !== "ended");
  return [
    ...kept,
    { kind: "rest", branch: "└─ ", agents, running: countRunning(root) - shown.length },
  ];
}
