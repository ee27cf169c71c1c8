// Selects the agents of a tree that get a line when there are fewer lines than agents. Pure. Ended
// agents are folded first, then paused ones. Running agents are shown as long as there is room.

import type { SettledStatus } from "../index.ts";
import type { AgentFold } from "../read-model/agent-fold.ts";
import { SETTLED_STATUSES, type AgentEnd } from "../read-model/agent-end.ts";
import { addAmounts } from "../read-model/amounts.ts";
import type { Spent } from "../read-model/viewer-data.ts";

/** An agent as drawn: the common fields of a fold and of a result. */
export interface ShownAgent extends Pick<AgentFold, ShownField> {
  /** How it settled. `undefined` while it runs. */
  readonly end: AgentEnd | undefined;
  readonly children: readonly ShownAgent[];
}

type ShownField =
  | "agentPath"
  | "role"
  | "task"
  | "executionStartedAtMs"
  | "activity"
  | "retry"
  | "openCalls"
  | "step"
  | "own"
  | "subtree"
  | "refusalCount";

/** Line of the tree. `branch` is the drawing before the name. */
export type TreeRow =
  | {
      readonly kind: "agent";
      readonly branch: string;
      readonly agent: ShownAgent;
      readonly hidden: number;
    }
  | { readonly kind: "group"; readonly branch: string; readonly group: SettledGroup }
  | { readonly kind: "rest"; readonly branch: string; readonly counts: AgentCounts };

/** Number of agents in a tree, and how many are running or paused. */
export interface AgentCounts {
  readonly agents: number;
  readonly running: number;
  readonly paused: number;
}

/** Settled siblings with the same role and status. */
interface SettledGroup {
  readonly role: string;
  readonly status: SettledStatus;
  /** Number of siblings, without their descendants. */
  readonly agents: number;
  readonly hidden: number;
  readonly subtree: Spent;
}

/**
 * Returns at most `maxRows` lines for the tree of `root`. Reads each agent once, and builds only
 * the returned lines.
 */
export function buildTreeRows(root: ShownAgent, maxRows: number): readonly TreeRow[] {
  for (const fold of FOLDS) {
    const rows = takeRows(maxRows + 1, drawTreeRows({ agent: root, branch: "", below: "" }, fold));
    if (rows.length <= maxRows) return rows;
  }
  return fitRows(root, maxRows);
}

/** Counts the agents of several trees. */
export function countAgents(roots: readonly ShownAgent[]): AgentCounts {
  const counts = { agents: 0, running: 0, paused: 0 };
  const count = (agent: ShownAgent): void => {
    const rest = findSettledStatus(agent);
    counts.agents += 1;
    if (rest === undefined) counts.running += 1;
    if (rest === "paused") counts.paused += 1;
    agent.children.forEach(count);
  };
  roots.forEach(count);
  return counts;
}

/** Returns how an agent settled. `undefined` while it runs. */
export function findSettledStatus({ activity }: ShownAgent): SettledStatus | undefined {
  return SETTLED_STATUSES.find((status) => status === activity);
}

interface FoldRule {
  /** Whether an ended agent hides its descendants. */
  readonly hidesBelowEnded: boolean;
  /** Whether settled siblings of one role and status share a line. */
  readonly mergesSettled: boolean;
  /** Returns true if an agent with this status gets no line. */
  readonly drops: (rest: SettledStatus | undefined) => boolean;
}

const FOLDS: readonly FoldRule[] = [
  { hidesBelowEnded: false, mergesSettled: false, drops: () => false },
  { hidesBelowEnded: true, mergesSettled: false, drops: () => false },
  { hidesBelowEnded: true, mergesSettled: true, drops: () => false },
];
const ONE_A_LINE = { hidesBelowEnded: true, mergesSettled: false };
const RUNNING_ONLY: FoldRule = { ...ONE_A_LINE, drops: (rest) => rest !== undefined };
const PAUSED_ONLY: FoldRule = { ...ONE_A_LINE, drops: isEnded };

