// Computes the lines of the tree of a run. Each agent has a line, except that siblings with the
// same role and end share a line until it is opened. Filtered and folded agents are counted. Pure.

import type { AgentRow, RefusalRow } from "../../src/read-model/viewer-data.ts";
import { AT, hasEnded, getDisplayStatus, type DisplayStatus } from "../data/agent-row.ts";
import type { RunFilterName } from "../app/route.ts";

interface LinePlace {
  readonly key: string;
  readonly depth: number;
  /** Position among its siblings, from 1, and their number. */
  readonly position: number;
  readonly siblings: number;
}

export interface AgentLine extends LinePlace {
  readonly kind: "agent";
  readonly index: number;
  readonly fold: "open" | "closed" | "leaf";
  /** True for an ancestor of a match that does not match itself. */
  readonly isDimmed: boolean;
  readonly below: number;
}

export interface GroupLine extends LinePlace {
  readonly kind: "group";
  readonly parent: number;
  readonly role: string;
  readonly status: DisplayStatus;
  readonly members: readonly number[];
  readonly isOpen: boolean;
  readonly below: number;
  readonly failedBelow: number;
}

export interface RefusalLine extends LinePlace {
  readonly kind: "refusal";
  readonly parent: number;
  readonly role: string;
  readonly code: string;
  readonly message: string;
  readonly count: number;
}

export type TreeLine = AgentLine | GroupLine | RefusalLine;

export interface TreeFilter {
  readonly words: string;
  readonly show: RunFilterName;
}

export interface Tree {
  readonly agents: readonly AgentRow[];
  childrenOf(index: number): readonly number[];
  readonly refusals: readonly RefusalRow[];
}

export interface Listing {
  readonly lines: readonly TreeLine[];
  readonly places: ReadonlyMap<string, number>;
  /** Number of agents that match the filter. Without a filter, of all agents. */
  readonly matches: number;
  readonly folded: number;
}

/** Lines opened (true) or closed (false) by hand, by their keys. */
export type Folds = ReadonlyMap<string, boolean>;

/**
 * Minimum number of siblings that share a line. Failed siblings are shown separately up to a higher
 * number.
 */
export const MIN_GROUP = 8;
const MIN_FAILED_GROUP = 20;

export function listLines(tree: Tree, filter: TreeFilter, folds: Folds): Listing {
  const counts = countBelow(tree.agents);
  const fits = markFitting(tree.agents, filter);
  const refusals = Map.groupBy(tree.refusals, ({ agent }) => agent);
  const walk = new Walk({ tree, folds, counts, fits, refusals });
  walk.addSiblings([0].slice(0, tree.agents.length), { depth: 1, parent: -1 });
  const places = new Map(walk.lines.map(({ key }, at) => [key, at]));
  return {
    lines: walk.lines,
    places,
    matches: fits?.matches ?? tree.agents.length,
    folded: walk.folded,
  };
}

export function listKeysAbove(tree: Tree, index: number): readonly string[] {
  const keys: string[] = [];
  let row = tree.agents[index];
  while (row !== undefined) {
    const parent = tree.agents[row[AT.parent]];
    if (parent !== undefined)
      keys.push(formatGroupKey(parent[AT.id], getDisplayStatus(row), row[AT.role]), parent[AT.id]);
    row = parent;
  }
  return keys;
}

function formatGroupKey(parentId: string, status: DisplayStatus, role: string): string {
  return `${parentId} ${status} ${role}`;
}

interface Counts {
  readonly below: Int32Array;
  readonly failedBelow: Int32Array;
}

/** Counts descendants. Parents precede their children, so one pass from the end adds up. */
function countBelow(agents: readonly AgentRow[]): Counts {
  const below = new Int32Array(agents.length);
  const failedBelow = new Int32Array(agents.length);
  for (let index = agents.length - 1; index > 0; index -= 1) {
    const row = agents[index];
    const parent = row?.[AT.parent] ?? -1;
    if (row === undefined || parent < 0) continue;
    below[parent] = (below[parent] ?? 0) + (below[index] ?? 0) + 1;
    const failed = getDisplayStatus(row) === "failed" ? 1 : 0;
    failedBelow[parent] = (failedBelow[parent] ?? 0) + (failedBelow[index] ?? 0) + failed;
  }
  return { below, failedBelow };
}

interface Fits {
  readonly matches: number;
  /** 2 for a match, 1 for an ancestor of a match, 0 for others. */
  readonly marks: Uint8Array;
}

function markFitting(agents: readonly AgentRow[], filter: TreeFilter): Fits | undefined {
  const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0 && filter.show === "all") return undefined;
  const marks = new Uint8Array(agents.length);
  let matches = 0;
  for (let index = agents.length - 1; index >= 0; index -= 1) {
    const row = agents[index];
    if (row === undefined) continue;
    if (hasDisplayStatus(row, filter.show) && hasWords(row, words)) {
      marks[index] = 2;
      matches += 1;
    }
    const parent = row[AT.parent];
    if (marks[index] !== 0 && parent >= 0 && marks[parent] === 0) marks[parent] = 1;
  }
  return { matches, marks };
}

function hasDisplayStatus(row: AgentRow, show: RunFilterName): boolean {
  const status = getDisplayStatus(row);
  switch (show) {
    case "all":
      return true;
    case "working":
      return status === "working";
    case "budget":
      return status === "waiting";
    case "asking":
      return status === "asking" || status === "paused";
    case "failed":
      return status === "failed" || row[AT.toolErrors] > 0 || row[AT.refusals] > 0;
    case "ended":
      return hasEnded(status);
  }
}

