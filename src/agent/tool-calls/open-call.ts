// OpenCall: one tool call, from its plan to its end. Owns what it asks for on the side: subtasks, reports of progress, subagents. Closed
// when the call has ended: what comes later goes nowhere.

import type { CancelSignal } from "../../kernel/cancel.ts";
import { checkAmount, checkKeys, checkText, mismatch } from "../../kernel/check.ts";
import { deepFreeze, defined, isRecord } from "../../kernel/json.ts";
import { checkedContent } from "../../protocol/message-content.ts";
import {
  SpawnRequestSchema,
  type SpawnOutcome,
  type SpawnRequest,
} from "../../protocol/subagent.ts";
import type { ToolContext, ToolProgress } from "../../tools/tool-context.ts";
import type { EventPosition } from "../agent-identity.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { PlannedCall } from "../effects.ts";
import type { EffectPosition } from "../agent-identity.ts";
import type { DelegatedCall } from "../run-ports.ts";

/** Where a call stands. */
export interface CallPosition extends EffectPosition {
  /** Aborted when the call has to end: with its agent, when that stops, and when the calls of its reply are ended. */
  readonly signal: CancelSignal;
}

/** Reports of one call that become events; more would be noise that costs. */
const MOST_REPORTS = 1_000;

export const TOO_LATE: SpawnOutcome = deepFreeze<SpawnOutcome>({
  type: "refused",
  refusal: {
    code: "setup_failed",
    message: "Not started: the call that asked for the subagent had ended.",
  },
});

export class OpenCall {
  readonly agent: AgentRuntime;
  readonly place: CallPosition;
  readonly planned: PlannedCall;
  readonly toolName: string;
  readonly signal: CancelSignal;
  /** Of its events. */
  readonly position: Required<Pick<EventPosition, "stepId" | "callId">>;
  /** What it is bound to: as the answer to a question about it changed that. */
  bound: PlannedCall["bound"];
  /** It has ended: what is asked for on its behalf goes nowhere. */
  isClosed = false;
  #subtasks: readonly SpawnRequest[] | undefined;
  #spawned: readonly Promise<SpawnOutcome>[] = [];
  #reports = 0;

  constructor(agent: AgentRuntime, place: CallPosition, planned: PlannedCall) {
    this.agent = agent;
    this.place = place;
    this.planned = planned;
    this.toolName = planned.call.toolName;
    this.signal = place.signal;
    this.position = { stepId: place.stepId, callId: planned.call.callId };
    this.bound = planned.bound;
  }

  /** The next delegation of the call, as the tree sees it. */
  delegation(): DelegatedCall {
    const { history, group } = this.planned;
    return { ...this.position, history, group, nth: this.#spawned.length };
  }

  /** Throws `invalid_option` for what is no request. */
  queueSubtask(request: unknown): void {
    const asked = spawnRequest("subtask", request);
    if (asked.background === true) {
      const advice = "A subtask is worked off before the next model call.";
      throw mismatch("subtask.background", "left out", true, advice);
    }
    if (!this.isClosed) this.#subtasks = [...(this.#subtasks ?? []), asked];
  }

  /** Throws `invalid_option` or `invalid_definition` for what says nothing. */
  reportProgress(progress: ToolProgress): void {
    checkKeys("progress", progress, ["done", "total", "message"]);
    const { done, total, message } = progress;
    if (done !== undefined) checkAmount("progress.done", done);
    if (total !== undefined) checkAmount("progress.total", total);
    if (message !== undefined) checkText("progress.message", message);
    if (this.isClosed || this.#reports >= MOST_REPORTS) return;
    this.#reports += 1;
    const { toolName } = this;
    const reported = defined({ done, total, message });
    this.agent.emit({ type: "tool.progressed", toolName, ...reported }, this.position);
  }

  /** Takes in a subagent that is started for the call. */
  take(spawned: Promise<SpawnOutcome>): Promise<SpawnOutcome> {
    spawned.catch(() => undefined); // A delegation may start it and look away.
    this.#spawned = [...this.#spawned, spawned];
    return spawned;
  }

  get hasSpawned(): boolean {
    return this.#spawned.length > 0;
  }

  /** Waits for the subagents that the call has started: none outlives it (T2). */
  children(): Promise<readonly PromiseSettledResult<SpawnOutcome>[]> {
    return Promise.allSettled(this.#spawned);
  }

  /** Gives the subtasks that were queued; undefined: none was. */
  close(): readonly SpawnRequest[] | undefined {
    this.isClosed = true;
    return this.#subtasks;
  }

  /** What the tool may know and do. */
  get context(): ToolContext {
    const { agent, place, planned } = this;
    const { callId } = planned.call;
    return Object.freeze({
      ...agent.facts,
      stepNumber: place.stepNumber,
      callId,
      idempotencyKey: `${agent.identity.runId}/${place.stepId}/${callId}`,
      retryCount: planned.retryCount,
      maxRetries: planned.settings.maxRetries,
      messages: planned.history.messages,
      signal: place.signal.abortSignal,
      queueSubtask: (request: SpawnRequest) => this.queueSubtask(request),
      reportProgress: (progress: ToolProgress) => this.reportProgress(progress),
    });
  }
}

/** Throws `invalid_option` for what is no request. */
export function spawnRequest(field: string, request: unknown): SpawnRequest {
  const given = isRecord(request) && Array.isArray(request["task"]) ? request["task"] : undefined;
  const task = given && checkedContent(`${field}.task`, given);
  const parsed = SpawnRequestSchema.safeParse(
    isRecord(request) ? { ...request, ...defined({ task }) } : request,
  );
  if (parsed.success) return parsed.data;
  const advice = "Both are texts, not empty; the role is a name.";
  throw mismatch(field, "an object with role and task", request, advice);
}
