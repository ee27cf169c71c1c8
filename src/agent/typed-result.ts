// The typed result of a role: its schema, and whether the model returns it by a call of Finish or
// as text.

import { z } from "zod";

import { mismatch } from "../kernel/argument-checks.ts";
import { sha256 } from "../kernel/crypto.ts";
import { EspalierError } from "../kernel/error.ts";
import {
  stringifyCanonical,
  isJsonList,
  isRecord,
  sameJson,
  isJsonObject,
  deepFreeze,
  findValueAtPath,
  type JsonObject,
  type JsonValue,
} from "../kernel/json.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { OutputSchema } from "../model/model.ts";
import { truncateText } from "../kernel/sentence.ts";
import type { ToolChoice } from "../protocol/model-settings.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { parseRawArguments } from "../tools/bind-call.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { copyForeignJson, NotJsonError } from "../kernel/json-copy.ts";
import { getOrCompute } from "../model/memoized-values.ts";
import { toStrictSchema, removeAddedNulls } from "../model/strict-schema.ts";
import { JsonValueSchema } from "../protocol/json-value.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import { compileInput, type ToolInput } from "../tools/arguments/input-schema.ts";
import { createBinding } from "../tools/make-tool.ts";
import type { FinishTool } from "../tools/tool.ts";
import type { ExecutionLog, OutputParse } from "./agent-state.ts";
import {
  collectArgumentProblems,
  describeProblemLines,
  type ArgumentProblem,
} from "../tools/arguments/argument-problems.ts";
import type { Issues, Path } from "../tools/arguments/validation-issue.ts";
import type { AgentRole } from "./agent-role.ts";

/**
 * Creates the tool whose arguments are the agent's result. Invalid arguments are returned to the
 * model; the loop limits how often.
 */
export function finishTool(field: string, output: ToolInput): FinishTool {
  if (output instanceof z.ZodType) refuseLoose(field, output);
  const isWrapped = output instanceof z.ZodType && isWrappedSchema(output);
  const shape = isWrapped ? z.object({ [WRAPPING_KEY]: output }) : output;
  const schema = compileInput(field, shape, { coerces: true });
  const { jsonSchema } = schema;
  const bind = createBinding(schema, ({ value, input }) => {
    // A JSON Schema does not transform the arguments.
    if (!(output instanceof z.ZodType)) return input;
    const { [WRAPPING_KEY]: wrapped = null } = isRecord(value) ? value : {};
    return copyJsonResult(field, isWrapped ? wrapped : value);
  });
  const hasStrictForm = toStrictSchema(jsonSchema).isStrict;
  const check = (input: JsonValue): ReturnType<FinishTool["bind"]> =>
    bind(hasStrictForm ? removeAddedNulls(input, jsonSchema) : input);
  return Object.freeze({
    name: FINISH_TOOL_NAME,
    description: "Ends your work with your result. Call it once, alone, when you are done.",
    inputSchema: jsonSchema,
    settings: UNBOUNDED,
    sequential: false,
    kind: "finish",
    bind: isWrapped ? (input: JsonValue) => checkWrappedResult(check, input) : check,
  });
}

/**
 * Checks a result with or without its wrapping key. The key may also be a field of the result
 * itself.
 */
function checkWrappedResult(
  check: FinishTool["bind"],
  input: JsonValue,
): ReturnType<FinishTool["bind"]> {
  const bare = wrapResult(input);
  if (!isRecord(input) || !(WRAPPING_KEY in input)) return check(bare);
  const checked = check(input);
  const checkedText = checked.type === "valid" ? checked : check(bare);
  return checkedText.type === "valid" ? checkedText : checked;
}

const UNBOUNDED = Object.freeze({ maxRetries: Number.MAX_SAFE_INTEGER });

/**
 * The key that wraps a result other than a plain object, because arguments, and the schemas with
 * which providers constrain a model, must be objects. A model may omit the key.
 */
const WRAPPING_KEY = "result";

/** Returns a copy of a schema's output. Throws `invalid_argument` if it is not JSON. */
function copyJsonResult(field: string, value: unknown): JsonValue {
  try {
    return JsonValueSchema().parse(copyForeignJson(value));
  } catch (cause) {
    if (!(cause instanceof NotJsonError)) throw cause;
    const { place, got } = cause;
    const expected = `a schema whose results are JSON${place === "" ? "" : ` at ${place}`}`;
    throw new EspalierError({
      code: "invalid_argument",
      message: `Expected ${field} to be ${expected}, got ${got}. Correct its transform.`,
      data: { field, expected, got },
      cause,
    });
  }
}

/** A typed result and how it was parsed. */
export type ParsedOutput = Pick<ExecutionLog, "output" | "outputParse">;

