// CallInProgress: one tool call of a reply, from its plan to its record. Owns the bound arguments,
// and the subagents, subtasks and questions that its tool starts. Nothing is added after the call
// has ended.

import type { CancelSignal } from "../../kernel/cancel-signal.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { StepId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { Answer } from "../../protocol/question.ts";
import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import type { EffectiveSettings } from "../../tools/tool-settings.ts";
import type { EventPosition } from "../agent-identity.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { Deferral } from "../agent-state.ts";
import type { CallEnd, ParentHistory } from "../effect-outcomes.ts";
import type { DelegatedCall } from "../run-ports.ts";

export interface CallInProgress {
  readonly agent: AgentRuntime;
  readonly stepId: StepId;
  readonly stepNumber: number;
  /** Aborted when the agent stops, and when the calls of the reply are ended. */
  readonly signal: CancelSignal;
  /** The call as the model wrote it. */
  readonly call: ToolCall;
  /** Index of the call in the reply, counted from 0. */
  readonly index: number;
  /** The call bound to its tool. The answer to a question may replace it. */
  bound: BoundCall;
  /** The hook that denied the call, with the reason. Counts like the denial of a guard. */
  readonly denial: { readonly by: string; readonly reason: string } | undefined;
  /** The arguments after hooks. */
  readonly argumentsText: string;
  readonly settings: EffectiveSettings;
  /** Number of consecutive requests for a corrected call of this tool, before this reply. */
  readonly retryCount: number;
  /** Number of consecutive identical calls before this one. */
  readonly identicalCalls: number;
  /** The history at the time of the call. */
  readonly history: ParentHistory;
  /** Set if the call was deferred when the run was paused. */
  readonly deferral: Deferral | undefined;
  /** The answer to the question about the call. */
  readonly answer: Answer | undefined;
  /**
   * Called as soon as the end of the call is known: before its slot is released, and before other
   * calls of the reply begin.
   */
  onEnd: (end: CallEnd) => void;
  /** Roles requested by the delegations of the reply. Empty for a call that is not a delegation. */
  delegatedRoles: readonly string[];
  readonly toolName: string;
  /** True if the model's arguments only became JSON after a small repair. */
  readonly isRepaired: true | undefined;
  /** Position of the call's events. */
  readonly position: Required<Pick<EventPosition, "stepId" | "callId">>;
  /** Ids of the call's events. */
  readonly scope: EventScope;
  /** True once the call has ended. Later requests of its tool are dropped. */
  isClosed: boolean;
  /** Subtasks that its tool queued. */
  subtasks?: readonly SpawnRequest[];
  /** Number of progress reports that were recorded as events. */
  reports: number;
  /** Number of questions that its tool asked. */
  questions: number;
  /** Functions that end open questions of its tool. Created with the first question. */
  endings?: Set<() => void>;
  /** Subagents that the call has started. */
  readonly spawned: Promise<SpawnOutcome>[];
}

/** Returns the next delegation of a call, in the form that the tree needs. */
export function createNextDelegation(call: CallInProgress): DelegatedCall {
  const { position, history, delegatedRoles, spawned } = call;
  const isAlone = delegatedRoles.length === 1 && call.toolName === SPAWN_TOOL_NAME;
  return { ...position, history, delegatedRoles, nth: spawned.length, isAlone };
}

/**
 * Marks the call as ended, ends its open questions, and returns its queued subtasks, or
 * `undefined`.
 */
export function closeCall(call: CallInProgress): readonly SpawnRequest[] | undefined {
  call.isClosed = true;
  if (call.endings !== undefined) for (const end of call.endings) end();
  return call.subtasks;
}
