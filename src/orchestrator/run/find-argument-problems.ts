// Checks the arguments of an answer against the schema that the model was shown, without the role.
// The schema of a tool may have rules that JSON Schema cannot express: it may trim a text before
// its length is checked, or parse a number from text. Therefore only the shape is checked, which
// such rules do not change.

import { isRecord, findValueAtPath, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import type { ToolSpec } from "../../model/model.ts";
import type { ArgumentProblem } from "../../tools/arguments/argument-problems.ts";
import { createCheckedInput, type InputSchema } from "../../tools/arguments/check-input.ts";
import { CheckWork } from "../../tools/arguments/check-work.ts";
import type { Reading } from "../../tools/arguments/coerce.ts";
import { createJsonSchemaExaminer } from "../../tools/arguments/json-schema-check.ts";
import { copyObjectSchema } from "../../tools/arguments/json-schema-input.ts";
import type { ValidationIssue } from "../../tools/arguments/validation-issue.ts";

/** Schema against which the arguments of a call are checked. */
interface ShownTool {
  readonly tool: ToolSpec;
  /** Valid arguments, as the question shows them. */
  readonly fitting: JsonValue;
}

/**
 * Returns the problems of the arguments: missing and unknown parameters, values of another shape,
 * and values outside an enumeration. Other rules are left to the process that has the role.
 */
export function findArgumentProblems(
  { tool, fitting }: ShownTool,
  input: JsonObject,
): readonly ArgumentProblem[] {
  const field = `${tool.name}.input`;
  let schema: InputSchema<unknown>;
  try {
    schema = createShapeInput(field, copyObjectSchema(field, readShape(tool.inputSchema)));
  } catch {
    return [];
  }
  const findProblems = (value: JsonValue): readonly ArgumentProblem[] => {
    const checked = schema.check(value);
    return checked.type === "invalid" ? checked.problems : [];
  };
  // A problem that valid arguments have as well comes from rules outside the schema.
  const unsure = new Set(findProblems(fitting).map(({ parameter }) => parameter));
  return findProblems(input).filter(({ parameter }) => !unsure.has(parameter));
}

/**
 * Returns the check of a shape. Ignores problems of values that the schema of the role could
 * coerce.
 */
function createShapeInput(field: string, shape: JsonObject): InputSchema<unknown> {
  const work = new CheckWork();
  const examine = createJsonSchemaExaminer(field, shape, work);
  const read = (input: JsonValue): Reading => ({
    input,
    issues: examine(input).filter(
      (issue) => !isCoercible(issue, findValueAtPath(input, issue.path)),
    ),
  });
  return createCheckedInput(shape, read, true, work);
}

/** Keywords that define the shape of a value. */
const SHAPE: ReadonlySet<string> = new Set(
  "$ref $defs definitions type properties required additionalProperties items enum const anyOf oneOf allOf".split(
    " ",
  ),
);
/** Keywords whose value contains no schema. */
const VALUES: ReadonlySet<string> = new Set(["$ref", "type", "required", "enum", "const"]);
/** Keywords whose value has schemas by name. */
const NAMED: ReadonlySet<string> = new Set(["$defs", "definitions", "properties"]);

function readShape(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(readShape);
  if (!isRecord(schema)) return schema;
  const shape = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (!SHAPE.has(keyword)) return [];
    if (VALUES.has(keyword)) return [[keyword, value]];
    if (NAMED.has(keyword) && isRecord(value))
      return [
        [
          keyword,
          Object.fromEntries(Object.entries(value).map(([name, part]) => [name, readShape(part)])),
        ],
      ];
    // Several shapes may fit without the rules that distinguish them.
    return [[keyword === "oneOf" ? "anyOf" : keyword, readShape(value)]];
  });
  return Object.fromEntries(shape);
}

/** Returns true if a schema could coerce the value to its type, for example text to a number. */
function isCoercible({ types }: ValidationIssue, value: JsonValue | undefined): boolean {
  if (types === undefined || typeof value === "object" || value === undefined) return false;
  if (types.includes("string") || types.includes("boolean")) return true;
  const isNumber = types.includes("number") || types.includes("integer");
  if (!isNumber || typeof value === "boolean") return false;
  return typeof value === "number" || (value.trim() !== "" && Number.isFinite(Number(value)));
}
