// How far a tree may grow. Counts every started subagent for the whole run, finished ones included, refused ones not (C22).

import { checkCount, checkKeys } from "../kernel/check.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";

/** Bounds on the shape of a tree. Zero means zero. */
export interface SubagentLimits {
  /** Depth of the deepest subagent; the root is at 0. Default 3. */
  readonly maxDepth: number;
  /** Subagents that one agent may start. Default 5. */
  readonly maxBreadthPerParent: number;
  /** Subagents in the whole tree, the root not counted. Default 10. */
  readonly maxTotalSubagents: number;
}

/** 3 deep, 5 per parent, 10 in all. */
export const DEFAULT_SUBAGENT_LIMITS: SubagentLimits = Object.freeze({
  maxDepth: 3,
  maxBreadthPerParent: 5,
  maxTotalSubagents: 10,
});

/** The given limits over the defaults. Throws `invalid_option` for an unknown name or a value that is no whole number from 0 up. */
export function subagentLimits(field: string, given: Partial<SubagentLimits>): SubagentLimits {
  checkKeys(field, given, Object.keys(DEFAULT_SUBAGENT_LIMITS));
  for (const [name, limit] of Object.entries(given))
    if (limit !== undefined) checkCount(`${field}.${name}`, limit);
  return Object.freeze({
    maxDepth: given.maxDepth ?? DEFAULT_SUBAGENT_LIMITS.maxDepth,
    maxBreadthPerParent: given.maxBreadthPerParent ?? DEFAULT_SUBAGENT_LIMITS.maxBreadthPerParent,
    maxTotalSubagents: given.maxTotalSubagents ?? DEFAULT_SUBAGENT_LIMITS.maxTotalSubagents,
  });
}

/** Where a tree stands when a subagent is asked for. */
export interface TreeFacts {
  readonly parentDepth: number;
  /** Subagents that the parent has started. */
  readonly breadth: number;
  /** Subagents that the tree has started. */
  readonly total: number;
}

/** The refusal if one more subagent would break a limit; undefined if it may start (T3). */
export function checkSubagentLimits(
  limits: SubagentLimits,
  facts: TreeFacts,
): SpawnRefusal | undefined {
  if (facts.parentDepth >= limits.maxDepth) {
    return {
      code: "depth_limit",
      message: `Not started: subagents may be at depth ${limits.maxDepth} at most and you are at depth ${facts.parentDepth}. Do this part yourself with your own tools.`,
      maximum: limits.maxDepth,
      current: facts.parentDepth,
    };
  }
  if (facts.breadth >= limits.maxBreadthPerParent) {
    return {
      code: "breadth_limit",
      message: `Not started: you have started ${facts.breadth} of at most ${limits.maxBreadthPerParent} subagents. Work with the results you have, or do this part yourself.`,
      maximum: limits.maxBreadthPerParent,
      current: facts.breadth,
    };
  }
  if (facts.total >= limits.maxTotalSubagents) {
    return {
      code: "total_limit",
      message: `Not started: this run has started ${facts.total} of at most ${limits.maxTotalSubagents} subagents. Do this part yourself, or leave it out and say so.`,
      maximum: limits.maxTotalSubagents,
      current: facts.total,
    };
  }
  return undefined;
}
