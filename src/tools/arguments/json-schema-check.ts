// Validates values by a JSON Schema with Ajv. Each schema has its own instances, so that equal
// `$id`s do not conflict. Loads, completes and converts nothing. A schema is similar to code: its
// size bounds compilation (schema-size.ts), and a count of the work bounds evaluation
// (check-work.ts).

import { Ajv, type ErrorObject } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { deepFreeze, isRecord, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import { collapseLines } from "../../kernel/sentence.ts";
import { TooMuchWork, type CheckWork } from "./check-work.ts";
import { countRules } from "./counted-rules.ts";
import { NO_ENGINE, REGEXP_ENGINE, removePatterns } from "./schema-patterns.ts";
import { lookUp, unescapeKey } from "./schema-pointer.ts";
import { findSchemaExcess, isTooWide } from "./schema-size.ts";
import type { Issues, Path, ValidationIssue } from "./validation-issue.ts";

export function createUnusableError(
  field: string,
  reason: string,
  advice: string,
  cause?: unknown,
): EspalierError {
  return new EspalierError({
    code: "invalid_argument",
    message: `Expected ${field} to be a JSON Schema that can be checked, got one that cannot: ${collapseLines(reason)}. ${advice}`,
    data: { field, reason: collapseLines(reason) },
    cause,
  });
}

/** Returns the issues of a value. Throws if the validation takes too much work. */
type Examine = (value: JsonValue) => Issues;

/** The id of the schema within its Ajv instance. */
const SCHEMA_ID = "input:";

/** The price of reading an error, and of a character of its path. */
const UNITS_PER_ERROR = 200;
const UNITS_PER_PATH_CHARACTER = 0.2;

/** Returns the errors of a value: the first one, or all. Empty if it is valid. */
type Validate = (value: JsonValue) => readonly AjvError[];

/** A schema and its shared parts. */
interface CheckSource {
  readonly schema: JsonObject;
  readonly Rules: Rules;
  readonly runsPatterns: boolean;
  readonly work: CheckWork;
}

/**
 * Returns the validation of a schema. It spends units of `work`, which the caller starts.
 * `runsPatterns`: false for a schema from a server. Throws `invalid_argument` if the schema is
 * not a JSON Schema, or refers to another document.
 */
export function createJsonSchemaExaminer(
  field: string,
  declared: JsonObject,
  work: CheckWork,
  runsPatterns = true,
): Examine {
  const { $schema: dialect, ...rest } = declared;
  const schema = deepFreeze(runsPatterns ? rest : removePatterns(rest));
  const excess = findSchemaExcess(schema);
  if (excess !== undefined) throw createUnusableError(field, excess, "Use a smaller schema.");
  const source = { schema, Rules: chooseRules(field, schema, dialect), runsPatterns, work };
  try {
    return createExaminer(source);
  } catch (cause) {
    const advice = "Correct it. Its references must point into the schema itself.";
    throw createUnusableError(field, describeSchemaCause(cause), advice, cause);
  }
}

/**
 * Returns the validation of a source, in two passes. The first pass stops at the first error, so
 * that a valid value leaves no errors behind. The second pass collects all errors, for coercion and
 * for the model.
 */
function createExaminer(source: CheckSource): Examine {
  const { schema, work } = source;
  const isOnePass = isTooWide(schema);
  const convertErrors = (errors: readonly AjvError[]): Issues => {
    work.spend(computeErrorsPrice(errors));
    return convertAjvErrors(errors, schema);
  };
  const findFirst = compile(source, isOnePass);
  work.begin({});
  findFirst({}); // Detects endlessly recursive schemas here instead of at every call.
  if (isOnePass) return (value) => convertErrors(findFirst(value));
  let findAll: Validate | undefined;
  return (value) => {
    const errors = findFirst(value);
    if (errors.length === 0) return [];
    try {
      const issues = work.withHalf(() => {
        findAll ??= compile(source, true);
        return convertErrors(findAll(value));
      });
      if (issues.length > 0) return issues;
    } catch {
      // Too many errors, or a value that is nested too deeply to collect more than the first error.
    }
    return convertErrors(errors);
  };
}

/** Returns the units for reading the errors. */
function computeErrorsPrice(errors: readonly AjvError[]): number {
  return errors.reduce((sum, { instancePath, params: { forms = [] } }) => {
    const units = UNITS_PER_ERROR + UNITS_PER_PATH_CHARACTER * instancePath.length;
    return sum + units + computeErrorsPrice(forms.flat());
  }, 0);
}

/** Compiles a function that returns the first error of a value, or all. */
function compile({ schema, Rules, runsPatterns, work }: CheckSource, allErrors: boolean): Validate {
  const ajv = new Rules({
    ...QUIET,
    allErrors,
    verbose: true,
    inlineRefs: false,
    ownProperties: true,
    code: { regExp: runsPatterns ? REGEXP_ENGINE : NO_ENGINE },
  });
  const tracksEvaluated = JSON.stringify(schema).includes('"unevaluated');
  // Without this tracking, Ajv stops a union at the first matching form.
  if (!tracksEvaluated) ajv.opts.unevaluated = false;
  countRules(ajv, { work, allErrors, tracksEvaluated });
  formats.default(ajv);
  ajv.addFormat("url", isUrl);
  ajv.addSchema(schema, SCHEMA_ID);
  const validate = ajv.compile<JsonValue>({ $ref: SCHEMA_ID });
  return (value) => (validate(value) ? [] : (validate.errors ?? []));
}

/**
 * Replaces Ajv's pattern, which backtracks at each colon and `@`, and rejects hosts without a dot.
 */
function isUrl(text: string): boolean {
  return /^(?:https?|ftp):\/\/\S+$/i.test(text) && URL.canParse(text);
}

/** Returns the message of Ajv without our id of the schema. */
function describeSchemaCause(cause: unknown): string {
  if (cause instanceof TooMuchWork) return "checking any value takes too much work";
  const message = getErrorMessage(cause);
  if (message.startsWith("Maximum call stack")) return "it refers to itself without end";
  return message.replaceAll(` from id ${SCHEMA_ID}`, "").replaceAll(SCHEMA_ID, "");
}

/**
 * Loads, logs and completes nothing. Ignores unknown keywords and formats, as JSON Schema requires.
 */
const QUIET = { strict: false, logger: false, meta: false, validateSchema: false } as const;

const EARLY_DRAFT = /draft-0[1-7]/;

type Rules = typeof Ajv | typeof Ajv2020;

/**
 * Returns the dialect of a schema: draft 7 if it declares that or is valid only there, else
 * 2020-12.
 */
function chooseRules(field: string, schema: JsonObject, dialect: JsonValue | undefined): Rules {
  const isEarly = typeof dialect === "string" && EARLY_DRAFT.test(dialect);
  const rules = isEarly ? Ajv : Ajv2020;
  const fault = findSchemaFault(rules, schema);
  if (fault === undefined) return rules;
  if (isEarly || findSchemaFault(Ajv, schema) !== undefined)
    throw createUnusableError(field, fault, "Correct it.");
  return Ajv;
}

/**
 * Validators of schemas by dialect. They are expensive to create, so they are created for the first
 * schema and reused. They store nothing about schemas.
 */
const compilers = new Map<Rules, Ajv | Ajv2020>();

function findSchemaFault(Compiler: Rules, schema: JsonObject): string | undefined {
  const compiler = compilers.get(Compiler) ?? new Compiler({ strict: false, logger: false });
  compilers.set(Compiler, compiler);
  if (compiler.validateSchema(schema) === true) return undefined;
  const [fault] = compiler.errors ?? [];
  return `${fault?.instancePath ?? ""} ${fault?.message ?? "is not valid"}`.trim();
}

/**
 * An Ajv error with the fields that `verbose` adds. The error of a union contains the errors of its
 * forms.
 */
type AjvError = ErrorObject<string, { [name: string]: unknown; forms?: AjvError[][] }>;

/** Parameters that name a part of the value at the path. */
const NAMES = ["missingProperty", "additionalProperty", "unevaluatedProperty", "propertyName"];

/** Keywords about the kind of a value. */
const ON_KIND = new Set(["type", "enum", "const"]);

/** Converts the errors of a value to issues. `root`: the whole schema. */
function convertAjvErrors(errors: readonly AjvError[], root: JsonObject): Issues {
  return errors.flatMap((error): Issues => {
    const { instancePath, keyword, params, schema, parentSchema = {}, data } = error;
    // An error of `propertyNames` follows the error of the name. The errors of a branch follow the
    // error of `if`.
    const isRepeated = keyword === "if" || error.propertyName !== undefined;
    if (isRepeated && keyword !== "propertyNames") return [];
    const above = instancePath.split("/").slice(1).map(unescapeKey);
    const name = NAMES.map((key) => params[key]).find((value) => typeof value === "string");
    const path = name === undefined ? above : [...above, name];
    const known = isRecord(parentSchema["properties"]) ? parentSchema["properties"] : {};
    if (name !== undefined && params["missingProperty"] === name)
      return [
        { ...findSchemaRule(path, Object.hasOwn(known, name) ? known[name] : {}, root), known },
      ];
    const forms = params.forms?.map((form) => () => convertAjvErrors(form, root)) ?? [];
    if (forms.length > 0) return [{ path, keyword, refused: data, forms }];
    if (ON_KIND.has(keyword))
      return [{ ...findSchemaRule(path, parentSchema, root), refused: data }];
    const limit = keyword === "pattern" ? `/${String(schema)}/` : schema;
    return [{ path, keyword, limit, ...(name === undefined ? { refused: data } : { known }) }];
  });
}

/**
 * Returns the rule for the kind of value that a schema describes: listed values, or a type.
 * `levels`: the references and nested unions that are followed.
 */
function findSchemaRule(
  path: Path,
  schema: unknown,
  root: JsonObject,
  levels = 4,
): ValidationIssue {
  const rules = isRecord(schema) ? schema : {};
  const { $ref: reference, type, const: value, anyOf, oneOf = anyOf, allOf } = rules;
  const { enum: values = value === undefined ? value : [value] } = rules;
  if (Array.isArray(values)) return { path, keyword: "enum", values };
  if (type !== undefined) return { path, keyword: "type", types: [type].flat() };
  const first = Array.isArray(allOf) ? allOf.slice(0, 1) : undefined;
  const parts = typeof reference === "string" ? [lookUp(root, reference)] : (oneOf ?? first);
  if (!Array.isArray(parts) || levels === 0) return { path, keyword: "required" };
  const forms = parts.map((part) => () => [findSchemaRule(path, part, root, levels - 1)]);
  return { path, keyword: "anyOf", forms };
}
