// defineTool and defineDelegation: from what a user writes to a tool, checked and frozen.

import { checkFunction, checkKeys, checkText, misdefinition } from "../kernel/check.ts";
import { defined, type JsonObject } from "../kernel/json.ts";
import { toStrictSchema } from "../model/strict-schema.ts";
import { type InputSchema } from "./arguments/check-input.ts";
import { inputSchema, type InferInput, type ToolInput } from "./arguments/input-schema.ts";
import type { DelegationContext, DelegationOutcome, ToolContext } from "./tool-context.ts";
import { checkToolName } from "./check-tool.ts";
import { checkFlag, SETTING_FIELDS, toolSettings, type ToolSettings } from "./tool-settings.ts";
import { binding, delegationTool } from "./make-tool.ts";
import type { DelegationTool, ExternalTool, FunctionTool, ToolDescriptor } from "./tool.ts";

/** What all kinds of tools are defined by. */
export interface ToolBasics<Input extends ToolInput> {
  /** What the model calls it by: letters, digits, `_` and `-`, at most 64. */
  readonly name: string;
  /** What the model reads about it. */
  readonly description: string;
  /** Its arguments: a zod object schema, or `jsonSchema({ … })` for a tool from elsewhere. */
  readonly input: Input;
  /**
   * Converts arguments of another type where nothing is lost: the text "3" becomes the number 3.
   *
   * @default true
   */
  readonly coerceArguments?: boolean;
  /**
   * Whether providers that can are asked to hold the model to the schema: its arguments then have its shape, in the first call, too. What a
   * strict form cannot say, such as the length of a text, is checked here as ever. Default: as the model's options say.
   */
  readonly strictSchema?: boolean;
}

/** What `defineTool` takes. `Context`: what it asks of the context of a run. */
export interface ToolDefinition<Input extends ToolInput, Context = unknown>
  extends ToolBasics<Input>, ToolSettings {
  /**
   * Does the work. A text that it returns goes to the model as it is, nothing as an empty text, anything else as JSON; a value that is not
   * JSON is a failed call. `toolResult()` makes a result with attachments. May throw: the message of the error goes to the model as a result, and the run continues; see `ToolError` and
   * `ToolRetryError` for more. Called once per call, may run in parallel with itself; should end when `context.signal` is aborted.
   */
  readonly execute: (input: InferInput<Input>, context: ToolContext<Context>) => unknown;
  /**
   * Whether a call must be approved before it runs: always, or as the function decides, whose text is the reason that is shown.
   * The approver is asked, or the run pauses. Default: as the role's `toolDefaults` say, or never. If the function throws, the call is
   * refused.
   */
  readonly needsApproval?:
    | boolean
    | ((
        input: InferInput<Input>,
        context: ToolContext<Context>,
      ) => boolean | string | Promise<boolean | string>);
  /** A call of it runs alone: after the calls before it in its reply, and before those after it. Default false. */
  readonly sequential?: boolean;
  /**
   * Whether a call may be made once more that was under way when its process died, in a run that is recovered. Default true: right for
   * whatever only reads, and for work that is done once under `context.idempotencyKey`. False: the call is not repeated, and the model reads
   * that it is not known whether it took effect.
   */
  readonly retryAfterCrash?: boolean;
}

/** What `defineTool` takes for a tool that is executed elsewhere: the same without `execute`. */
export interface ExternalToolDefinition<Input extends ToolInput> extends ToolBasics<Input> {
  /** How often in a row the model is asked for a corrected call. Default 2. */
  readonly maxRetries?: number;
  /** Left out: that is what makes it one that is executed elsewhere. */
  readonly execute?: never;
}

/** What `defineDelegation` takes. `Context`: what it asks of the context of a run. */
export interface DelegationDefinition<
  Input extends ToolInput,
  Context = unknown,
> extends ToolBasics<Input> {
  /** How often in a row the model is asked for a corrected call. Default 2. */
  readonly maxRetries?: number;
  /**
   * Starts a subagent with `context.spawn`, or acts on running ones, and gives the outcome as it is. Holds no place in the queue of tool calls while it waits.
   * If the subagent is paused with the run, what comes after `spawn` does not run again: the call then has the subagent's own result.
   */
  readonly execute: (
    input: InferInput<Input>,
    context: DelegationContext<Context>,
  ) => DelegationOutcome | Promise<DelegationOutcome>;
}

const EXECUTE_ADVICE = "Pass a function, or leave it out for a tool that is executed elsewhere.";

const BASIC_FIELDS = ["name", "description", "input", "coerceArguments", "strictSchema"];
const EXTERNAL_FIELDS = [...BASIC_FIELDS, "maxRetries"];
const DELEGATION_FIELDS = [...EXTERNAL_FIELDS, "execute"];
const FUNCTION_FIELDS = [
  ...BASIC_FIELDS,
  "execute",
  "needsApproval",
  "sequential",
  "retryAfterCrash",
  ...SETTING_FIELDS,
];

/**
 * Defines a tool. Without `execute` it is one that is executed elsewhere: a call pauses the run until its result is handed in.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option` if the name, the description, the schema or a setting cannot be used.
 */
