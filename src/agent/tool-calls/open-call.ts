// OpenCall: one tool call of a reply, from its plan to its record. Owns the subagents, subtasks and questions of the
// call. After the call has ended, nothing further is taken in.

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

/** The parts of a call that its plan gives. */
export type CallPlan = Pick<
  OpenCall,
  | "agent"
  | "stepId"
  | "stepNumber"
  | "signal"
  | "call"
  | "index"
  | "bound"
  | "denial"
  | "argumentsText"
  | "settings"
  | "retryCount"
  | "identicalCalls"
  | "history"
  | "deferral"
  | "answer"
  | "onEnd"
>;

export class OpenCall {
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
  /** The hook that denied it, and the reason: one more deny among the guards (C43). */
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
  delegatedRoles: readonly string[] = NONE;
  readonly toolName: string;
  /** True if the model's arguments were not JSON until a small slip in them was mended. */
  readonly isMended: true | undefined;
  /** The position of its events. */
  readonly position: Required<Pick<EventPosition, "stepId" | "callId">>;
  /** The ids of its events. */
  readonly scope: EventScope;
  /** True once it has ended: what is requested on its behalf is dropped. */
  isClosed = false;
  subtasks: readonly SpawnRequest[] | undefined;
  /** The number of reports that became events. */
  reports = 0;
  /** The number of questions that its tool asked. */
  questions = 0;
  /** Ends open questions of its tool. Made with the first question. */
  endings: Set<() => void> | undefined;
  #spawned: readonly Promise<SpawnOutcome>[] = NONE;

  constructor(plan: CallPlan) {
    const { agent, stepId, call, bound } = plan;
    this.agent = agent;
    this.stepId = stepId;
    this.stepNumber = plan.stepNumber;
    this.signal = plan.signal;
    this.call = call;
    this.index = plan.index;
    this.bound = bound;
    this.denial = plan.denial;
    this.argumentsText = plan.argumentsText;
    this.settings = plan.settings;
    this.retryCount = plan.retryCount;
    this.identicalCalls = plan.identicalCalls;
    this.history = plan.history;
    this.deferral = plan.deferral;
    this.answer = plan.answer;
    this.onEnd = plan.onEnd;
    this.toolName = call.toolName;
    this.isMended = (bound.type !== "rejected" && bound.unmended !== undefined) || undefined;
    this.position = { stepId, callId: call.callId };
    this.scope = agent.scope(this.position);
  }

  /** Returns the next delegation of the call, as the tree sees it. */
  delegation(): DelegatedCall {
    const { history, delegatedRoles } = this;
    const isAlone = delegatedRoles.length === 1 && this.toolName === SPAWN_TOOL_NAME;
    return { ...this.position, history, delegatedRoles, nth: this.#spawned.length, isAlone };
  }

  /** Takes in a subagent that is started for the call. */
  take(spawned: Promise<SpawnOutcome>): Promise<SpawnOutcome> {
    spawned.catch(() => undefined); // A delegation may start a subagent and ignore the outcome.
    this.#spawned = [...this.#spawned, spawned];
    return spawned;
  }

  get hasSpawned(): boolean {
    return this.#spawned.length > 0;
  }

  /**
   * Waits for the subagents that the call has started. A subagent in the background is not waited
   * for: its outcome here is the receipt of its start.
   */
  children(): Promise<readonly PromiseSettledResult<SpawnOutcome>[]> {
    return Promise.allSettled(this.#spawned);
  }

  /** Ends its open questions, and returns the subtasks that were queued. `undefined` if none was. */
  close(): readonly SpawnRequest[] | undefined {
    this.isClosed = true;
    if (this.endings !== undefined) for (const end of this.endings) end();
    return this.subtasks;
  }
}

const NONE: readonly never[] = Object.freeze([]);
