// A JSON Schema as the input of a tool from elsewhere, checked by Ajv. Each schema has a checker of its own, so that equal `$id`s do not
// meet. Nothing is ever loaded, filled in or converted. A schema is code to a degree: its patterns are matched in bounded time, but a
// union that takes for ever to check does so here, too, so tools are to be taken from servers that are trusted with that.

import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

import { misdefinition } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import {
  deepFreeze,
  parseJson,
  unsoundness,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from "../../kernel/json.ts";
import { AjvErrorReader } from "./ajv-issues.ts";
import type { ArgumentProblem, InputSchema } from "./argument-problems.ts";
import { checkedInput } from "./check-input.ts";
import {
  partIssue,
  type ValidationIssue,
  type Examine,
  type Path,
  type Reading,
} from "./validation-issue.ts";
import { SchemaPatterns } from "./schema-patterns.ts";
import { oneLine, thrownWords } from "./schema-words.ts";

/** Schemas that are deeper or longer are refused: every request to a model holds them. */
const MOST_LEVELS = 100;
const MOST_CHARACTERS = 200_000;

/** A frozen copy of the JSON Schema of an object. Throws `invalid_definition` for anything else. */
export function objectSchema(field: string, schema: unknown): JsonObject {
  const expected = "a JSON Schema of an object";
  const copy = plainSchema(field, schema, expected);
  if (copy["type"] === "object") return copy;
  throw misdefinition(field, expected, copy["type"] ?? schema, 'Its type must be "object".');
}

/** The same of a JSON Schema of anything. */
function plainSchema(field: string, schema: unknown, expected = "a JSON Schema"): JsonObject {
  const copy = jsonCopy(field, schema);
  if (!isJsonObject(copy)) {
    throw misdefinition(field, expected, schema, 'Use { type: "object", … }.');
  }
  const reason = unsoundness(copy, MOST_LEVELS);
  if (reason !== undefined) throw unusable(field, reason, "Give a smaller schema.");
  return deepFreeze(copy);
}

function jsonCopy(field: string, schema: unknown): JsonValue {
  let text: string | undefined;
  try {
    text = JSON.stringify(schema);
  } catch (cause) {
    throw unusable(field, messageOf(cause), "Give it as plain JSON.", cause);
  }
  if (text === undefined) return null;
  if (text.length > MOST_CHARACTERS) {
    const reason = `it is longer than ${MOST_CHARACTERS} characters`;
    throw unusable(field, reason, "Give a smaller schema.");
  }
  return parseJson(text);
}

function unusable(field: string, reason: string, advice: string, cause?: unknown): EspalierError {
  return new EspalierError({
    code: "invalid_definition",
    message: `Expected ${field} to be a JSON Schema that can be checked, got one that cannot: ${oneLine(reason)}. ${advice}`,
    data: { field, reason: oneLine(reason) },
    cause,
  });
}

/** The schema that `objectSchema` gave, ready to check calls. `field` is what the user calls it. */
export function jsonSchemaInput(
  field: string,
  declared: JsonObject,
  isStrict: boolean,
): InputSchema<unknown> {
  const { $schema: _dialect, ...shown } = declared;
  return checkedInput(deepFreeze(shown), jsonSchemaReader(field, declared), isStrict);
}

/**
 * What a JSON Schema of anything has against values; nothing is coerced. `field` is what the user calls it. Throws `invalid_definition` if
 * it cannot be used; what it gives never throws.
 */
export function jsonSchemaProblems(
  field: string,
  schema: unknown,
): (value: JsonValue) => readonly ArgumentProblem[] {
  const checked = checkedInput({}, jsonSchemaReader(field, plainSchema(field, schema)), true);
  return (value) => {
    const result = checked.check(value);
    return result.type === "valid" ? [] : result.problems;
  };
}

/** Makes the check of a schema that `objectSchema` gave. Throws `invalid_definition` if it is no JSON Schema, or refers to another document. */
function jsonSchemaReader(field: string, declared: JsonObject): (input: JsonValue) => Reading {
  const { $schema: dialect, ...schema } = declared;
  const examine = checkerOf(field, deepFreeze(schema), dialect);
  return (input) => {
    const issues = examine(input);
    return issues.length === 0 ? { issues, value: structuredClone(input) } : { issues };
  };
}

/** The name of the schema within its checker. */
const WHOLE = "input:";

function checkerOf(field: string, schema: JsonObject, dialect: JsonValue | undefined): Examine {
  const Compiler = rulesFor(field, schema, dialect);
  const patterns = new SchemaPatterns();
  const options = {
    ...QUIET,
    allErrors: true,
    verbose: true,
    inlineRefs: false,
    ownProperties: true,
    code: { regExp: patterns.engine },
  };
  const ajv = new Compiler(options);
  formats.default(ajv);
  ajv.addFormat("url", isUrl);
  const known = new Map<string, Examine>();
  const reader = new AjvErrorReader(schema, (path) => {
    const reference = pointerTo(path);
    const examine = known.get(reference) ?? lazily(() => compiled(reference));
    known.set(reference, examine);
    return examine;
  });
  const compiled = (reference: string): Examine => {
    const validate = ajv.compile({ $ref: reference });
    validate({}); // A schema that refers to itself without end shows here, not at every call.
    return (value) => {
      patterns.begin();
      return validate(value) ? [] : reader.issuesOf(validate.errors ?? []);
    };
  };
  try {
    ajv.addSchema(schema, WHOLE);
    const whole = compiled(WHOLE);
    patterns.checkUse(field, schema);
    return lazily(() => whole);
  } catch (cause) {
    const advice = "Correct it; what it refers to must be within it.";
    throw unusable(field, reasonOf(cause), advice, cause);
  }
}

/** In place of a pattern that goes back for each colon and each `@`, and knows no hosts without a dot. */
function isUrl(text: string): boolean {
  return /^(?:https?|ftp):\/\/\S+$/i.test(text) && URL.canParse(text);
}

/** What Ajv says, without the name that we gave the schema. */
function reasonOf(cause: unknown): string {
  const message = messageOf(cause);
  if (message.startsWith("Maximum call stack")) return "it refers to itself without end";
  return message.replaceAll(` from id ${WHOLE}`, "").replaceAll(WHOLE, "");
}

/** Makes the check when it is first used. Never throws: what cannot be checked does not fit. */
function lazily(make: () => Examine): Examine {
  let made: Examine | undefined;
  return (value): readonly ValidationIssue[] => {
    try {
      made ??= make();
      return made(value);
    } catch (cause) {
      return [partIssue([], () => thrownWords("a value", cause))];
    }
  };
}

function pointerTo(path: Path): string {
  const keys = path.map((key) => key.replaceAll("~", "~0").replaceAll("/", "~1"));
  return `${WHOLE}#/${keys.map(encodeURIComponent).join("/")}`;
}

/** Nothing is loaded, logged or filled in; unknown keywords and formats are passed over, as JSON Schema asks. */
const QUIET = { strict: false, logger: false, meta: false, validateSchema: false } as const;

const EARLY_DRAFT = /draft-0[1-7]/;

type Rules = typeof Ajv | typeof Ajv2020;

/** The rules by which a schema is read: those of 2020-12, or those of draft 7, if it says so or is valid under no others. */
function rulesFor(field: string, schema: JsonObject, dialect: JsonValue | undefined): Rules {
  const isEarly = typeof dialect === "string" && EARLY_DRAFT.test(dialect);
  const rules = isEarly ? Ajv : Ajv2020;
  const fault = faultIn(rules, schema);
  if (fault === undefined) return rules;
  if (isEarly || faultIn(Ajv, schema) !== undefined) throw unusable(field, fault, "Correct it.");
  return Ajv;
}

/** What a schema itself must fulfil: costly to make, so made once, when the first schema comes. They keep nothing of what they check. */
const compilers = new Map<Rules, Ajv | Ajv2020>();

function faultIn(Compiler: Rules, schema: JsonObject): string | undefined {
  const compiler = compilers.get(Compiler) ?? new Compiler({ strict: false, logger: false });
  compilers.set(Compiler, compiler);
  if (compiler.validateSchema(schema) === true) return undefined;
  const [fault] = compiler.errors ?? [];
  return `${fault?.instancePath ?? ""} ${fault?.message ?? "is not valid"}`.trim();
}
