// Limits on the growth of a tree. Every started subagent counts for the whole run, including ended
// ones. Refused ones do not count.

import { checkCount, checkKeys } from "../kernel/argument-checks.ts";
import { adviseOnOption } from "../kernel/option-names.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { Tightening } from "../protocol/context-manifest.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";

/**
 * Limits on the size of a tree of agents. Subagents that have ended count, refused ones do not. 0
 * allows none.
 *
 * @example
 * ```ts
 * const limits: Partial<SubagentLimits> = { maxDepth: 2, maxTotalSubagents: 20 };
 * ```
 */
export interface SubagentLimits {
  /**
   * Depth of the deepest subagent. The root is at depth 0.
   *
   * @default 3
   */
  readonly maxDepth: number;
  /**
   * Number of subagents that one agent may start.
   *
   * @default 5
   */
  readonly maxBreadthPerParent: number;
  /**
   * Number of subagents in the whole tree, without the root.
   *
   * @default 10
   */
  readonly maxTotalSubagents: number;
}

/**
 * The limits of a run that sets none: `maxDepth` 3, `maxBreadthPerParent` 5, `maxTotalSubagents`
 * 10.
 *
 * @example
 * ```ts
 * const breadth = DEFAULT_SUBAGENT_LIMITS.maxBreadthPerParent * 2;
 * const orchestrator = new Orchestrator({ limits: { maxBreadthPerParent: breadth } });
 * ```
 */
export const DEFAULT_SUBAGENT_LIMITS: SubagentLimits = Object.freeze({
  maxDepth: 3,
  maxBreadthPerParent: 5,
  maxTotalSubagents: 10,
});

/** Throws `invalid_argument` if a name is unknown, or a limit is not a whole number from 0 up. */
export function checkLimits(field: string, limits: Partial<SubagentLimits>): void {
  checkKeys(field, limits, Object.keys(DEFAULT_SUBAGENT_LIMITS), adviseOnOption);
  for (const [name, limit] of Object.entries(limits))
    if (limit !== undefined) checkCount(`${field}.${name}`, limit);
}

/** Returns the given limits merged over the defaults. Throws like `checkLimits`. */
export function resolveSubagentLimits(
  field: string,
  limits: Partial<SubagentLimits>,
): SubagentLimits {
  checkLimits(field, limits);
  return Object.freeze({ ...DEFAULT_SUBAGENT_LIMITS, ...omitUndefined(limits) });
}

/**
 * The number of subagents that were started below `who`, an agent or the run, at any depth, and the
 * maximum.
 */
export interface SubagentTotal {
  readonly who: string;
  readonly maximum: number;
  readonly started: number;
}

/** The size of a tree when a subagent is requested. */
export interface TreeFacts {
  readonly parentDepth: number;
  /** Subagents that the parent has started. */
  readonly childCount: number;
  readonly totals: readonly SubagentTotal[];
  /**
   * Number of further subagents that count as started by the parent.
   *
   * @default 0
   */
  readonly ahead?: number;
}

/** Returns the refusal if one more subagent would exceed a limit. `undefined` if it may start. */
export function checkSubagentLimits(
  limits: ShapeLimits,
  { parentDepth, childCount, totals, ahead = 0 }: TreeFacts,
): SpawnRefusal | undefined {
  if (parentDepth >= limits.maxDepth) {
    const message = `Not started: subagents may be at depth ${limits.maxDepth} at most and you are at depth ${parentDepth}. Do this part yourself with your own tools.`;
    return { code: "depth_limit", message, maximum: limits.maxDepth, current: parentDepth };
  }
  const breadth = countWithinMaximum(limits.maxBreadthPerParent, childCount, ahead);
  if (breadth >= limits.maxBreadthPerParent) {
    const maximum = limits.maxBreadthPerParent;
    const message = `Not started: you have started ${breadth} of at most ${maximum} subagents. Work with the results you have, or do this part yourself.`;
    return { code: "breadth_limit", message, maximum, current: breadth };
  }
  for (const { who, maximum, started } of totals) {
    const current = countWithinMaximum(maximum, started, ahead);
    if (current < maximum) continue;
    const message = `Not started: ${who} has started ${current} of at most ${maximum} subagents. Do this part yourself, or leave it out and say so.`;
    return { code: "total_limit", message, maximum, current };
  }
  return undefined;
}

/** Returns the number of started subagents, including those ahead for which there is room. */
function countWithinMaximum(maximum: number, started: number, ahead: number): number {
  return Math.max(started, Math.min(started + ahead, maximum));
}

/**
 * Returns the limits of depth and breadth below an agent: those from above, tightened by its own.
 */
export function tightenShape(above: ShapeLimits, own: Partial<SubagentLimits>): ShapeLimits {
  return {
    maxDepth: Math.min(above.maxDepth, own.maxDepth ?? Infinity),
    maxBreadthPerParent: Math.min(above.maxBreadthPerParent, own.maxBreadthPerParent ?? Infinity),
  };
}

const LIMIT_NAMES = ["maxDepth", "maxBreadthPerParent", "maxTotalSubagents"] as const;

/**
 * Returns the limits of a role that exceed those from above. `source` is the agent under which it
 * is started.
 */
export function listTightenedLimits(
  above: SubagentLimits,
  limits: Partial<SubagentLimits>,
  source: string,
): readonly Tightening[] {
  const tightened: Tightening[] = [];
  for (const name of LIMIT_NAMES) {
    const requested = limits[name];
    const granted = above[name];
    if (requested !== undefined && requested > granted)
      tightened.push({ field: `limits.${name}`, requested, granted, source });
  }
  return tightened;
}

/** The limits of depth and breadth. */
export type ShapeLimits = Pick<SubagentLimits, "maxDepth" | "maxBreadthPerParent">;
