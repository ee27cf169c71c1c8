// Tools: typed functions that a model may call. Only a delegation starts subagents during its call.
// A function tool can queue them for after it.

import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { ArgumentProblem } from "./arguments/argument-problems.ts";
import type {
  DelegationContext,
  DelegationOutcome,
  ToolContext,
  SubagentRequest,
  ToolRuntime,
} from "./tool-context.ts";
import type { ToolSettings } from "./tool-settings.ts";

/** Fields that all kinds of tools share. */
export interface ToolDescriptor {
  /** The name by which the model calls the tool. */
  readonly name: string;
  /** The description that the model reads. */
  readonly description: string;
  /** The JSON Schema of the arguments that the model reads. */
  readonly inputSchema: JsonObject;
  /**
   * Requests that the provider restricts the model to the schema. Absent for the option of the
   * model's adapter.
   */
  readonly strictSchema?: boolean;
  /** The tool's own settings, without defaults. */
  readonly settings: ToolSettings;
  /**
   * True if each call runs alone: after the earlier calls of its reply, and before the later ones.
   */
  readonly sequential: boolean;
}

/**
 * A tool that runs in this process, created by `defineTool`. `Context` is the type of the run
 * context that the tool reads.
 *
 * @example
 * ```ts
 * const tools: readonly FunctionTool[] = [search, withTimeout(search, { timeoutMs: 5_000 })];
 * ```
 */
export interface FunctionTool<in Context = unknown> extends ToolDescriptor {
  /** Distinguishes the kinds of tools. */
  readonly kind: "function";
  /** False if a call that was running when its process crashed must not be repeated. */
  readonly retryAfterCrash: boolean;
  /**
   * Validates arguments, and returns the function that executes the call if they fit. `parsed` is
   * the value to which the schema converted the arguments before; it is used without parsing again.
   */
  bind(input: JsonValue, parsed?: JsonValue): Bound<FunctionUse<Context>>;
}

/** A call of a function tool with valid arguments. */
export interface FunctionUse<in Context = unknown> {
  /** Executes the call. `runtime` returns services for wrappers. */
  readonly run: (context: ToolContext<Context>, runtime: () => ToolRuntime) => unknown;
  /**
   * True if the call needs an approval, or the function that decides. `undefined` for the setting
   * of the role.
   */
  readonly needsApproval: undefined | boolean | ((context: ToolContext<Context>) => unknown);
}

/**
 * A tool that another program executes, created by `defineTool` without `execute`. A call pauses
 * the run until its result is provided.
 */
export interface ExternalTool extends ToolDescriptor {
  /** Distinguishes the kinds of tools. */
  readonly kind: "external";
  /** Validates arguments. */
  bind(input: JsonValue, parsed?: JsonValue): Bound<undefined>;
}

/**
 * A tool that may start subagents, created by `defineDelegation`. While it waits for them, it
 * occupies no slot of `concurrency.toolCalls`.
 */
export interface DelegationTool<in Context = unknown> extends ToolDescriptor {
  /** Distinguishes the kinds of tools. */
  readonly kind: "delegation";
  /**
   * Validates arguments, and returns the function that executes the call, or the one subagent that
   * it requests.
   */
  bind(
    input: JsonValue,
    parsed?: JsonValue,
  ): Bound<((context: DelegationContext<Context>) => Promise<DelegationOutcome>) | SubagentRequest>;
}

/**
 * The tool `Finish`, whose arguments are the typed result of an agent. A valid call ends the
 * execution.
 */
export interface FinishTool extends ToolDescriptor {
  /** Distinguishes the kinds of tools. */
  readonly kind: "finish";
  /** Validates a typed result. */
  bind(input: JsonValue): Bound<JsonValue>;
}

/**
 * Any tool that a model may call. `kind` distinguishes the four types.
 *
 * @example
 * ```ts
 * function isLocal(tool: Tool): boolean {
 *   return tool.kind === "function" || tool.kind === "delegation";
 * }
 * ```
 */
export type Tool<Context = unknown> =
  | FunctionTool<Context>
  | DelegationTool<Context>
  | ExternalTool
  | FinishTool;

/**
 * The result of validating arguments: a call that can be executed, or the problems.
 *
 * @example
 * ```ts
 * const bound = search.bind({});
 * if (bound.type === "invalid")
 *   for (const { parameter, expected } of bound.problems) console.log(parameter, expected);
 * ```
 */
export type Bound<Use> =
  | {
      readonly type: "valid";
      /** The function or value by which the call is executed. */
      readonly use: Use;
      /** The arguments as JSON, after coercion. */
      readonly input: JsonValue;
      /**
       * The arguments that the tool gets, after the defaults and transforms of its schema. The
       * value need not be JSON.
       */
      readonly value: unknown;
    }
  /** Arguments that do not fit the schema. */
  | { readonly type: "invalid"; readonly problems: readonly ArgumentProblem[] };
