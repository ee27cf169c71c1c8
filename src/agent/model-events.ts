// A model call with its lease, and the content of its events.

import type { AnySignal } from "../kernel/cancel-signal.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { Model, ModelRequest } from "../model/model.ts";
import type { RequestPrefix } from "../model/request-prefix.ts";
import type { EventBody } from "../protocol/event.ts";
import type { EffectPosition, EventPosition } from "./agent-identity.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { pickRequestParameters } from "./create-step-context.ts";
import type { LeasedCall } from "../budget/call-usage.ts";

/** A paid model call as its attempts make it. */
export interface InferCall extends LeasedCall {
  readonly effectPosition: EffectPosition;
  readonly request: ModelRequest;
  readonly isEstimated: boolean;
  readonly prefix: RequestPrefix | undefined;
  /**
   * The number of this call among the calls that hooks made in place of one model call, counted
   * from 1. Several calls share one lease. Each is charged when it ends, so that none waits for
   * budget that the lease itself holds. Absent without hooks around the call.
   */
  readonly number?: number;
  readonly signals: { readonly cancelSignal: AnySignal; readonly noStartSignal: AnySignal };
}

export function describeModel({ provider, id }: Model): {
  readonly provider: string;
  readonly model: string;
} {
  return { provider, model: id };
}

/** Returns the event of a request. */
export function createModelRequestedEvent(
  { provider, id, server, apiType, serviceTier }: Model,
  { lease, request, isEstimated, prefix }: InferCall,
  {
    isStreaming: streaming,
    queuedMs,
  }: { readonly isStreaming: boolean; readonly queuedMs: number },
): EventBody<"model.requested"> {
  const { messages, tools, output } = request;
  const outputType = output === undefined ? undefined : ("json" as const);
  return {
    type: "model.requested",
    provider,
    model: id,
    ...omitUndefined({ server: server && describeServer(server), prefix }),
    messageCount: messages.length,
    toolNames: tools.map((tool) => tool.name),
    estimatedInputTokens: lease.inputTokens,
    isEstimated,
    ...pickRequestParameters(request),
    ...omitUndefined({ outputType, apiType, serviceTier }),
    streaming,
    ...(queuedMs > 0 ? { queuedMs } : {}),
  };
}

/** Returns the address of the model's server, without other properties. */
export function describeServer({
  address,
  port,
}: NonNullable<Model["server"]>): NonNullable<Model["server"]> {
  return { address, ...omitUndefined({ port }) };
}

// Warnings of providers beside their replies. Each is recorded once per run.

/** Maximum number of warnings per run, for providers whose warnings differ with each request. */
const MOST_WARNINGS = 100;

/** Warnings recorded so far, by run. */
const warned = new WeakMap<object, Set<string>>();

export function recordWarnings(
  agent: AgentRuntime,
  warnings: readonly string[],
  position: EventPosition,
): void {
  const known = warned.get(agent.run) ?? new Set();
  warned.set(agent.run, known);
  for (const warning of warnings) {
    if (known.has(warning) || known.size >= MOST_WARNINGS) continue;
    known.add(warning);
    agent.recordWithinCall({ type: "model.warned", warning }, position);
  }
}