export function defineTool<Input extends ToolInput>(
  definition: ExternalToolDefinition<Input>,
): ExternalTool;
export function defineTool<Input extends ToolInput, Context = unknown>(
  definition: ToolDefinition<Input, Context>,
): FunctionTool<Context>;
export function defineTool<Input extends ToolInput>(
  definition: ToolDefinition<Input> | ExternalToolDefinition<Input>,
): FunctionTool | ExternalTool {
  checkKeys("tool", definition, FUNCTION_FIELDS);
  return isExternal(definition) ? checkedExternalTool(definition) : checkedFunctionTool(definition);
}

/**
 * Defines a tool that starts a subagent. The agent may start the roles in its `subagents`; any other is refused, and the model reads why.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`, as `defineTool`.
 */
export function defineDelegation<Input extends ToolInput, Context = unknown>(
  definition: DelegationDefinition<Input, Context>,
): DelegationTool<Context>;
export function defineDelegation<Input extends ToolInput>(
  definition: DelegationDefinition<Input>,
): DelegationTool {
  checkKeys("tool", definition, DELEGATION_FIELDS);
  const { execute } = definition;
  const { descriptor, schema } = buildDescriptor(definition);
  checkFunction(`${descriptor.name}.execute`, execute, EXECUTE_ADVICE);
  return delegationTool(descriptor, schema, execute);
}

/** Left out on purpose; an `execute` that is undefined is a slip. */
function isExternal<Input extends ToolInput>(
  definition: ToolDefinition<Input> | ExternalToolDefinition<Input>,
): definition is ExternalToolDefinition<Input> {
  return !("execute" in definition);
}

function checkedFunctionTool<Input extends ToolInput>(
  definition: ToolDefinition<Input>,
): FunctionTool {
  const { execute, needsApproval, sequential = false, retryAfterCrash = true } = definition;
  const { descriptor, schema } = buildDescriptor(definition);
  checkFunction(`${descriptor.name}.execute`, execute, EXECUTE_ADVICE);
  const isKnown = needsApproval === undefined || typeof needsApproval === "boolean";
  if (!isKnown && typeof needsApproval !== "function") {
    const advice = "Set true or false, or pass a function that decides per call.";
    const field = `${descriptor.name}.needsApproval`;
    throw misdefinition(field, "true, false or a function", needsApproval, advice);
  }
  checkFlag(`${descriptor.name}.sequential`, sequential);
  checkFlag(`${descriptor.name}.retryAfterCrash`, retryAfterCrash);
  return Object.freeze({
    ...descriptor,
    sequential,
    retryAfterCrash,
    kind: "function",
    bind: binding(schema, ({ value }) => ({
      run: (context) => execute(value, context),
      needsApproval:
        typeof needsApproval === "function"
          ? (context) => needsApproval(value, context)
          : needsApproval,
    })),
  } satisfies FunctionTool);
}

function checkedExternalTool<Input extends ToolInput>(
  definition: ExternalToolDefinition<Input>,
): ExternalTool {
  const { descriptor, schema } = buildDescriptor(definition);
  const foreign = Object.keys(definition).find((key) => !EXTERNAL_FIELDS.includes(key));
  if (foreign !== undefined) {
    const advice = "Leave it out: the program that executes the tool decides.";
    const got: unknown = Reflect.get(definition, foreign);
    throw misdefinition(`${descriptor.name}.${foreign}`, "left out without execute", got, advice);
  }
  const bind = binding(schema, () => undefined);
  return Object.freeze({ ...descriptor, kind: "external", bind });
}

/** What is checked of every definition, and made of it. */
function buildDescriptor<Input extends ToolInput>(
  definition: ToolBasics<Input> & ToolSettings,
): { readonly descriptor: ToolDescriptor; readonly schema: InputSchema<InferInput<Input>> } {
  const { name, description, input, coerceArguments = true, strictSchema } = definition;
  checkToolName("tool.name", name);
  checkText(`${name}.description`, description);
  checkFlag(`${name}.coerceArguments`, coerceArguments);
  const schema = inputSchema(`${name}.input`, input, { coerces: coerceArguments });
  if (strictSchema !== undefined) checkStrictSchema(name, strictSchema, schema.jsonSchema);
  const settings = SETTING_FIELDS.map((field) => [field, definition[field]] as const);
  const descriptor = {
    name,
    description,
    inputSchema: schema.jsonSchema,
    ...defined({ strictSchema }),
    settings: toolSettings(name, defined(Object.fromEntries(settings))),
    sequential: false,
  };
  return { descriptor, schema };
}

/** Throws unless the schema has the strict form that is asked for. */
function checkStrictSchema(name: string, isAsked: boolean, jsonSchema: JsonObject): void {
  const field = `${name}.strictSchema`;
  checkFlag(field, isAsked);
  const strict = toStrictSchema(jsonSchema);
  if (!isAsked || strict.isStrict) return;
  const expected = `false for an input without a strict form (${strict.reason})`;
  throw misdefinition(field, expected, isAsked, "Declare its fields, or leave strictSchema out.");
}