/** Returns a typed result in the form of the log. `schema` is the `output` of the role. */
export function createParsedOutput(
  schema: ToolInput,
  { use: output, input }: { readonly use: JsonValue; readonly input: JsonValue },
): ParsedOutput {
  const isAsWritten = sameJson(input, output) || sameJson(input, wrapResult(output));
  const written = isAsWritten ? {} : { written: input };
  return { output, outputParse: { schemaHash: hashOutputSchema(schema), ...written } };
}

const hashes = new WeakMap<ToolInput, string>();

/**
 * Returns a hash of the JSON Schemas of an `output`'s input and output, so that an added or removed
 * transform changes the hash.
 */
function hashOutputSchema(schema: ToolInput): string {
  return getOrCompute(hashes, schema, (output) => {
    const shapes =
      output instanceof z.ZodType
        ? IO.map((io) => z.toJSONSchema(output, { io, unrepresentable: "any" }))
        : output.schema;
    return sha256(stringifyCanonical(shapes));
  });
}

const IO = ["input", "output"] as const;

/** Returns a result in the form of the arguments of `Finish`, for results other than objects. */
function wrapResult(output: JsonValue): JsonObject {
  return { [WRAPPING_KEY]: output };
}

/** True if the schema, without pipes and other wrappers, describes something else than an object. */
function isWrappedSchema(schema: z.core.$ZodType): boolean {
  if (schema instanceof z.core.$ZodPipe) return isWrappedSchema(schema._zod.def.in);
  if (schema instanceof z.core.$ZodReadonly) return isWrappedSchema(schema._zod.def.innerType);
  if (schema instanceof z.core.$ZodLazy) return isWrappedSchema(schema._zod.def.getter());
  return WRAPPED_TYPES.some((type) => schema instanceof type);
}

/** Nullable schemas are unions too. */
const WRAPPED_TYPES = [
  z.core.$ZodArray,
  z.core.$ZodTuple,
  z.core.$ZodUnion,
  z.core.$ZodNullable,
  z.core.$ZodString,
  z.core.$ZodNumber,
  z.core.$ZodBoolean,
  z.core.$ZodEnum,
  z.core.$ZodLiteral,
] as const;

/**
 * Throws `invalid_argument` for an optional or default value other than an object, which has to be
 * a field of an object.
 */
function refuseLoose(field: string, schema: z.ZodType): void {
  const isLoose = LOOSE.some((type) => schema instanceof type);
  const inner = isLoose && "innerType" in schema._zod.def ? schema._zod.def.innerType : undefined;
  if (!(inner instanceof z.core.$ZodType) || !isWrappedSchema(inner)) return;
  throw mismatch(
    field,
    "an object, an array, a union or a plain value",
    `one under ${schema._zod.def.type}()`,
    "Wrap it in an object: z.object({ result: … }).",
  );
}

const LOOSE = [
  z.core.$ZodOptional,
  z.core.$ZodDefault,
  z.core.$ZodPrefault,
  z.core.$ZodCatch,
] as const;

/**
 * Returns the fields of a stored result that the role does not allow. Empty in three
 * cases: the schema has parsed the result, it produces the stored value from the model's text, or
 * it leaves the stored value unchanged.
 */
export function findOutputProblems(
  { output: schema, finish }: Pick<AgentRole, "output" | "finish">,
  output: JsonValue,
  parse: OutputParse | undefined,
): readonly ArgumentProblem[] {
  if (schema === undefined || finish === undefined) return NO_OUTPUT;
  if (parse?.schemaHash === hashOutputSchema(schema)) return [];
  const again = finish.bind(parse?.written ?? output);
  const attempts = [again, finish.bind(output), finish.bind(wrapResult(output))];
  if (attempts.some((bound) => bound.type === "valid" && sameJson(bound.use, output))) return [];
  if (again.type === "invalid") return again.problems;
  return collectArgumentProblems(output, findDifferences(output, again.use));
}

/** The problem of any result of a role without `output`. */
export const NO_OUTPUT: readonly ArgumentProblem[] = [
  { parameter: "", expected: "no result, since the role has no output", received: "a result" },
];

/** Returns the parts of a stored value that differ from the expected value. */
function findDifferences(
  stored: JsonValue | undefined,
  expected: JsonValue | undefined,
  path: Path = [],
): Issues {
  if (expected === undefined) return [{ path, keyword: "additionalProperties" }];
  if (sameJson(stored, expected)) return [];
  const isSameKind =
    (isJsonObject(stored) && isJsonObject(expected)) ||
    (isJsonList(stored) && isJsonList(expected));
  if (!isSameKind) return [{ path, keyword: "enum", values: [expected] }];
  const keys = new Set([...Object.keys(expected), ...Object.keys(stored)]);
  return [...keys].flatMap((key) =>
    findDifferences(findValueAtPath(stored, [key]), findValueAtPath(expected, [key]), [
      ...path,
      key,
    ]),
  );
}

// How the result is requested: natively, if the provider constrains the model to a schema, or by a
// call of Finish.

/**
 * Returns the mode in a definition. Throws `invalid_argument` if it is invalid, or if the role
 * has no typed result.
 */
