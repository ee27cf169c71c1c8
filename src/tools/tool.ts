// A tool is a typed function that a model may call. A delegation is the one kind that may start subagents.

import { z } from "zod";

import { checkKeys, checkName, checkText, misdefinition } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import { deepFreeze, type JsonObject, type JsonValue } from "../kernel/json.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import type { AgentId, CallId, ExecutionId, RunId } from "../protocol/ids.ts";
import type { SpawnOutcome, SpawnRequest } from "../protocol/subagent.ts";

/** What a tool may know of the call it serves. Read-only; each call has its own. */
export interface ToolContext {
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** Place of the calling agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  readonly executionId: ExecutionId;
  /** From 1. */
  readonly stepNumber: number;
  readonly callId: CallId;
  /** Aborted when the call must end; its `reason` is a `CancelReason`. Heed it: after a grace period the result is discarded. */
  readonly signal: AbortSignal;
  /** The agent's metadata: given at the start of the run, or inherited. Frozen. */
  readonly metadata: JsonObject;
}

/** What a delegation gets besides: the means to start a subagent. */
export interface DelegationContext extends ToolContext {
  /** Starts a subagent and waits for its end. Never rejects: a refusal and a failure are outcomes. */
  spawn(request: SpawnRequest): Promise<SpawnOutcome>;
}

interface ToolFace {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

/** A tool that works by itself: the common kind. */
export interface FunctionTool extends ToolFace {
  readonly kind: "function";
  /** Checks arguments and, if they fit, closes over them. Pure. */
  bind(input: unknown): Bound<(context: ToolContext) => ToolReturn>;
}

/** A tool that may start subagents. It holds no queue slot while it waits for them (S1). */
export interface DelegationTool extends ToolFace {
  readonly kind: "delegation";
  bind(input: unknown): Bound<(context: DelegationContext) => Promise<SpawnOutcome>>;
}

/** The tool whose arguments are the typed result of an agent: calling it well ends the execution. */
export interface FinishTool extends ToolFace {
  readonly kind: "finish";
  bind(input: unknown): Bound<JsonValue>;
}

/** Anything that a model may call. */
export type Tool = FunctionTool | DelegationTool | FinishTool;

/** Arguments that fit, with what they allow; or what is wrong with them. */
export type Bound<Use> =
  | { readonly type: "valid"; readonly use: Use }
  | { readonly type: "invalid"; readonly issues: readonly z.core.$ZodIssue[] };

/** What a tool may return: text goes to the model as it is, nothing as an empty text, anything else as JSON. What is no JSON is a failed call. */
export type ToolReturn = unknown;

/** What `defineTool` takes. */
export interface ToolDefinition<Input extends z.ZodType> {
  /** What the model calls it by: letters, digits, `_` and `-`, at most 64. */
  readonly name: string;
  /** What the model is told about it. */
  readonly description: string;
  /** A zod object schema of its arguments. */
  readonly input: Input;
  /**
   * Does the work. May throw: the message of the error goes to the model as a result, and the run goes on.
   * Called once per call, may run in parallel with itself; should heed `context.signal`.
   */
  readonly execute: (input: z.output<Input>, context: ToolContext) => ToolReturn;
}

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Defines a tool.
 *
 * @throws EspalierError `invalid_definition` if the name, the description or the schema cannot be used.
 */
export function defineTool<Input extends z.ZodType>(
  definition: ToolDefinition<Input>,
): FunctionTool {
  checkKeys("tool", definition, ["name", "description", "input", "execute"]);
  const { name, description, input } = definition;
  const face = toolFace({ name, description, input });
  if (typeof definition.execute !== "function") {
    const field = `${definition.name}.execute`;
    throw misdefinition(field, "a function", definition.execute, "It does the work.");
  }
  return Object.freeze({
    ...face,
    kind: "function",
    bind: (input: unknown) =>
      bindWith(
        definition.input,
        input,
        (parsed) => (context: ToolContext) => definition.execute(parsed, context),
      ),
  });
}

/** What the model sees of a tool: checked name and description, and the schema as JSON Schema. */
export function toolFace(face: {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType;
  /** What the user calls the schema, for errors. Default: `<name>.input`. */
  readonly field?: string;
}): ToolFace {
  const { name, description, input } = face;
  checkName("tool.name", name, TOOL_NAME);
  checkText(`${name}.description`, description);
  return { name, description, inputSchema: jsonSchemaOf(face.field ?? `${name}.input`, input) };
}

/** Parses `input` and hands what fits to `use`. */
export function bindWith<Schema extends z.ZodType, Use>(
  schema: Schema,
  input: unknown,
  use: (parsed: z.output<Schema>) => Use,
): Bound<Use> {
  try {
    const parsed = schema.safeParse(input);
    return parsed.success
      ? { type: "valid", use: use(parsed.data) }
      : { type: "invalid", issues: parsed.error.issues };
  } catch (cause) {
    // A refinement of the user's that throws has not accepted the input either.
    return {
      type: "invalid",
      issues: [{ code: "custom", path: [], message: messageOf(cause), input }],
    };
  }
}

function jsonSchemaOf(field: string, input: z.ZodType): JsonObject {
  if (!(input instanceof z.ZodType)) {
    throw misdefinition(field, "a zod object schema", input, "Use z.object({ … }).");
  }
  let schema: unknown;
  try {
    schema = z.toJSONSchema(input, { io: "input" });
  } catch (cause) {
    throw new EspalierError({
      code: "invalid_definition",
      message: `Expected ${field} to be a schema that JSON Schema can express, got one that it cannot: ${messageOf(cause)}. Use plain types.`,
      data: { field },
      cause,
    });
  }
  const object = JsonObjectSchema.parse(schema);
  if (object["type"] !== "object") {
    throw misdefinition(field, "a zod object schema", object["type"], "Use z.object({ … }).");
  }
  const { $schema: _dialect, ...rest } = object;
  return deepFreeze(rest);
}
