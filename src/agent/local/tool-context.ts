// What a tool and a delegation may know and do while they serve a call.

import { mismatch } from "../../kernel/check.ts";
import { SpawnRequestSchema, type SpawnRequest } from "../../protocol/subagent.ts";
import type { DelegationContext, ToolContext } from "../../tools/tool.ts";
import type { EffectPlace, PlannedCall } from "../effects.ts";
import type { LocalEffectsOptions } from "./local-options.ts";
import { spawnWithHooks } from "./spawn.ts";

/** The subtasks that one call queues. Closed when the call has ended: what is queued later goes nowhere. */
export class SubtaskQueue {
  #requests: readonly SpawnRequest[] = [];
  #isClosed = false;

  /** Throws `invalid_option` for what is no request. */
  add(request: unknown): void {
    const parsed = SpawnRequestSchema.safeParse(request);
    if (!parsed.success) {
      throw mismatch(
        "subtask",
        "an object with role and task",
        request,
        "Both are texts, not empty.",
      );
    }
    if (!this.#isClosed) this.#requests = [...this.#requests, parsed.data];
  }

  close(): readonly SpawnRequest[] {
    this.#isClosed = true;
    return this.#requests;
  }
}

export function toolContext(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
  queue: SubtaskQueue,
): ToolContext {
  const { runId, agentId, agentPath, depth, executionId } = options.identity;
  return Object.freeze({
    runId,
    agentId,
    agentPath,
    depth,
    executionId,
    stepNumber: place.stepNumber,
    callId: planned.call.callId,
    signal: options.signal,
    metadata: options.metadata,
    queueSubtask: (request: SpawnRequest) => queue.add(request),
  });
}

export function delegationContext(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
): DelegationContext {
  const { callId } = planned.call;
  const { messages } = planned;
  return Object.freeze({
    ...toolContext(options, place, planned, new SubtaskQueue()),
    spawn: (request: SpawnRequest) =>
      spawnWithHooks(options, place, request, { callId, stepId: place.stepId, messages }),
  });
}
