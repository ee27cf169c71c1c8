// The input of a tool: a zod schema, or a JSON Schema from elsewhere. Both are shown, validated,
// coerced and corrected in the same way.

import { z } from "zod";

import { mismatch } from "../../kernel/argument-checks.ts";
import {
  copyJson,
  deepFreeze,
  isJsonObject,
  isRecord,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../kernel/json.ts";
import { createCheckedInput, type InputSchema } from "./check-input.ts";
import type { Reading } from "./coerce.ts";
import { lookUp } from "./schema-pointer.ts";
import {
  createZodSchemaError,
  type SchemaPath,
  UnusablePart,
  createUnusableSchemaError,
} from "./unusable-schema.ts";
import type { Issues, Path, ValidationIssue } from "./validation-issue.ts";

/**
 * A JSON Schema of arguments or of a typed result, created by `jsonSchema`. `Value` is the type of
 * valid values.
 */
export interface JsonSchemaInput<out Value = unknown> {
  /** Distinguishes a JSON Schema from a zod schema. */
  readonly kind: "jsonSchema";
  /** The JSON Schema. Frozen. */
  readonly schema: JsonObject;
  /** Carries the type `Value`. Absent at run time. */
  readonly valueType?: Value;
}

/**
 * The schema of a tool's arguments: a zod schema of an object, or a JSON Schema.
 *
 * @example
 * ```ts
 * const input: ToolInput = z.object({ city: z.string() });
 * ```
 */
export type ToolInput = z.ZodType | JsonSchemaInput;

/**
 * Extracts the type of the arguments that `execute` gets from the schema of a tool.
 *
 * @example
 * ```ts
 * const input = z.object({ city: z.string(), days: z.int().default(1) });
 * type Input = InferInput<typeof input>; // { city: string; days: number }
 * ```
 */
export type InferInput<Input extends ToolInput> = Input extends z.ZodType
  ? z.output<Input>
  : Input extends JsonSchemaInput<infer Value>
    ? Value
    : never;

/** Options of how arguments are checked. */
export interface InputOptions {
  /** True if arguments of another type are converted without loss. */
  readonly coerces: boolean;
}

/**
 * Functions that compile a JSON Schema, by its input. `jsonSchema` registers them here, so that
 * only its module loads the validator.
 */
export const jsonSchemaInputs = new WeakMap<
  object,
  (field: string, coerces: boolean) => InputSchema<unknown>
>();

/**
 * Returns the compiled input of a tool. `field` names the input in errors. Throws
 * `invalid_argument` if the schema cannot be used.
 */
export function compileInput<Input extends ToolInput>(
  field: string,
  input: Input,
  options: InputOptions,
): InputSchema<InferInput<Input>>;
export function compileInput(
  field: string,
  input: ToolInput,
  { coerces }: InputOptions,
): InputSchema<unknown> {
  if (input instanceof z.ZodType)
    return createCheckedInput(
      convertZodSchema(field, input),
      (value) => readWithZod(input, value),
      coerces,
    );
  const make = isRecord(input) ? jsonSchemaInputs.get(input) : undefined;
  if (make === undefined) throw createZodSchemaError(field, input, SCHEMA_ADVICE);
  return make(field, coerces);
}

const SCHEMA_ADVICE = "Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.";

/** Throws `invalid_argument` if the value is not a schema. */
export function checkToolInput(field: string, value: unknown): asserts value is ToolInput {
  if (value instanceof z.ZodType || (isRecord(value) && jsonSchemaInputs.has(value))) return;
  throw createZodSchemaError(field, value, SCHEMA_ADVICE);
}

/**
 * Returns the JSON Schema of an object, for the model. Throws `invalid_argument` if the schema
 * cannot be expressed.
 */
function convertZodSchema(field: string, input: z.ZodType): JsonObject {
  const object = resolveTopReference(toJsonSchema(field, input));
  if (object["type"] !== "object") {
    const got = object["type"] ?? input._zod.def.type;
    throw mismatch(field, "a zod object schema", got, "Use z.object({ … }).");
  }
  const { $schema: _dialect, ...rest } = object;
  return deepFreeze(rest);
}

function toJsonSchema(field: string, input: z.ZodType): JsonValue {
  try {
    const schema = z.toJSONSchema(input, { io: "input", override: refuseUnusable });
    return parseJson(JSON.stringify(schema));
  } catch (cause) {
    throw createUnusableSchemaError(field, input, cause);
  }
}

interface Node {
  readonly zodSchema: z.core.$ZodTypes;
  readonly path: SchemaPath;
}

/** Throws an `UnusablePart` if no arguments could be checked against this part. */
function refuseUnusable({ zodSchema, path }: Node): void {
  const { def } = zodSchema._zod;
  if (def.type === "file" || def.type === "promise")
    throw new UnusablePart(path, `A ${def.type} cannot be expressed as JSON`, def.type);
  const ends: readonly unknown[] = def.type === "pipe" ? [def.in, def.out] : [];
  const isAsync =
    ends.some((end) =>
      isAsyncFunction(readMember(readMember(readMember(end, "_zod"), "def"), "transform")),
    ) || def.checks?.some((check) => isAsyncFunction(readMember(check._zod.def, "fn"))) === true;
  if (isAsync) throw new UnusablePart(path, ASYNCHRONOUS, def.type);
}

const ASYNCHRONOUS =
  "An asynchronous check or transform cannot run before a tool; move it into execute";

function readMember(owner: unknown, key: string): unknown {
  return isRecord(owner) ? owner[key] : undefined;
}

function isAsyncFunction(value: unknown): boolean {
  return Object.prototype.toString.call(value) === "[object AsyncFunction]";
}

/** Resolves a reference at the top of the schema, which results from a schema with its own `id`. */
function resolveTopReference(schema: JsonValue): JsonObject {
  if (!isJsonObject(schema)) return {};
  const { $ref: reference, ...rest } = schema;
  if (typeof reference !== "string") return schema;
  const definition = parseJson(JSON.stringify(lookUp(schema, reference) ?? null));
  return isJsonObject(definition) ? { ...definition, ...rest } : schema;
}

/** Parses a copy of `input`, so that a tool cannot change the logged arguments. */
function readWithZod(schema: z.core.$ZodType, input: JsonValue): Reading {
  // Not `safeParse`, which drops the promise of an asynchronous check, so that its rejection would
  // end the process.
  const parsed = schema._zod.run({ value: copyJson(input), issues: [] }, { async: true });
  if (parsed instanceof Promise) {
    parsed.catch(() => undefined);
    return { input, issues: [ASYNCHRONOUS_CHECK] };
  }
  const issues = parsed.issues.flatMap((issue) => convertZodIssue(issue));
  return { input, issues, value: parsed.value };
}

const ASYNCHRONOUS_CHECK: ValidationIssue = {
  path: [],
  keyword: "custom",
  note: () => "no asynchronous check can run",
};

/** Converts an issue of zod. `above`: the path of the union that contains the issue. */
function convertZodIssue(issue: z.core.$ZodRawIssue, above: Path = []): Issues {
  const { code, input, inst } = issue;
  const path = [...above, ...(issue.path ?? []).map(String)];
  const isWorded = [inst, issue.schema].some((owner) => owner?._zod.def.error !== undefined);
  const note = (): string =>
    z.core.util.finalizeIssue(issue, undefined, z.config()).message.replace(/^Invalid input$/, "");
  const base = { path, refused: input, ...(isWorded ? { note } : {}) };
  if (code === "invalid_type") {
    const isInteger = issue.expected === "int" || (inst instanceof z.ZodNumber && inst.isInt);
    return [{ ...base, keyword: "type", types: [isInteger ? "integer" : issue.expected] }];
  }
  if (code === "invalid_value") return [{ ...base, keyword: "enum", values: issue.values }];
  if (code === "invalid_union" && issue.options !== undefined) {
    const refused = isRecord(input) ? input[String(issue.discriminator)] : undefined;
    return [{ ...base, keyword: "enum", values: [issue.options].flat(), refused }];
  }
  if (code === "invalid_union" && issue.errors.length > 0) {
    const options = inst instanceof z.core.$ZodUnion ? inst._zod.def.options : [];
    const forms = options.map((option) => (): Issues => {
      // The errors that zod lists do not name their schemas.
      const form = option._zod.run({ value: input, issues: [] }, { async: true });
      return "then" in form ? [] : form.issues.flatMap((inner) => convertZodIssue(inner, path));
    });
    return [{ path, keyword: "anyOf", refused: input, forms }];
  }
  if (code === "invalid_union") return [{ ...base, keyword: "oneOf" }];
  if (code === "unrecognized_keys") {
    const known = inst instanceof z.core.$ZodObject ? inst._zod.def.shape : undefined;
    const keyword = "additionalProperties";
    return issue.keys.map((key) => ({ path: [...path, key], keyword, known }));
  }
  const isBound = code === "too_small" || code === "too_big";
  if (isBound && issue.exact !== true && issue.inclusive !== false) {
    const [side, limit] = code === "too_small" ? ["min", issue.minimum] : ["max", issue.maximum];
    const size = ["string", "array", "set"].includes(issue.origin) ? "Length" : "imum";
    return [{ ...base, keyword: `${side}${size}`, limit: String(limit) }];
  }
  // For the remaining rules, zod's own message is used.
  return [{ ...base, keyword: "custom", note }];
}
