// defineTool and defineDelegation: validate and freeze the user's definitions of tools.

import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkText,
  mismatch,
} from "../kernel/argument-checks.ts";
import { adviseOnOption } from "../kernel/option-names.ts";
import { omitUndefined, type JsonObject } from "../kernel/json.ts";
import { toStrictSchema } from "../model/strict-schema.ts";
import { type InputSchema } from "./arguments/check-input.ts";
import { compileInput, type InferInput, type ToolInput } from "./arguments/input-schema.ts";
import type { DelegationContext, DelegationOutcome, ToolContext } from "./tool-context.ts";
import { checkToolName } from "./check-tool.ts";
import { SETTING_FIELDS, checkToolSettings, type ToolSettings } from "./tool-settings.ts";
import { createBinding, createDelegationTool } from "./make-tool.ts";
import type { DelegationTool, ExternalTool, FunctionTool, ToolDescriptor } from "./tool.ts";

/** Options that all kinds of tools share. */
export interface ToolBasics<Input extends ToolInput> {
  /** The name by which the model calls the tool. 1 to 64 letters, digits, `_` and `-`. */
  readonly name: string;
  /**
   * The description that the model reads to decide when and how to call the tool.
   *
   * @example
   * ```ts
   * const getWeather = defineTool({
   *   name: "get_weather",
   *   description: "Returns today's weather of a city. Give the city's name in English.",
   *   inputSchema: z.object({ city: z.string() }),
   *   execute: ({ city }) => `Sunny in ${city}, 21 °C.`,
   * });
   * ```
   */
  readonly description: string;
  /**
   * The schema of the arguments: `z.object({ … })`, or `jsonSchema({ … })` for a schema that is not
   * written in TypeScript.
   *
   * @example
   * ```ts
   * const input = z.object({
   *   plant: z.string().describe("Name of the plant, in English"),
   *   count: z.int().min(1).max(100),
   * });
   * ```
   */
  readonly inputSchema:
    | Input
    | {
        readonly "Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere": never;
      };
  /**
   * Converts an argument to the type in the schema if the conversion is lossless, such as the text
   * `"3"` to the number `3`.
   *
   * @default true
   */
  readonly coerceArguments?: boolean;
  /**
   * Requests that the provider restricts the model to the schema, so that the first call already
   * fits. Rules that a strict schema cannot express, such as the length of a text, are still
   * checked here.
   *
   * `true` is refused for a schema that has no strict form.
   *
   * @default the option of the model's adapter
   */
  readonly strictSchema?: boolean;
}

/**
 * Options of `defineTool` for a tool that runs in this process.
 *
 * `Context` is the type of the run context that the tool reads. Declare it as the type of the
 * second parameter of `execute`.
 *
 * @example
 * ```ts
 * const definition: ToolDefinition<ToolInput, { readonly userId: string }> = {
 *   name: "my_orders",
 *   description: "Lists the orders of the user.",
 *   inputSchema: z.object({}),
 *   execute: async (_input, { context }) => {
 *     const response = await fetch(`https://shop.example/orders/${context.userId}`);
 *     return await response.text();
 *   },
 * };
 * ```
 */
