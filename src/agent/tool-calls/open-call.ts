// CallInProgress: one tool call of a reply, from its plan to its record. Filled in on the way: its bound arguments, and the
// subagents, subtasks and questions that its tool starts. After the call has ended, nothing further is taken in.

import type { CancelSignal } from "../../kernel/cancel.ts";
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
import type { CallEnd, ParentHistory } from "../effects.ts";
import type { DelegatedCall } from "../run-ports.ts";

export interface CallInProgress {
  readonly agent: AgentRuntime;
  readonly stepId: StepId;
  readonly stepNumber: number;
  /** Aborted with the stop of the agent, and when the calls of the reply are ended. */
  readonly signal: CancelSignal;
  /** The call as the model wrote it. */
  readonly call: ToolCall;
  /** From 0, in the order of the reply. */
  readonly index: number;
  /** The call as its tool takes it. The answer to a question may change it. */
  bound: BoundCall;
  /** The hook that denied it, and the reason: one more deny among the guards. */
  readonly denial: { readonly by: string; readonly reason: string } | undefined;
  /** The arguments as hooks left them. */
  readonly argumentsText: string;
  readonly settings: EffectiveSettings;
  /** How often in a row the model was asked for a corrected call of this tool, before this reply. */
  readonly retryCount: number;
  /** How often in a row the very same call was made before. */
  readonly identicalCalls: number;
  /** At the time of the call. */
  readonly history: ParentHistory;
  /** Set if the call waited for something when the run was paused. */
  readonly deferral: Deferral | undefined;
  /** The answer to its question. */
  readonly answer: Answer | undefined;
  /** Called with its end as soon as that is known: before its slot is free, and before anything else of the reply begins. */
  onEnd: (end: CallEnd) => void;
  /** The roles that the delegations of the reply request. Empty for a call that delegates nothing. */
  delegatedRoles: readonly string[];
  readonly toolName: string;
  /** True if the model's arguments were not JSON until a small slip in them was mended. */
  readonly isRepaired: true | undefined;
  /** The position of its events. */
  readonly position: Required<Pick<EventPosition, "stepId" | "callId">>;
  /** The ids of its events. */
  readonly scope: EventScope;
  /** True once it has ended: what is requested on its behalf is dropped. */
  isClosed: boolean;
  /** The subtasks that its tool queued. */
  subtasks?: readonly SpawnRequest[];
  /** The number of reports that became events. */
  reports: number;
  /** The number of questions that its tool asked. */
  questions: number;
  /** Ends open questions of its tool. Made with the first question. */
  endings?: Set<() => void>;
  /** The subagents that it has started. */
  readonly spawned: Promise<SpawnOutcome>[];
}

/** Returns the next delegation of a call, as the tree sees it. */
export function createNextDelegation(call: CallInProgress): DelegatedCall {
  const { position, history, delegatedRoles, spawned } = call;
  const isAlone = delegatedRoles.length === 1 && call.toolName === SPAWN_TOOL_NAME;
  return { ...position, history, delegatedRoles, nth: spawned.length, isAlone };
}

/** Ends the open questions of a call, and returns the subtasks that were queued. `undefined` if none was. */
export function closeCall(call: CallInProgress): readonly SpawnRequest[] | undefined {
  call.isClosed = true;
  if (call.endings !== undefined) for (const end of call.endings) end();
  return call.subtasks;
}
