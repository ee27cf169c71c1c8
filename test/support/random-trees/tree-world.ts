// Worlds for the tree property: random roles, policies, budgets, limits, scripts, faults and
// moments, as plain values that fast-check can shrink and print. tree-fixture.ts plays them;
// tree-laws.ts contains the laws that must hold afterwards.

import type { Budget } from "../../../src/policies/budget.ts";
import type { BudgetShare } from "../../../src/policies/budget-share.ts";
import type { ParentEndPolicy, FailurePolicy } from "../../../src/policies/delegation-policy.ts";
import type { SubagentLimits } from "../../../src/policies/subagent-limits.ts";

/** The behaviour of a tool of the fixture. `never`: it neither settles nor obeys its signal. */
export const TOOL_KINDS = [
  "quick",
  "slow",
  "throws",
  "unshowable",
  "cyclic",
  "listens",
  "never",
  "asks",
  "long",
  "queues",
] as const;

export type ToolKind = (typeof TOOL_KINDS)[number];

/**
 * Which of the subagents that its model has read about, the last first; with none, an unknown one.
 */
export type Which = number;

export type WorldCall =
  | {
      readonly type: "spawn";
      readonly role: number;
      readonly isBackground: boolean;
      /** The same task for all delegations with this flag; otherwise each has its own task. */
      readonly isSame: boolean;
      readonly includeResultsFrom: Which | undefined;
    }
  /**
   * A delegation of the user's own, which starts two at once and returns the outcome of the first.
   */
  | { readonly type: "pair"; readonly role: number; readonly denied: ToolKind | undefined }
  | { readonly type: "continue"; readonly child: Which; readonly isBackground: boolean }
  | { readonly type: "list" }
  | {
      readonly type: "wait";
      readonly child: Which | undefined;
      readonly timeoutSeconds: number | undefined;
    }
  | { readonly type: "message"; readonly child: Which }
  | { readonly type: "cancel"; readonly child: Which }
  | { readonly type: "draft"; readonly steps: number }
  | { readonly type: "tool"; readonly kind: ToolKind }
  | { readonly type: "external" }
  | { readonly type: "finish"; readonly fits: boolean }
  | { readonly type: "unknown role" | "unknown tool" | "broken JSON" | "misfit" };

/** The usage that a provider reports. */
export type Report = "exact" | "none" | "too much" | "nonsense";

/** The reaction of a model to a request. */
export type Act =
  | {
      readonly type: "says";
      readonly report: Report;
      readonly ticks: number;
      readonly cutOff: boolean;
    }
  | {
      readonly type: "calls";
      readonly calls: readonly WorldCall[];
      readonly report: Report;
      readonly ticks: number;
    }
  | {
      readonly type: "fails";
      readonly isRetryable: boolean;
      readonly ticks: number;
      /** Output tokens received when the call failed; `undefined` if it never began. */
      readonly lost: number | undefined;
    }
  | { readonly type: "throws"; readonly what: number }
  | { readonly type: "hangs"; readonly obeysSignal: boolean }
  | { readonly type: "empty" | "no reply" };

/** A hook of a role: its effect at its `nth` call; it has no other effect. */
export interface WorldHook {
  readonly point: HookPoint;
  readonly nth: number;
  readonly does: "throws" | "rejects" | "patches";
}

export const HOOK_POINT_NAMES = [
  "userInput",
  "beforeModel",
  "beforeTool",
  "afterTool",
  "subagentStart",
  "stop",
  "subagentStop",
  "wrapModelCall",
  "wrapToolCall",
  "processStep",
  "observe",
] as const;
export type HookPoint = (typeof HOOK_POINT_NAMES)[number];

/** Guards of a role: their decision about a tool, everywhere below it. */
export interface WorldGuard {
  readonly tool: ToolKind;
  readonly says: "deny" | "ask" | "throws";
}

export interface WorldRole {
  /** The replies of its models, whichever agent calls them. */
  readonly script: readonly Act[];
  readonly subagents: readonly boolean[];
  readonly budget: Budget;
  readonly limits: Partial<SubagentLimits>;
  readonly maxOutputTokens: number;
  readonly hasOutput: boolean;
  readonly counting: "counts" | "cannot count" | "throws" | "nonsense";
  readonly inherits: boolean;
  readonly windowSize: number;
  readonly tells: boolean;
  readonly deniedTools: readonly ToolKind[];
  readonly allowedTools: readonly ToolKind[] | undefined;
  readonly guards: readonly WorldGuard[];
  readonly hooks: readonly WorldHook[];
  readonly background: boolean;
  readonly parentEndPolicy: ParentEndPolicy;
  readonly failurePolicy: FailurePolicy;
  readonly share: BudgetShare;
  readonly reserve: Budget;
  readonly maxIdentical: number | "unlimited";
  readonly hasDynamicRoles: boolean;
  readonly wrapsUp: boolean;
  readonly compacts: boolean;
}

/** An event from outside. */
export interface Moment {
  /**
   * After this many turns of the event loop since the moment before, or exactly at the event with
   * this number.
   */
  readonly at: { readonly ticks: number } | { readonly event: number };
  readonly act:
    | { readonly type: "advance"; readonly byMs: number }
    | { readonly type: "cancel" | "request stop" | "pause" }
    | { readonly type: "cancel agent" | "steer"; readonly which: number }
    | { readonly type: "grant"; readonly which: number; readonly amount: number };
}

/** How questions get answers. */
export interface WorldApprover {
  /** `nobody`: the caller that resumes the run answers. */
  readonly type: "nobody" | "approves" | "denies" | "throws" | "slow" | "never";
  readonly answerTimeoutMs: number | undefined;
  readonly unansweredPolicy: "pause" | "deny";
}

export interface World {
  /** The first is the root's. */
  readonly roles: readonly WorldRole[];
  readonly limits: SubagentLimits;
  readonly budget: Budget;
  readonly concurrency: { readonly modelCalls: number; readonly toolCalls: number };
  readonly maxAttempts: number;
  /**
   * The id of a subagent or of one of its executions that fails, counted from the first. It cannot
   * be created, or, for an agent, equals that of the root, whose account is open already.
   */
  readonly failingId: { readonly count: number; readonly how: "throws" | "twin" } | undefined;
  readonly sink: "none" | "throws" | "fails later";
  readonly tracing: {
    readonly failsAt: "nothing" | "place" | "within" | "within, late";
    readonly call: number;
  };
  readonly approver: WorldApprover;
  readonly moments: readonly Moment[];
  /** Applied in turn to the questions that a pause leaves; afterwards all are approved. */
  readonly answers: readonly boolean[];
  readonly pauseMs: number;
  /**
   * The grants whenever a paused run continues: to which of its agents, on which of its limited
   * axes.
   */
  readonly grants: readonly { readonly which: number; readonly amount: number }[];
  /** How often a grant continues a run that a limit stopped. */
  readonly revivals: number;
  /** The step of the root at which the ended run is forked. */
  readonly forkAt: number | undefined;
}

export function nameOf(role: number): string {
  return `role${role}`;
}

/** Returns the last segment of a path. */
export function childNameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** Returns the role of an agent, with which its path ends; `undefined` if a model drafted it. */
export function roleAt(world: World, path: string): WorldRole | undefined {
  const number = /^role(\d+)/.exec(childNameOf(path))?.[1];
  return number === undefined ? undefined : world.roles[Number(number)];
}
