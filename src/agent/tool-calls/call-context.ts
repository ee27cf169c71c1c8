// What a tool and a delegation may know and do while they serve a call.

import { checkAmount, checkKeys, checkText, mismatch } from "../../kernel/check.ts";
import { deepFreeze } from "../../kernel/json.ts";
import {
  SpawnRequestSchema,
  type SpawnOutcome,
  type SpawnRequest,
} from "../../protocol/subagent.ts";
import type {
  ContinueRequest,
  DelegationContext,
  ToolContext,
  ToolProgress,
  WaitRequest,
} from "../../tools/tool-context.ts";
import type { ToolRetryNote, ToolRuntime } from "../../tools/tool-runtime.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { EffectPlace, PlannedCall } from "../effects.ts";
import { toolErrorRecord } from "./call-outcome.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { continueWithHooks, spawnWithHooks } from "./spawn.ts";

/** One call at its place. */
export interface PlacedCall {
  readonly place: EffectPlace;
  readonly planned: PlannedCall;
  /** Aborted when the call has to end: with its agent, when that stops, and when the calls of its reply are ended. */
  readonly signal: AbortSignal;
}

/** Reports of one call that become events; more would be noise that costs. */
const MOST_REPORTS = 1_000;

const TOO_LATE: SpawnOutcome = deepFreeze<SpawnOutcome>({
  type: "refused",
  refusal: {
    code: "setup_failed",
    message: "Not started: the call that asked for the subagent had ended.",
  },
});

/** What one call asks for on the side. Closed when the call has ended: what comes later goes nowhere. */
export class CallServices {
  readonly #tell: (progress: ToolProgress) => void;
  #requests: readonly SpawnRequest[] = [];
  #spawned: readonly Promise<SpawnOutcome>[] = [];
  #reports = 0;
  #isClosed = false;

  constructor(tell: (progress: ToolProgress) => void) {
    this.#tell = tell;
  }

  /** Throws `invalid_option` for what is no request. */
  queueSubtask(request: unknown): void {
    const asked = spawnRequest("subtask", request);
    if (asked.background === true) {
      const advice = "A subtask is worked off before the next model call.";
      throw mismatch("subtask.background", "left out", true, advice);
    }
    if (!this.#isClosed) this.#requests = [...this.#requests, asked];
  }

  /** Throws `invalid_option` or `invalid_definition` for what says nothing. */
  reportProgress(progress: ToolProgress): void {
    checkKeys("progress", progress, ["done", "total", "message"]);
    const { done, total, message } = progress;
    if (done !== undefined) checkAmount("progress.done", done);
    if (total !== undefined) checkAmount("progress.total", total);
    if (message !== undefined) checkText("progress.message", message);
    if (this.#isClosed || this.#reports >= MOST_REPORTS) return;
    this.#reports += 1;
    this.#tell({
      ...(done === undefined ? {} : { done }),
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    });
  }

  /** Starts a subagent for the call, unless the call has ended. `nth`: how many it has started before. */
  spawn(start: (nth: number) => Promise<SpawnOutcome>): Promise<SpawnOutcome> {
    if (this.#isClosed) return Promise.resolve(TOO_LATE);
    const spawned = start(this.#spawned.length);
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

  /** The subagents that it has started in the background. */
  async startedIds(): Promise<readonly AgentId[]> {
    const children = await this.children();
    return children.flatMap((child) =>
      child.status === "fulfilled" && child.value.type === "started" ? [child.value.childId] : [],
    );
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Gives the subtasks that were queued. */
  close(): readonly SpawnRequest[] {
    this.#isClosed = true;
    return this.#requests;
  }
}

function checkContinue(request: ContinueRequest): void {
  const fields = ["childName", "task", "background", "role", "resultsOf", "draft"];
  checkKeys("continue", request, fields);
  checkText("continue.childName", request.childName);
  checkText("continue.task", request.task);
}

function spawnRequest(field: string, request: unknown): SpawnRequest {
  const parsed = SpawnRequestSchema.safeParse(request);
  if (parsed.success) return parsed.data;
  const advice = "Both are texts, not empty; the role is a name.";
  throw mismatch(field, "an object with role and task", request, advice);
}

export function callServices(agent: AgentRuntime, { place, planned }: PlacedCall): CallServices {
  const { toolName, callId } = planned.call;
  return new CallServices((progress) =>
    agent.emit(
      { type: "tool.progressed", toolName, ...progress },
      { stepId: place.stepId, callId },
    ),
  );
}

export function toolContext(
  agent: AgentRuntime,
  { place, planned, signal }: PlacedCall,
  services: CallServices,
): ToolContext {
  const { runId, agentId, agentPath, depth, executionId } = agent.identity;
  return Object.freeze({
    runId,
    agentId,
    agentPath,
    depth,
    executionId,
    stepNumber: place.stepNumber,
    callId: planned.call.callId,
    idempotencyKey: `${runId}/${place.stepId}/${planned.call.callId}`,
    retryCount: planned.retryCount,
    maxRetries: planned.settings.maxRetries,
    messages: planned.history.messages,
    signal,
    metadata: agent.metadata,
    queueSubtask: (request: SpawnRequest) => services.queueSubtask(request),
    reportProgress: (progress: ToolProgress) => services.reportProgress(progress),
  });
}

export function delegationContext(
  agent: AgentRuntime,
  call: PlacedCall,
  services: CallServices,
): DelegationContext {
  const { place, planned } = call;
  const { callId } = planned.call;
  const { history, group } = planned;
  const delegated = { callId, stepId: place.stepId, history, group };
  const subagents = agent.run.subagents.serviceFor(agent, delegated);
  return Object.freeze({
    ...toolContext(agent, call, services),
    spawn: (request: SpawnRequest) => {
      const asked = spawnRequest("spawn", request);
      // A subagent that was under way when its process died is taken in again, to be ended.
      const isUnderWay = agent.log?.hasChildOf(callId) === true;
      if (call.signal.aborted && !isUnderWay) return Promise.resolve(TOO_LATE);
      return services.spawn((nth) => spawnWithHooks(agent, place, asked, { ...delegated, nth }));
    },
    subagents: Object.freeze({
      ...subagents,
      wait: async (request?: WaitRequest) =>
        services.isClosed ? TOO_LATE : await subagents.wait(request),
      message: (childName: string, text: string) =>
        services.isClosed ? TOO_LATE : subagents.message(childName, text),
      cancel: async (childName: string, reason?: string) =>
        services.isClosed ? TOO_LATE : await subagents.cancel(childName, reason),
      continue: (request: ContinueRequest) => {
        checkContinue(request);
        return services.spawn((nth) =>
          continueWithHooks(agent, place, request, { ...delegated, nth }),
        );
      },
    }),
  });
}

/** What the wrappers of a tool work with. */
export function toolRuntime(
  agent: AgentRuntime,
  { place, planned, signal }: PlacedCall,
  services: CallServices,
): ToolRuntime {
  const { run } = agent;
  const { toolName, callId } = planned.call;
  return Object.freeze({
    toolName,
    clock: run.clock,
    graceMs: run.settings.graceMs,
    startSignal: signal,
    run,
    noteRetry: ({ attempt, error, delayMs }: ToolRetryNote) => {
      if (services.isClosed) return;
      agent.emit(
        { type: "tool.retried", toolName, attempt, error: toolErrorRecord(error), delayMs },
        { stepId: place.stepId, callId },
      );
    },
  });
}