export interface ToolDefinition<Input extends ToolInput, Context = unknown>
  extends ToolBasics<Input>, ToolSettings {
  /**
   * Executes one call and returns its result for the model.
   *
   * - A text reaches the model unchanged, `undefined` as an empty text, and any other value as
   *   JSON. A value that JSON cannot represent fails the call.
   * - `toolResult()` adds structured data and attachments such as images.
   * - A thrown error fails the call: the model reads its message and the run continues. `ToolError`
   *   and `ToolRetryError` say more.
   *
   * Calls may run in parallel. The function should stop when `context.signal` is aborted.
   *
   * @example
   * ```ts
   * const readPage = defineTool({
   *   name: "read_page",
   *   description: "Returns the text of a web page.",
   *   inputSchema: z.object({ url: z.url() }),
   *   execute: async ({ url }, { signal }) => {
   *     const response = await fetch(url, { signal });
   *     return await response.text();
   *   },
   * });
   * ```
   */
  readonly execute: (input: InferInput<Input>, context: ToolContext<Context>) => unknown;
  /**
   * Requires an approval before a call runs: always, or as a function of the arguments decides. A
   * text that the function returns requires one too, and is the reason shown.
   *
   * The question goes to the `approver`. Without an answer the run pauses. If the function throws,
   * the call is denied.
   *
   * @default `toolDefaults.needsApproval` of the role, otherwise false
   *
   * @example
   * ```ts
   * const refund = defineTool({
   *   name: "refund",
   *   description: "Refunds an order.",
   *   inputSchema: z.object({ orderId: z.string(), amountUsd: z.number() }),
   *   needsApproval: ({ amountUsd }) => amountUsd > 100 && `Refunds ${amountUsd} US dollars.`,
   *   execute: ({ orderId }) => ({ refunded: orderId }),
   * });
   * ```
   */
  readonly needsApproval?:
    | boolean
    | ((
        input: InferInput<Input>,
        context: ToolContext<Context>,
      ) => boolean | string | Promise<boolean | string>);
  /**
   * Runs each call alone: after the earlier calls of the same reply, and before the later ones.
   *
   * @default false
   */
  readonly sequential?: boolean;
  /**
   * Repeats a call that was running when its process crashed, once the run is recovered. `true`
   * suits tools that only read, or that pass `context.idempotencyKey` to the service that they
   * call. With `false` the call is not repeated, and the model reads that its effect is unknown.
   *
   * @default true
   *
   * @example
   * ```ts
   * const sendMail = defineTool({
   *   name: "send_mail",
   *   description: "Sends an e-mail.",
   *   inputSchema: z.object({ to: z.email(), text: z.string() }),
   *   retryAfterCrash: false, // a mail must not be sent twice
   *   execute: async ({ to, text }) => {
   *     const { status } = await fetch(`https://mail.example/${to}`, { method: "POST", body: text });
   *     return { status };
   *   },
   * });
   * ```
   */
  readonly retryAfterCrash?: boolean;
}

/**
 * Options of `defineTool` for a tool that another program executes: those of any tool, without
 * `execute`.
 *
 * A call pauses the run, unless the `approver` provides the result. The run continues with
 * `provideResult(question, value)`.
 *
 * @example
 * ```ts
 * const definition: ExternalToolDefinition<ToolInput> = {
 *   name: "pick_file",
 *   description: "Lets the user pick a file in the browser.",
 *   inputSchema: z.object({ title: z.string() }),
 * };
 * ```
 */
export interface ExternalToolDefinition<Input extends ToolInput> extends ToolBasics<Input> {
  /**
   * Number of corrected calls in a row that the model may make after invalid arguments.
   *
   * @default `toolDefaults.maxRetries` of the role, otherwise 2
   */
  readonly maxRetries?: number;
  /** Not allowed. Leaving `execute` out makes the tool an external one. */
  readonly execute?: never;
}

/**
 * Options of `defineDelegation`.
 *
 * `Context` is the type of the run context that the delegation reads.
 */
export interface DelegationDefinition<
  Input extends ToolInput,
  Context = unknown,
> extends ToolBasics<Input> {
  /**
   * Number of corrected calls in a row that the model may make after invalid arguments.
   *
   * @default `toolDefaults.maxRetries` of the role, otherwise 2
   */
  readonly maxRetries?: number;
  /**
   * Starts a subagent with `context.spawn`, or acts on running subagents, and returns the outcome
   * unchanged. While it waits, it occupies no slot of `concurrency.toolCalls`.
   *
   * If a subagent pauses, `spawn` resolves with `{ type: "paused" }`, and the run pauses whatever
   * the code then returns or throws. After the resumption the code does not run again: the result
   * of the call is the result of the subagent. Further paused subagents report in messages. To
   * change the result in each case, use an `afterTool` hook. To continue without a paused subagent,
   * cancel it with `context.subagents`.
   *
   * @example
   * ```ts
   * const research = defineDelegation({
   *   name: "research",
   *   description: "Researches a topic and returns a short report.",
   *   inputSchema: z.object({ topic: z.string() }),
   *   execute: ({ topic }, { spawn }) => spawn({ role: "researcher", task: `Research ${topic}.` }),
   * });
   * ```
   */
  readonly execute: (
    input: InferInput<Input>,
    context: DelegationContext<Context>,
  ) => DelegationOutcome | Promise<DelegationOutcome>;
}

