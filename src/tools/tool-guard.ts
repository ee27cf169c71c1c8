// Guards: the user's code that decides whether a call may run. A guard applies to an agent and all
// of its descendants (T4).

import { checkCreated, registerCreated } from "../kernel/argument-checks.ts";
import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import { createToolScope, type ToolScope } from "./tool-scope.ts";

/**
 * A guard's decision about a call. `deny` overrides `ask`, and `ask` overrides `allow`.
 *
 * - `allow`: the guard has no objection.
 * - `deny`: the call is not executed. The model reads `reason`.
 * - `ask`: the call needs an approval. The question contains `reason`, and the model reads it if
 *   the call is denied.
 *
 * @example
 * ```ts
 * const decision: GuardDecision = { type: "ask", reason: "The path is outside of docs/." };
 * ```
 */
export type GuardDecision =
  | { readonly type: "allow" }
  /** `reason`: a text that the model reads. */
  | { readonly type: "deny"; readonly reason: string }
  /** `reason`: a text in the question. The model reads it if the call is denied. */
  | { readonly type: "ask"; readonly reason: string };

/** The call that a guard decides about. Its arguments fit the schema of the tool. */
export interface GuardedCall {
  /** The name of the tool as the model calls it, prefix included. */
  readonly toolName: string;
  /** The id of the call. */
  readonly callId: CallId;
  /**
   * The arguments that the tool will get: after hooks, coercion, and the defaults and transforms of
   * the schema. Frozen. If a transform returns a value that is not JSON, they are the arguments
   * before that transform.
   */
  readonly arguments: JsonValue;
  /**
   * The kind of the tool. A call of a `delegation` starts a subagent, a call of an `external` tool
   * pauses the run.
   */
  readonly kind: "function" | "external" | "delegation";
}

/**
 * Read-only facts about the agent that makes the call.
 *
 * `Context` is the type of the run context that the guard reads.
 */
export interface GuardContext<out Context = unknown> {
  /** The name of this guard. */
  readonly guardName: string;
  /** The run of the agent. */
  readonly runId: RunId;
  /** The agent that makes the call. */
  readonly agentId: AgentId;
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the agent. The root is at 0. */
  readonly depth: number;
  /** The name of the agent's role. */
  readonly role: string;
  /** The execution of the agent that makes the call. */
  readonly executionId: ExecutionId;
  /** The step that makes the call, counted from 1. */
  readonly stepNumber: number;
  /** The history of the agent. Frozen. */
  readonly messages: readonly Message[];
  /** The metadata of the agent. */
  readonly metadata: JsonObject;
  /**
   * The run context: the value passed as `context` to `start`, `resume` or `fork`.
   * `undefined` if none was passed.
   */
  readonly context: Context;
  /** Aborted when the guard must end, because its agent ends or `hookTimeoutMs` has passed. */
  readonly signal: AbortSignal;
}

/**
 * A guard of tool calls, created by `toolGuard`. `Context` is the type of the run context that the
 * guard reads.
 */
export interface ToolGuard<in Context = unknown> extends ToolScope {
  /**
   * Decides about a call of a guarded tool. All guards of a call run in parallel.
   *
   * The function is called once per call. A second call follows if an approver changed the
   * arguments, or if a run continues with a call that was approved before.
   *
   * If the function throws, exceeds `hookTimeoutMs` or returns anything else, the call is denied.
   */
  readonly check: (
    call: GuardedCall,
    context: GuardContext<Context>,
  ) => GuardDecision | Promise<GuardDecision>;
}

/**
 * Creates a guard of tool calls, for `guards` of a role or of an orchestrator. The guard applies to
 * the agent and to every agent below it.
 *
 * The options restrict the guard to some tools, and name it in events.
 *
 * @throws EspalierError `invalid_argument` if `check` is not a function, or a name is invalid.
 * @throws EspalierError `invalid_argument` if an option is unknown.
 *
 * @example
 * ```ts
 * const onlyDocs = toolGuard(
 *   ({ arguments: input }) => {
 *     const { path } = z.object({ path: z.string() }).parse(input);
 *     if (path.startsWith("docs/")) return { type: "allow" };
 *     return { type: "ask", reason: `${path} is outside of docs/.` };
 *   },
 *   { name: "only-docs", tools: ["write_file"] },
 * );
 * const guarded = new Orchestrator({ guards: [onlyDocs] });
 * ```
 */
export function toolGuard<Context = unknown>(
  check: ToolGuard<Context>["check"],
  options: Partial<ToolScope> = {},
): ToolGuard<Context> {
  return registerCreated("a guard", { ...createToolScope("toolGuard", check, options), check });
}

/** Throws `invalid_argument` unless `guards` is a list of guards. */
export function checkGuards(field: string, guards: unknown): void {
  checkCreated(field, guards, "a guard", "Create it with toolGuard().");
}

/** A guard with its name in events and errors. */
export interface NamedGuard {
  readonly name: string;
  readonly guard: ToolGuard;
}

/** Returns the guards of an owner with their names. A guard without a name gets one by position. */
export function assignGuardNames(
  owner: string,
  guards: readonly ToolGuard[],
): readonly NamedGuard[] {
  return guards.map((guard, index) => ({
    name: guard.name ?? `${owner}.guard#${index + 1}`,
    guard,
  }));
}

/**
 * Returns the guards of a tool without duplicates: a role and an ancestor may have the same guard.
 */
export function selectGuards(
  guards: readonly NamedGuard[],
  toolName: string,
): readonly NamedGuard[] {
  if (guards.length === 0) return guards;
  const known = new Set<ToolGuard>();
  return guards.filter(({ guard }) => {
    const isFor = guard.tools === undefined || guard.tools.includes(toolName);
    if (!isFor || known.has(guard)) return false;
    known.add(guard);
    return true;
  });
}
