// OpenCall: one tool call, from its plan to its end. Owns what it asks for on the side: subtasks, reports of progress, subagents, questions.
// Closed when the call has ended: what comes later goes nowhere.

import { CancelSignal, onAbort } from "../../kernel/cancel.ts";
import { checkAmount, checkKeys, checkText, mismatch } from "../../kernel/check.ts";
import { frozenList } from "../../kernel/grown.ts";
import { deepFreeze, defined, isRecord } from "../../kernel/json.ts";
import type { EventScope } from "../../protocol/event.ts";
import { JsonObjectSchema } from "../../protocol/json-value.ts";
import { checkedContent } from "../../protocol/message-content.ts";
import {
  SpawnRequestSchema,
  type SpawnOutcome,
  type SpawnRequest,
} from "../../protocol/subagent.ts";
import {
  QUESTION_ENDED,
  type AskOutcome,
  type AskRequest,
  type ToolContext,
  type ToolProgress,
} from "../../tools/tool-context.ts";
import type { EffectPosition, EventPosition } from "../agent-identity.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import { factsOf } from "../consult.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { PlannedCall } from "../effects.ts";
import type { DelegatedCall } from "../run-ports.ts";
import { askForTool } from "./ask-approver.ts";

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
  readonly effectPosition: CallPosition;
  readonly planned: PlannedCall;
  readonly toolName: string;
  readonly signal: CancelSignal;
  /** Of its events. */
  readonly position: Required<Pick<EventPosition, "stepId" | "callId">>;
  /** The ids of its events. */
  readonly scope: EventScope;
  /** What it is bound to: as the answer to a question about it changed that. */
  bound: PlannedCall["bound"];
  /** It has ended: what is asked for on its behalf goes nowhere. */
  isClosed = false;
  #subtasks: readonly SpawnRequest[] | undefined;
  #spawned: readonly Promise<SpawnOutcome>[] = [];
  #reports = 0;
  #questions = 0;
  /** Ends what its tool has asked and that is not answered. Made with the first question. */
  #endings: Set<() => void> | undefined;

  constructor(agent: AgentRuntime, effectPosition: CallPosition, planned: PlannedCall) {
    this.agent = agent;
    this.effectPosition = effectPosition;
    this.planned = planned;
    this.toolName = planned.call.toolName;
    this.signal = effectPosition.signal;
    this.position = { stepId: effectPosition.stepId, callId: planned.call.callId };
    this.scope = agent.scope(this.position);
    this.bound = planned.bound;
  }

  /** The next delegation of the call, as the tree sees it. */
  delegation(): DelegatedCall {
    const { history, delegatedRoles } = this.planned;
    const isAlone = delegatedRoles.length === 1 && this.toolName === SPAWN_TOOL_NAME;
    return { ...this.position, history, delegatedRoles, nth: this.#spawned.length, isAlone };
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

  /** Rejects with `invalid_option` for what is no request. */
  async ask(request: AskRequest): Promise<AskOutcome> {
    const asked = askRequest(request);
    const signals = [this.signal, ...(asked.signal === undefined ? [] : [asked.signal])];
    if (this.isClosed || signals.some(({ aborted }) => aborted)) return QUESTION_ENDED;
    this.#questions += 1;
    const ending = new CancelSignal();
    const end = (): void => ending.abort(undefined);
    const unlinks = signals.map((signal) => onAbort(signal, end));
    const endings = (this.#endings ??= new Set());
    endings.add(end);
    try {
      return await askForTool(this, asked, this.#questions, ending);
    } finally {
      endings.delete(end);
      for (const unlink of unlinks) unlink();
    }
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

  /**
   * Waits for the subagents that the call has started. A subagent in the background is not waited
   * for: its outcome here is the receipt of its start.
   */
  children(): Promise<readonly PromiseSettledResult<SpawnOutcome>[]> {
    return Promise.allSettled(this.#spawned);
  }

  /** Gives the subtasks that were queued; undefined: none was. */
  close(): readonly SpawnRequest[] | undefined {
    this.isClosed = true;
    for (const end of this.#endings ?? []) end();
    return this.#subtasks;
  }

  /** What a tool at work may know and do. */
  get context(): ToolContext {
    return this.contextWith({ ask: (request: AskRequest) => this.ask(request) });
  }

  /** The same of any tool, and these services besides. */
  contextWith<Services extends object>(services: Services): Omit<ToolContext, "ask"> & Services {
    const { agent, effectPosition, planned } = this;
    const { callId } = planned.call;
    return Object.freeze({
      ...factsOf(agent),
      stepNumber: effectPosition.stepNumber,
      callId,
      idempotencyKey: `${agent.identity.runId}/${effectPosition.stepId}/${callId}`,
      retryCount: planned.retryCount,
      maxRetries: planned.settings.maxRetries,
      messages: frozenList(planned.history.messages),
      signal: effectPosition.signal.abortSignal,
      queueSubtask: (request: SpawnRequest) => this.queueSubtask(request),
      reportProgress: (progress: ToolProgress) => this.reportProgress(progress),
      ...services,
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

/** A copy: what is asked is recorded, and must not change any more. */
function askRequest(request: AskRequest): AskRequest {
  checkKeys("ask", request, ["reason", "arguments", "problemWith", "signal"]);
  const { reason, problemWith, signal } = request;
  checkText("ask.reason", reason);
  const asked = JsonObjectSchema.safeParse(request.arguments);
  if (!asked.success)
    throw mismatch(
      "ask.arguments",
      "an object of plain JSON",
      request.arguments,
      "Say what you ask for.",
    );
  if (problemWith !== undefined && typeof problemWith !== "function")
    throw mismatch("ask.problemWith", "a function", problemWith, "Leave it out for any value.");
  // oxlint-disable-next-line typescript/no-unnecessary-condition -- Users without types hand us anything.
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw mismatch("ask.signal", "an AbortSignal", signal, "Leave it out: it ends with the call.");
  return {
    reason,
    arguments: deepFreeze(structuredClone(asked.data)),
    ...defined({ problemWith, signal }),
  };
}