/** A definition whose `inputSchema` is a schema, which `inputSchema()` validates. */
type WithSchema<Definition, Input> = Definition & { readonly inputSchema: Input };

const EXECUTE_ADVICE = "Pass a function, or leave it out for a tool that is executed elsewhere.";

const BASIC_FIELDS = ["name", "description", "inputSchema", "coerceArguments", "strictSchema"];
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
 * Defines an external tool: a tool without `execute`, which another program executes. A call pauses
 * the run until its result is provided.
 *
 * @throws EspalierError `invalid_argument` if the name, the description or the schema cannot be
 * used.
 * @throws EspalierError `invalid_argument` if a field is unknown, or a setting is out of range.
 *
 * @example
 * ```ts
 * const pickDate = defineTool({
 *   name: "pick_date",
 *   description: "Asks the user to pick a date.",
 *   inputSchema: z.object({ title: z.string() }),
 * });
 * const { pausedRun } = await orchestrator.start(role, "Book a table.").result;
 * const answers = pausedRun?.questions.map((one) => provideResult(one, "2027-01-15")) ?? [];
 * if (pausedRun) await orchestrator.resume(pausedRun, { answers }).result;
 * ```
 */
export function defineTool<Input extends ToolInput>(
  definition: ExternalToolDefinition<Input>,
): ExternalTool;
/**
 * Defines a tool: a function that the model may call with arguments that fit a schema.
 *
 * @throws EspalierError `invalid_argument` if the name, the description or the schema cannot be
 * used.
 * @throws EspalierError `invalid_argument` if a field is unknown, or a setting is out of range.
 *
 * @example
 * ```ts
 * const getWeather = defineTool({
 *   name: "get_weather",
 *   description: "Returns today's weather of a city.",
 *   inputSchema: z.object({ city: z.string() }),
 *   execute: ({ city }) => ({ city, weather: "sunny", celsius: 21 }),
 * });
 * ```
 */
export function defineTool<Input extends ToolInput, Context = unknown>(
  definition: ToolDefinition<Input, Context>,
): FunctionTool<Context>;
export function defineTool<Input extends ToolInput>(
  definition: WithSchema<ToolDefinition<Input> | ExternalToolDefinition<Input>, Input>,
): FunctionTool | ExternalTool {
  checkKeys("tool", definition, FUNCTION_FIELDS, adviseOnOption);
  return isExternal(definition) ? createExternalTool(definition) : createFunctionTool(definition);
}

/**
 * Defines a tool that starts a subagent, with arguments of your choice instead of the arguments of
 * `SpawnSubagent`.
 *
 * The calling agent may start only the roles in its `subagents`. Any other role is refused, and the
 * model reads the reason.
 *
 * @throws EspalierError `invalid_argument` if the name, the description, the schema or `execute`
 * cannot be used.
 * @throws EspalierError `invalid_argument` if a field is unknown, or a setting is out of range.
 *
 * @example
 * ```ts
 * const research = defineDelegation({
 *   name: "research",
 *   description: "Researches a topic and returns a short report.",
 *   inputSchema: z.object({ topic: z.string() }),
 *   execute: ({ topic }, { spawn }) => spawn({ role: "researcher", task: `Research ${topic}.` }),
 * });
 * const lead = defineAgent({
 *   name: "lead",
 *   instructions: "Delegate.",
 *   model,
 *   tools: [research],
 *   subagents: [researcher],
 * });
 * ```
 */
export function defineDelegation<Input extends ToolInput, Context = unknown>(
  definition: DelegationDefinition<Input, Context>,
): DelegationTool<Context>;
export function defineDelegation<Input extends ToolInput>(
  definition: WithSchema<DelegationDefinition<Input>, Input>,
): DelegationTool {
  checkKeys("tool", definition, DELEGATION_FIELDS, adviseOnOption);
  const { execute } = definition;
  const { descriptor, schema } = buildDescriptor(definition);
  const advice = "Pass a function that returns the result of context.spawn().";
  checkFunction(`${descriptor.name}.execute`, execute, advice);
  return createDelegationTool(descriptor, schema, execute);
}

