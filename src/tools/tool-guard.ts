// Guards: code of the user's own that says of each call whether it may run. They hold for an agent and for all below it (T4).

import { checkMade } from "../kernel/check.ts";
import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import { toolScope, type ToolScope } from "./tool-scope.ts";

/** What a guard answers about a call: it may run, it must not, or an approval is to be asked for. */
export type GuardDecision =
  | { readonly type: "allow" }
  /** `reason`: the model reads it. */
  | { readonly type: "deny"; readonly reason: string }
  /** `reason`: stands in the question; the model reads it if the call is denied. */
  | { readonly type: "ask"; readonly reason: string };

/** The call that a guard is asked about. Its arguments fit the tool's schema. */
export interface GuardedCall {
  /** The name of the tool. */
  readonly toolName: string;
  readonly callId: CallId;
  /** As the tool will get them: after hooks, coercion, defaults and transforms of the schema; what a schema makes no JSON of, before. Frozen. */
  readonly arguments: JsonValue;
  /** `delegation`: a subagent would be started. `external`: it would be executed elsewhere. */
  readonly kind: "function" | "external" | "delegation";
}

/**
 * What a guard may know of the agent that makes the call. Read-only; it cannot stop anything else than the call. `Context`: what the
 * guard asks of the run's context; default: nothing.
 */
export interface GuardContext<out Context = unknown> {
  /** The name of the guard that is asked. */
  readonly guardName: string;
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Place of the agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** The name of the agent's role. */
  readonly role: string;
  readonly executionId: ExecutionId;
  /** From 1. */
  readonly stepNumber: number;
  /** The history of the agent. Frozen. */
  readonly messages: readonly Message[];
  /** The metadata of the agent. */
  readonly metadata: JsonObject;
  /** The context of the run: the very value that was given with it; undefined: none was. */
  readonly context: Context;
  /** Aborted when the guard must end: its agent has to, or its time is up. */
  readonly signal: AbortSignal;
}

/** Made by {@link toolGuard}. `Context`: what it asks of the context of a run. */
export interface ToolGuard<in Context = unknown> extends ToolScope {
  /**
   * Called once for every call of the tools that the guard is for, once more if an answer changed the arguments, and once more when a run
   * continues with a call that was approved before. Guards of one call are asked at the same time, and all of them: deny beats ask beats
   * allow. May be asynchronous, within the time that hooks have. If it throws, rejects, takes too long or returns anything else than an
   * answer, the call is denied.
   */
  readonly check: (
    call: GuardedCall,
    context: GuardContext<Context>,
  ) => GuardDecision | Promise<GuardDecision>;
}

const made = new WeakSet<object>();

/**
 * A guard of tool calls, for the `guards` of an agent or an orchestrator. It holds for the agent and for every agent below it.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function toolGuard<Context = unknown>(
  check: ToolGuard<Context>["check"],
  options: Partial<ToolScope> = {},
): ToolGuard<Context> {
  const guard: ToolGuard<Context> = Object.freeze({
    ...toolScope("toolGuard", check, options),
    check,
  });
  made.add(guard);
  return guard;
}

/** Throws `invalid_definition` unless `guards` is a list of guards. */
export function checkGuards(field: string, guards: unknown): void {
  checkMade(field, guards, { made, what: "a guard", advice: "Create it with toolGuard()." });
}

/** A guard under the name by which it is known. */
export interface NamedGuard {
  readonly name: string;
  readonly guard: ToolGuard;
}

/** Guards of one owner; those without a name get one by place. */
export function namedGuards(owner: string, guards: readonly ToolGuard[]): readonly NamedGuard[] {
  return guards.map((guard, index) => ({
    name: guard.name ?? `${owner}.guard#${index + 1}`,
    guard,
  }));
}

/** The guards of a call; each once, also where a role and an ancestor of it have the same. */
export function guardsFor(guards: readonly NamedGuard[], toolName: string): readonly NamedGuard[] {
  if (guards.length === 0) return guards;
  const known = new Set<ToolGuard>();
  return guards.filter(({ guard }) => {
    const isFor = guard.tools === undefined || guard.tools.includes(toolName);
    if (!isFor || known.has(guard)) return false;
    known.add(guard);
    return true;
  });
}
