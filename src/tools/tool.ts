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
  /**
   * Queues a delegation that the agent works off before its next model call; the result comes as a message (R13). What is queued
   * after the tool has returned goes nowhere. A role that the agent may not start is refused in that message.
   */
  queueSubtask(request: SpawnRequest): void;
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
  bind(input: unknown): Bound<FunctionUse>;
}

/** What a call of a function tool may do. */
export interface FunctionUse {
  run(context: ToolContext): ToolReturn;
  /** Whether the call needs an approval: always, never, or as the function says of it. */
  readonly needsApproval: boolean | ((context: ToolContext) => unknown);
}

/** A tool that somebody else executes: its calls pause the run until the result is handed in (R29). */
export interface ExternalTool extends ToolFace {
  readonly kind: "external";
  bind(input: unknown): Bound<undefined>;
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
export type Tool = FunctionTool | DelegationTool | ExternalTool | FinishTool;

/** Arguments that fit, with what they allow; or what is wrong with them. */
export type Bound<Use> =
  | { readonly type: "valid"; readonly use: Use }
  | { readonly type: "invalid"; readonly issues: readonly z.core.$ZodIssue[] };

/** What a tool may return: text goes to the model as it is, nothing as an empty text, anything else as JSON. What is no JSON is a failed call. */
export type ToolReturn = unknown;

interface ToolBasics<Input extends z.ZodType> {
  /** What the model calls it by: letters, digits, `_` and `-`, at most 64. */
  readonly name: string;
  /** What the model is told about it. */
  readonly description: string;
  /** A zod object schema of its arguments. */
  readonly input: Input;
}

/** What `defineTool` takes. */
export interface ToolDefinition<Input extends z.ZodType> extends ToolBasics<Input> {
  /**
   * Does the work. May throw: the message of the error goes to the model as a result, and the run goes on.
   * Called once per call, may run in parallel with itself; should heed `context.signal`.
   */
  readonly execute: (input: z.output<Input>, context: ToolContext) => ToolReturn;
  /**
   * Whether somebody must approve a call before it runs: always, or as the function decides, whose text is the reason that is shown.
   * The approver is asked, or the run pauses. Default: never. If the function throws, the call is refused.
   */
  readonly needsApproval?:
    | boolean
    | ((
        input: z.output<Input>,
        context: ToolContext,
      ) => boolean | string | Promise<boolean | string>);
}

/** What `defineTool` takes for a tool that is executed elsewhere: the same without `execute`. */
export interface ExternalToolDefinition<Input extends z.ZodType> extends ToolBasics<Input> {
  readonly execute?: never;
}

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const TOOL_FIELDS = ["name", "description", "input", "execute", "needsApproval"];

/**
 * Defines a tool. Without `execute` it is one that somebody else executes: a call pauses the run until its result is handed in.
 *
 * @throws EspalierError `invalid_definition` if the name, the description or the schema cannot be used.
 */
export function defineTool<Input extends z.ZodType>(
  definition: ExternalToolDefinition<Input>,
): ExternalTool;
export function defineTool<Input extends z.ZodType>(
  definition: ToolDefinition<Input>,
): FunctionTool;
export function defineTool<Input extends z.ZodType>(
  definition: ToolDefinition<Input> | ExternalToolDefinition<Input>,
): FunctionTool | ExternalTool {
  checkKeys("tool", definition, TOOL_FIELDS);
  const { name, description, input } = definition;
  const face = toolFace({ name, description, input });
  return isExternal(definition) ? externalTool(face, definition) : functionTool(face, definition);
}

/** Left out on purpose; an `execute` that is undefined is a slip. */
function isExternal<Input extends z.ZodType>(
  definition: ToolDefinition<Input> | ExternalToolDefinition<Input>,
): definition is ExternalToolDefinition<Input> {
  return !("execute" in definition);
}

function functionTool<Input extends z.ZodType>(
  face: ToolFace,
  definition: ToolDefinition<Input>,
): FunctionTool {
  const { execute, needsApproval = false } = definition;
  if (typeof execute !== "function") {
    const advice = "It does the work; left out, the tool is executed elsewhere.";
    throw misdefinition(`${face.name}.execute`, "a function", execute, advice);
  }
  if (typeof needsApproval !== "boolean" && typeof needsApproval !== "function") {
    const advice = "Say true, or decide call by call.";
    const field = `${face.name}.needsApproval`;
    throw misdefinition(field, "true, false or a function", needsApproval, advice);
  }
  return Object.freeze({
    ...face,
    kind: "function",
    bind: (input: unknown) =>
      bindWith(definition.input, input, (parsed) => ({
        run: (context: ToolContext) => execute(parsed, context),
        needsApproval:
          typeof needsApproval === "function"
            ? (context: ToolContext) => needsApproval(parsed, context)
            : needsApproval,
      })),
  });
}

function externalTool<Input extends z.ZodType>(
  face: ToolFace,
  definition: ExternalToolDefinition<Input>,
): ExternalTool {
  if ("needsApproval" in definition) {
    const advice = "Whoever executes it decides whether to.";
    const field = `${face.name}.needsApproval`;
    throw misdefinition(field, "left out without execute", definition.needsApproval, advice);
  }
  return Object.freeze({
    ...face,
    kind: "external",
    bind: (input: unknown) => bindWith(definition.input, input, () => undefined),
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