/** Returns true if `execute` is left out. An `execute` that is `undefined` is a mistake. */
function isExternal<Input extends ToolInput>(
  definition: ToolDefinition<Input> | ExternalToolDefinition<Input>,
): definition is WithSchema<ExternalToolDefinition<Input>, Input> {
  return !("execute" in definition);
}

function createFunctionTool<Input extends ToolInput>(
  definition: WithSchema<ToolDefinition<Input>, Input>,
): FunctionTool {
  const { execute, needsApproval, sequential = false, retryAfterCrash = true } = definition;
  const { descriptor, schema } = buildDescriptor(definition);
  checkFunction(`${descriptor.name}.execute`, execute, EXECUTE_ADVICE);
  const isKnown = needsApproval === undefined || typeof needsApproval === "boolean";
  if (!isKnown && typeof needsApproval !== "function") {
    const advice = "Set true or false, or pass a function that decides per call.";
    const field = `${descriptor.name}.needsApproval`;
    throw mismatch(field, "true, false or a function", needsApproval, advice);
  }
  checkBoolean(`${descriptor.name}.sequential`, sequential);
  checkBoolean(`${descriptor.name}.retryAfterCrash`, retryAfterCrash);
  return Object.freeze({
    ...descriptor,
    sequential,
    retryAfterCrash,
    kind: "function",
    bind: createBinding(schema, ({ value }) => ({
      run: (context) => execute(value, context),
      needsApproval:
        typeof needsApproval === "function"
          ? (context) => needsApproval(value, context)
          : needsApproval,
    })),
  } satisfies FunctionTool);
}

function createExternalTool<Input extends ToolInput>(
  definition: WithSchema<ExternalToolDefinition<Input>, Input>,
): ExternalTool {
  const { descriptor, schema } = buildDescriptor(definition);
  const foreign = Object.keys(definition).find((key) => !EXTERNAL_FIELDS.includes(key));
  if (foreign !== undefined) {
    const advice = "Leave it out: the program that executes the tool decides.";
    const got: unknown = Reflect.get(definition, foreign);
    throw mismatch(`${descriptor.name}.${foreign}`, "left out without execute", got, advice);
  }
  const bind = createBinding(schema, () => undefined);
  return Object.freeze({ ...descriptor, kind: "external", bind });
}

/**
 * Checks the fields that all definitions share, and returns the descriptor and the compiled schema.
 */
function buildDescriptor<Input extends ToolInput>(
  definition: WithSchema<ToolBasics<Input> & ToolSettings, Input>,
): { readonly descriptor: ToolDescriptor; readonly schema: InputSchema<InferInput<Input>> } {
  const {
    name,
    description,
    inputSchema: input,
    coerceArguments = true,
    strictSchema,
  } = definition;
  checkToolName("tool.name", name);
  checkText(`${name}.description`, description);
  checkBoolean(`${name}.coerceArguments`, coerceArguments);
  const schema = compileInput(`${name}.inputSchema`, input, { coerces: coerceArguments });
  if (strictSchema !== undefined) checkStrictSchema(name, strictSchema, schema.jsonSchema);
  const settings = SETTING_FIELDS.map((field) => [field, definition[field]] as const);
  const descriptor = {
    name,
    description,
    inputSchema: schema.jsonSchema,
    ...omitUndefined({ strictSchema }),
    settings: checkToolSettings(name, omitUndefined(Object.fromEntries(settings))),
    sequential: false,
  };
  return { descriptor, schema };
}

/** Throws unless the schema has the requested strict form. */
function checkStrictSchema(name: string, isAsked: boolean, jsonSchema: JsonObject): void {
  const field = `${name}.strictSchema`;
  checkBoolean(field, isAsked);
  const strict = toStrictSchema(jsonSchema);
  if (!isAsked || strict.isStrict) return;
  const expected = `false for an input without a strict form (${strict.reason})`;
  throw mismatch(field, expected, isAsked, "Declare its fields, or leave strictSchema out.");
}
