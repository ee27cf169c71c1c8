// What goes with a run when it is resumed, recovered or forked.

import {
  checkBoolean,
  checkCount,
  checkKeys,
  checkList,
  checkMethods,
  checkText,
  mismatch,
} from "../../kernel/check.ts";
import type { JsonObject } from "../../kernel/json.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { checkedContent, type MessageContent } from "../../protocol/message-content.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import { checkBudget, type Budget } from "../../policies/budget.ts";
import { checkGrant } from "../budget/ledger-grant.ts";
import type { StreamPiece } from "../../protocol/stream-piece.ts";
import type { Session } from "../sessions/session.ts";
import { checkRunOptions } from "./start-options.ts";

/** What goes with a resumption. */
export interface ResumeOptions<out Role extends AgentRole<unknown, never> = AgentRole> {
  /** The root's role, if it is not among the orchestrator's `roles`, or to have its type of result. */
  readonly role?: Role;
  /** More budget, for a run that was paused, or that was stopped by a limit: that one continues only with a grant (X7). */
  readonly grants?: readonly ResumeGrant[];
  /** As in `StartOptions`. */
  readonly onPiece?: (piece: StreamPiece) => void;
  /** As in `StartOptions`. */
  readonly signal?: AbortSignal;
  /** The session on which the run was started. Default: it is read from the store of the orchestrator when the run has ended. */
  readonly session?: Session;
  /** As in `StartOptions`: nothing of it is kept with the run. */
  readonly context?: unknown;
}

/** What goes with a recovery. */
export interface RecoverOptions<
  out Role extends AgentRole<unknown, never> = AgentRole,
> extends ResumeOptions<Role> {
  /** Answers to questions that were open when the run stopped. For one that was paused: to all of them. */
  readonly answers?: readonly Answer[];
  /** Take the run over though another process seems to own it: that process finds out at its next record. Default false. */
  readonly takeOver?: boolean;
}

/** More budget for an agent of a run at rest. */
export interface ResumeGrant {
  /** What is added to the limits that the agent has. */
  readonly budget: Budget;
  /** Who grants it, in your words; on record in the event and on the account. */
  readonly by: string;
  /** Default: the root. */
  readonly agentPath?: string;
}

/** What goes with a fork. */
export interface ForkOptions<out Role extends AgentRole<unknown, never> = AgentRole> {
  /** The step of the root after which the fork goes its own way: from 1; 0 for before the first. Default: its last completed one. */
  readonly atStep?: number;
  /** The next message to the root. Default: none; it continues from where it was. */
  readonly message?: MessageContent;
  /** Over the whole fork, on top of the limits that the root had. */
  readonly budget?: Budget;
  /**
   * The root's role. It may differ from the one before in all but its name, also if the orchestrator's `roles` have another one of that
   * name: this one holds in the fork. Default: the one among those `roles`.
   */
  readonly role?: Role;
  /** As in `StartOptions`. */
  readonly onPiece?: (piece: StreamPiece) => void;
  /** As in `StartOptions`. */
  readonly signal?: AbortSignal;
  /** As in `StartOptions`: nothing of it is kept with the run. */
  readonly context?: unknown;
}

/** What goes with the recovery of all lost runs. */
export interface RecoverAllOptions<out Context = unknown> {
  /**
   * Gives the context of a run that is about to be recovered, from what is kept of the run: its metadata, say. If it throws or rejects,
   * the run is not recovered: it stays as it was, and is among those that `failed`. Default: no run has a context.
   */
  readonly context?: (run: LostRun) => Context | Promise<Context>;
}

/** A run whose process has died, as it was started. */
export interface LostRun {
  readonly runId: RunId;
  /** The name of the root's role. */
  readonly role: string;
  /** The text of the task with which it was started. */
  readonly task: string;
  /** The metadata with which it was started. */
  readonly metadata: JsonObject;
}

const RESUME_FIELDS = ["role", "grants", "onPiece", "signal", "session", "context"];
const RECOVER_FIELDS = [...RESUME_FIELDS, "answers", "takeOver"];
const FORK_FIELDS = ["atStep", "message", "budget", "role", "onPiece", "signal", "context"];

/** Throws `invalid_option`, or `invalid_definition` for what is no role. */
export function checkResumeOptions(options: ResumeOptions): void {
  checkKeys("resume options", options, RESUME_FIELDS);
  checkContinueOptions("resume options", options);
}

/** Throws `invalid_option`, or `invalid_definition` for what is no role. */
export function checkRecoverOptions(options: RecoverOptions): void {
  const field = "recover options";
  checkKeys(field, options, RECOVER_FIELDS);
  const { takeOver } = options;
  if (takeOver !== undefined)
    checkBoolean(`${field}.takeOver`, takeOver, "Leave it out for false.");
  checkContinueOptions(field, options);
}

/** Throws `invalid_option`. */
export function checkRecoverAllOptions(options: RecoverAllOptions): void {
  const field = "recoverAll options";
  checkKeys(field, options, ["context"]);
  if (options.context !== undefined) checkMethods(field, options, ["context"]);
}

function checkContinueOptions(field: string, options: ResumeOptions): void {
  const { grants = [] } = options;
  checkList(`${field}.grants`, grants);
  for (const [index, grant] of grants.entries()) {
    const name = `${field}.grants[${index}]`;
    checkKeys(name, grant, ["budget", "by", "agentPath"]);
    checkGrant(name, grant);
    if (grant.agentPath !== undefined) checkText(`${name}.agentPath`, grant.agentPath);
  }
  checkRunOptions(field, options);
}

/** Throws `invalid_option`, or `invalid_definition` for what is no role. */
export function checkForkOptions(options: ForkOptions): void {
  const field = "fork options";
  checkKeys(field, options, FORK_FIELDS);
  const { atStep, message, budget = {} } = options;
  if (atStep !== undefined) checkCount(`${field}.atStep`, atStep);
  if (Array.isArray(message)) checkedContent(`${field}.message`, message);
  else if (message !== undefined && (typeof message !== "string" || message.trim() === ""))
    throw mismatch(`${field}.message`, "text that is not empty", message, "Or leave it out.");
  checkBudget(`${field}.budget`, budget);
  checkRunOptions(field, options);
}
