// Ids of the run, agent, step and call that the current code belongs to. For loggers.
// Owns the scope that follows each call of user code across `await`. Does not know tracing or
// events.
//
// 1. A nested scope shadows the outer one. Parallel calls never see each other's scope.
// 2. Reading the ids never throws, because loggers read them.

import { AsyncLocalStorage } from "node:async_hooks";

import type { EventScope, TraceIds } from "./event.ts";

/** Source of the ids of open spans. */
export interface SpanSource {
  /**
   * Returns the ids of the innermost span that is open in a scope. Must not throw. `isInCall` is
   * true in the body of the scope's model call or tool call.
   */
  getIds(scope: EventScope, isInCall: boolean): TraceIds | undefined;
}

/** A scope of a run, and the source of its span's ids. */
interface ScopeContext {
  readonly scope: EventScope;
  readonly spans: SpanSource;
  readonly isInCall: boolean;
}

const scopes = new AsyncLocalStorage<ScopeContext>();

/**
 * Runs `work` so that `getCorrelationIds()` returns the ids of this scope, also in async calls that
 * it begins. `isInCall` is true if `work` is the body of the scope's call.
 */
export function runInScope<T>(
  scope: EventScope,
  spans: SpanSource,
  work: () => T,
  isInCall = false,
): T {
  return scopes.run({ scope, spans, isInCall }, work);
}

/** Returns true in code of a run. See `getCorrelationIds()`. */
export function isInScope(): boolean {
  return scopes.getStore() !== undefined;
}

/**
 * Runs `work` outside of all scopes: for work on behalf of several scopes, such as writing to a
 * store.
 */
export function runOutsideScopes<T>(work: () => T): T {
  return scopes.exit(work);
}

/**
 * Returns the ids of the run, agent, step and tool call that the calling code belongs to, for log
 * messages.
 *
 * The fields have the names of event fields, such as `runId`, `agentPath`, `callId`, `traceId` and
 * `spanId`. An id that does not apply is `null`. Outside a run, the object is empty. Each call
 * returns a new object, and never throws.
 *
 * It works in tools, model clients, event sinks and all other code that a run calls, such as hooks,
 * guards and approvers. It works after an `await`, and with or without OpenTelemetry.
 *
 * @example
 * ```ts
 * function log(message: string): void {
 *   const { agentPath = "outside", callId } = getCorrelationIds();
 *   console.log(JSON.stringify({ message, agentPath, callId }));
 * }
 * ```
 */
export function getCorrelationIds(): Partial<EventScope & TraceIds> {
  const context = scopes.getStore();
  if (context === undefined) return {};
  const { modelCallNumber: _number, ...ids } = context.scope;
  const trace = context.spans.getIds(context.scope, context.isInCall);
  return trace === undefined ? ids : { ...ids, traceId: trace.traceId, spanId: trace.spanId };
}