export function resolveOutputMode(
  field: string,
  mode: unknown,
  hasOutput: boolean,
): AgentRole["outputMode"] {
  if (mode === undefined) return "auto";
  if (!hasOutput) throw mismatch(field, "left out", mode, "Leave it out, or set output.");
  if (mode === "auto" || mode === "native" || mode === "tool") return mode;
  throw mismatch(field, '"auto", "native" or "tool"', mode, "Leave it out for auto.");
}

/**
 * Throws `invalid_argument` if the role requires a native result and its model does not support
 * it.
 */
export function requireNative({
  name,
  outputMode,
  model,
}: Pick<AgentRole, "name" | "outputMode" | "model">): void {
  if (outputMode !== "native" || model.supportsStructuredOutputs === true) return;
  const advice = `${model.id} does not declare native results. Use auto or tool, or set supportsStructuredOutputs: true on the model if its server supports them.`;
  throw mismatch(`${name}.outputMode`, "a mode that its model supports", outputMode, advice);
}

/**
 * Returns the schema that constrains the model, given the hooks. `undefined` if the model calls
 * `Finish`.
 */
export function findNativeOutputSchema(role: AgentRole, hooks: HookSet): OutputSchema | undefined {
  const { finish, outputMode, model, toolChoice } = role;
  if (finish === undefined) return undefined;
  const isNative =
    outputMode === "auto"
      ? model.supportsStructuredOutputs === true &&
        !isFinishWatched(hooks) &&
        !isFinishChosen(toolChoice)
      : outputMode === "native";
  return isNative ? getOrCompute(outputs, finish, createOutputSchema) : undefined;
}

/** Schemas by tool, so that all agents of a role share one value. */
const outputs = new WeakMap<FinishTool, OutputSchema>();

function createOutputSchema({ inputSchema }: FinishTool): OutputSchema {
  const strict = toStrictSchema(inputSchema);
  return deepFreeze({
    name: "result",
    schema: strict.isStrict ? strict.schema : inputSchema,
    strict: strict.isStrict,
  });
}

/** True if hooks around Finish see or change results. A result given as text would bypass them. */
function isFinishWatched(hooks: HookSet): boolean {
  return (["beforeTool", "afterTool"] as const).some(
    (point) => hooks.chain(point, FINISH_TOOL_NAME).length > 0,
  );
}

function isFinishChosen(choice: ToolChoice | undefined): boolean {
  if (typeof choice !== "object") return false;
  return ("toolName" in choice ? [choice.toolName] : choice.toolNames).includes(FINISH_TOOL_NAME);
}

/** True if the agent may give its typed result as JSON text instead of calling Finish. */
export function isTextResultAccepted({ role, hooks, nativeOutputSchema }: AgentRuntime): boolean {
  const isOnlyByTool = nativeOutputSchema === undefined && isFinishWatched(hooks);
  return role.finish !== undefined && !isOnlyByTool;
}

/**
 * Checks a text against the schema of the result. `undefined` if the text is not JSON, or texts are
 * not accepted.
 */
export function parseTextResult(
  agent: AgentRuntime,
  text: string,
): ReturnType<FinishTool["bind"]> | undefined {
  const { finish } = agent.role;
  if (finish === undefined || !isTextResultAccepted(agent)) return undefined;
  const written = findJson(text);
  return written === undefined ? undefined : finish.bind(written);
}

/**
 * Returns the problems of the last missed result. `rejected`: the call of Finish, or `undefined`
 * if the model replied with text.
 */
export function listResultProblems(
  { role: { finish }, nativeOutputSchema }: AgentRuntime,
  text: string,
  rejected?: ToolExecution,
): readonly string[] {
  const written = findJson(rejected?.call.argumentsText ?? text);
  const result = written === undefined ? undefined : finish?.bind(written);
  if (result?.type === "invalid") return describeProblemLines("the result", result.problems);
  if (rejected !== undefined) return [truncateText(rejected.text, MAX_REJECTION)];
  const isNative = nativeOutputSchema !== undefined;
  return [`the reply is not ${isNative ? "JSON" : `a call of ${FINISH_TOOL_NAME}`}`];
}

/** Maximum length of the text about a rejected call. */
const MAX_REJECTION = 300;

const FENCE = "```";
/** The first line of a fenced block: the name of its language. */
const LANGUAGE = /^\w*[ \t]*\n/;

function findJson(text: string): JsonValue | undefined {
  // The whole text first, because a fenced block may be part of a string in it.
  const whole = parseJsonText(text);
  if (whole !== undefined) return whole;
  const [, block, ...others] = text.split(FENCE);
  const isFenced = block !== undefined && others.length === 1;
  return isFenced ? parseJsonText(block.replace(LANGUAGE, "")) : undefined;
}

function parseJsonText(json: string): JsonValue | undefined {
  if (json.trim() === "") return undefined;
  try {
    return parseRawArguments(json);
  } catch {
    return undefined;
  }
}