function hasWords(row: AgentRow, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const text = searched.get(row) ?? cacheSearchText(row);
  return words.every((word) => text.includes(word));
}

/** Cache of search texts. Rows are immutable, and each typed key searches thousands of rows. */
const searched = new WeakMap<AgentRow, string>();

function cacheSearchText(row: AgentRow): string {
  const { name, role, note, task, id } = AT;
  const text = [row[name], row[role], row[note], row[task], row[id]].join(" ").toLowerCase();
  searched.set(row, text);
  return text;
}

interface WalkFacts {
  readonly tree: Tree;
  readonly folds: Folds;
  readonly counts: Counts;
  readonly fits: Fits | undefined;
  readonly refusals: ReadonlyMap<number, readonly RefusalRow[]>;
}

type TreeBranch =
  | { readonly kind: "agent"; readonly index: number }
  | {
      readonly kind: "group";
      readonly key: string;
      readonly members: readonly number[];
      readonly first: AgentRow;
    };

/** Builds the lines from the root down. Owns the lines. */
class Walk {
  readonly lines: TreeLine[] = [];
  folded = 0;
  readonly #facts: WalkFacts;

  constructor(facts: WalkFacts) {
    this.#facts = facts;
  }

  addSiblings(
    indexes: readonly number[],
    at: { readonly depth: number; readonly parent: number },
  ): void {
    const { fits, refusals } = this.#facts;
    const matching =
      fits === undefined ? indexes : indexes.filter((index) => fits.marks[index] !== 0);
    const branches = this.#groupBranches(matching, at.parent);
    const refused = fits === undefined ? groupRefusals(refusals.get(at.parent) ?? []) : [];
    const siblings = branches.length + refused.length;
    for (const [place, branch] of branches.entries()) {
      const where = { depth: at.depth, position: place + 1, siblings };
      if (branch.kind === "agent") this.#addAgent(branch.index, where);
      else this.#addGroup(branch, at.parent, where);
    }
    for (const [place, alike] of refused.entries()) {
      const where = { depth: at.depth, position: branches.length + place + 1, siblings };
      const key = `${at.parent} refused ${alike.code} ${alike.role}`;
      this.lines.push({ kind: "refusal", key, parent: at.parent, ...where, ...alike });
    }
  }

  #groupBranches(indexes: readonly number[], parent: number): readonly TreeBranch[] {
    const { tree, fits } = this.#facts;
    if (fits !== undefined || indexes.length < MIN_GROUP) return indexes.map(toAgentBranch);
    const parentId = tree.agents[parent]?.[AT.id] ?? "";
    const getKey = (index: number): string => {
      const row = tree.agents[index];
      if (row === undefined || !hasEnded(getDisplayStatus(row))) return "";
      return formatGroupKey(parentId, getDisplayStatus(row), row[AT.role]);
    };
    const alike = Map.groupBy(indexes, getKey);
    return indexes.flatMap((index): readonly TreeBranch[] => {
      const first = tree.agents[index];
      if (first === undefined) return [];
      const key = getKey(index);
      const members = alike.get(key) ?? [];
      const least = getDisplayStatus(first) === "failed" ? MIN_FAILED_GROUP : MIN_GROUP;
      if (key === "" || members.length < least) return [toAgentBranch(index)];
      return index === members[0] ? [{ kind: "group", key, members, first }] : [];
    });
  }

  #addAgent(index: number, where: Omit<LinePlace, "key">): void {
    const { tree, folds, counts, fits } = this.#facts;
    const row = tree.agents[index];
    if (row === undefined) return;
    const key = row[AT.id];
    const children = tree.childrenOf(index);
    const hasMore =
      fits === undefined
        ? children.length > 0 || this.#facts.refusals.has(index)
        : children.some((child) => fits.marks[child] !== 0);
    const isOpen = fits !== undefined || (folds.get(key) ?? true);
    const below = counts.below[index] ?? 0;
    const state = isOpen ? "open" : "closed";
    const fold = hasMore ? state : "leaf";
    this.lines.push({
      kind: "agent",
      key,
      index,
      ...where,
      fold,
      below,
      isDimmed: fits?.marks[index] === 1,
    });
    if (!hasMore) return;
    if (isOpen) this.addSiblings(children, { depth: where.depth + 1, parent: index });
    else this.folded += below;
  }

  #addGroup(
    branch: TreeBranch & { kind: "group" },
    parent: number,
    where: Omit<LinePlace, "key">,
  ): void {
    const { folds, counts } = this.#facts;
    const { key, members, first } = branch;
    const isOpen = folds.get(key) ?? false;
    const sum = (column: Int32Array): number =>
      members.reduce((all, index) => all + (column[index] ?? 0), 0);
    const below = sum(counts.below);
    const facts = {
      role: first[AT.role],
      status: getDisplayStatus(first),
      below,
      failedBelow: sum(counts.failedBelow),
    };
    this.lines.push({ kind: "group", key, parent, members, isOpen, ...facts, ...where });
    if (!isOpen) this.folded += members.length + below;
    else
      for (const [place, index] of members.entries())
        this.#addAgent(index, {
          depth: where.depth + 1,
          position: place + 1,
          siblings: members.length,
        });
  }
}

function toAgentBranch(index: number): TreeBranch {
  return { kind: "agent", index };
}

function groupRefusals(refusals: readonly RefusalRow[]) {
  const alike = Map.groupBy(refusals, ({ code, role }) => `${code} ${role}`);
  return [...alike.values()].flatMap((group) => {
    const last = group.at(-1);
    if (last === undefined) return [];
    return [{ code: last.code, role: last.role, message: last.message, count: group.length }];
  });
}