interface DrawnPlace {
  readonly agent: ShownAgent;
  /** Drawn before the agent's name. */
  readonly branch: string;
  /** Drawn before the branches of its children. */
  readonly below: string;
}

function* drawTreeRows(
  { agent, branch, below }: DrawnPlace,
  fold: FoldRule,
): Generator<TreeRow, void> {
  const rest = findSettledStatus(agent);
  const isFolded = fold.hidesBelowEnded && isEnded(rest);
  yield { kind: "agent", branch, agent, hidden: isFolded ? countAgents(agent.children).agents : 0 };
  if (isFolded) return;
  const twigs = foldChildren(agent.children, fold);
  for (const [index, twig] of twigs.entries()) {
    const isLast = index === twigs.length - 1;
    const fork = below + (isLast ? "└─ " : "├─ ");
    const place = { branch: fork, below: below + (isLast ? "   " : "│  ") };
    if ("children" in twig) yield* drawTreeRows({ ...place, agent: twig }, fold);
    else yield { kind: "group", branch: fork, group: twig };
  }
}

function takeRows(count: number, rows: Iterable<TreeRow>): readonly TreeRow[] {
  const taken: TreeRow[] = [];
  for (const row of rows) {
    taken.push(row);
    if (taken.length >= count) break;
  }
  return taken;
}

function foldChildren(
  children: readonly ShownAgent[],
  fold: FoldRule,
): readonly (ShownAgent | SettledGroup)[] {
  const shown = children.filter((child) => !fold.drops(findSettledStatus(child)));
  if (!fold.mergesSettled) return shown;
  const alike = Map.groupBy(shown, (agent) => {
    const rest = findSettledStatus(agent);
    return rest === undefined ? "" : `${rest} ${agent.role}`;
  });
  return [...alike.values()].flatMap(mergeSettled);
}

function isEnded(rest: SettledStatus | undefined): boolean {
  return rest !== undefined && rest !== "paused";
}

/**
 * Returns one group in place of several settled siblings. Running agents and single ones are
 * returned unchanged.
 */
function mergeSettled(agents: readonly ShownAgent[]): readonly (ShownAgent | SettledGroup)[] {
  const [first] = agents;
  const status = first === undefined ? undefined : findSettledStatus(first);
  if (first === undefined || status === undefined || agents.length === 1) return agents;
  const hidden = countAgents(agents.flatMap(({ children }) => children)).agents;
  const subtree = sumSpent(agents.map((agent) => agent.subtree));
  return [{ role: first.role, status, agents: agents.length, hidden, subtree }];
}

function sumSpent(amounts: readonly Spent[]): Spent {
  const sum = { totalTokens: 0, costUsd: 0, unpricedCalls: 0 };
  for (const { totalTokens, costUsd, unpricedCalls } of amounts) {
    sum.totalTokens += totalTokens;
    sum.costUsd = addAmounts("costUsd", sum.costUsd, costUsd ?? 0);
    sum.unpricedCalls += unpricedCalls;
  }
  return sum;
}

/**
 * Returns the running agents that fit, or the paused ones if none runs, and one line for all
 * others.
 */
function fitRows(root: ShownAgent, maxRows: number): readonly TreeRow[] {
  const place = { agent: root, branch: "", below: "" };
  const counts = countAgents([root]);
  const fold = counts.running > 0 ? RUNNING_ONLY : PAUSED_ONLY;
  const rows = takeRows(Math.max(1, maxRows - 1), drawTreeRows(place, fold));
  if (maxRows <= 1) return rows;
  const shown = rows.flatMap((row) => (row.kind === "agent" ? [findSettledStatus(row.agent)] : []));
  const hidden = {
    agents: counts.agents - rows.length,
    running: counts.running - shown.filter((status) => status === undefined).length,
    paused: counts.paused - shown.filter((status) => status === "paused").length,
  };
  return [...rows, { kind: "rest", branch: "└─ ", counts: hidden }];
}
