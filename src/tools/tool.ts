// A tool is a typed function that a model may call. A delegation is the one kind that may start subagents.

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

/** What is common to all kinds of tools. */
export interface ToolDescriptor {
  /** What the model calls it by. */
  readonly name: string;
  /** What the model reads about it. */
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Providers are asked to hold the model to the schema. Left out: as the model's options say. */
  readonly strictSchema?: boolean;
  readonly settings: ToolSettings;
  /** A call of it runs alone: after the calls before it in its reply, and before those after it. */
  readonly sequential: boolean;
}

/** A tool that works by itself: the common kind. `Context`: what it asks of the context of a run. */
export interface FunctionTool<in Context = unknown> extends ToolDescriptor {
  /** A tool that runs here. */
  readonly kind: "function";
  /** False: a call that was under way when its process died is not made once more. */
  readonly retryAfterCrash: boolean;
  /**
   * Checks arguments and, if they fit, closes over them. Pure. `parsed`: the value that the schema
   * made of them before. The use closes over a copy of that value, and nothing is parsed.
   */
  bind(input: JsonValue, parsed?: JsonValue): Bound<FunctionUse<Context>>;
}

/** What a call of a function tool may do. */
export interface FunctionUse<in Context = unknown> {
  /** `runtime` is called by wrappers that work with more than the context. */
  readonly run: (context: ToolContext<Context>, runtime: () => ToolRuntime) => unknown;
  /** Whether the call needs an approval: always, never, or as the function says of it. Undefined: as the role has it. */
  readonly needsApproval: undefined | boolean | ((context: ToolContext<Context>) => unknown);
}

/** A tool that is executed elsewhere: its calls pause the run until the result is handed in. */
export interface ExternalTool extends ToolDescriptor {
  /** A tool that is executed elsewhere. */
  readonly kind: "external";
  /** `parsed`: as for a function tool. */
  bind(input: JsonValue, parsed?: JsonValue): Bound<undefined>;
}

/** A tool that may start subagents. It holds no queue slot while it waits for them. */
export interface DelegationTool<in Context = unknown> extends ToolDescriptor {
  /** A tool that may start subagents. */
  readonly kind: "delegation";
  /** `parsed`: as for a function tool. What is bound is code, or the one subagent that a call asks for. */
  bind(
    input: JsonValue,
    parsed?: JsonValue,
  ): Bound<((context: DelegationContext<Context>) => Promise<DelegationOutcome>) | SubagentRequest>;
}

/** The tool whose arguments are the typed result of an agent: calling it well ends the execution. */
export interface FinishTool extends ToolDescriptor {
  /** The tool by which a typed result is given. */
  readonly kind: "finish";
  bind(input: JsonValue): Bound<JsonValue>;
}

/** Anything that a model may call. */
export type Tool<Context = unknown> =
  | FunctionTool<Context>
  | DelegationTool<Context>
  | ExternalTool
  | FinishTool;

/** Arguments that fit, with what they allow, and as JSON after coercion; or what is wrong with them. */
export type Bound<Use> =
  | {
      readonly type: "valid";
      readonly use: Use;
      readonly input: JsonValue;
      /** What the tool gets: with the defaults and transforms of its schema. Need not be JSON. */
      readonly value: unknown;
    }
  | { readonly type: "invalid"; readonly problems: readonly ArgumentProblem[] };
