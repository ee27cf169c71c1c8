// From the flat list of errors that Ajv gives to issues: which part, what would have fitted, and which errors only say why a form
// of a union did not fit.

import type { ErrorObject } from "ajv";

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import {
  partIssue,
  unexpectedIssue,
  typeIssue,
  valueIssue,
  type ValidationIssue,
  type Examine,
  type Path,
} from "./validation-issue.ts";
import {
  allowedWords,
  formatWords,
  lookUp,
  NO_SUCH_PARAMETER,
  oneLine,
  patternWords,
  rangeWords,
  sizeWords,
  typeWords,
  wordsOf,
} from "./schema-words.ts";

/** An error of Ajv with what `verbose` adds. */
export type AjvError = ErrorObject<string, Readonly<Record<string, unknown>>>;

/** Gives the check of a part of the schema: the keys that lead to it from the whole. */
export type OptionAt = (path: Path) => Examine;

/** Reads the errors of one schema. */
export class AjvErrorReader {
  readonly #schema: JsonObject;
  readonly #optionAt: OptionAt;
  /** Where each part of the schema stands. Made when the first union does not fit. */
  #places: ReadonlyMap<unknown, Path> | undefined;
  /** All that belongs to the forms of a union, whatever refers to it included. */
  readonly #formParts = new Map<unknown, ReadonlySet<unknown>>();

  constructor(schema: JsonObject, optionAt: OptionAt) {
    this.#schema = schema;
    this.#optionAt = optionAt;
  }

  issuesOf(errors: readonly AjvError[]): readonly ValidationIssue[] {
    const kept: AjvError[] = [];
    for (const error of errors) {
      if (SUMMARIES.has(error.keyword)) this.#dropReasons(kept, error);
      if (error.keyword !== "if" && !isOfName(error)) kept.push(error);
    }
    return kept.flatMap((error) => this.#issueOf(error));
  }

  /** Takes away what led to `summary`: the errors right before it that come from its forms. */
  #dropReasons(kept: AjvError[], summary: AjvError): void {
    const forms = this.#partsOf(summary.schema);
    for (let last = kept.at(-1); last !== undefined; last = kept.at(-1)) {
      const isWithin =
        last.instancePath === summary.instancePath ||
        last.instancePath.startsWith(`${summary.instancePath}/`);
      if (!isWithin || !forms.has(last.parentSchema)) return;
      kept.pop();
    }
  }

  #partsOf(forms: unknown): ReadonlySet<unknown> {
    const known = this.#formParts.get(forms);
    if (known !== undefined) return known;
    const parts = new Set<unknown>();
    const open: object[] = [];
    const note = (part: unknown): void => {
      if (typeof part !== "object" || part === null || parts.has(part)) return;
      parts.add(part);
      open.push(part);
    };
    note(forms);
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      for (const [key, below] of Object.entries<unknown>({ ...part })) {
        note(key === "$ref" && typeof below === "string" ? lookUp(this.#schema, below) : below);
      }
    }
    this.#formParts.set(forms, parts);
    return parts;
  }

  #issueOf(error: AjvError): ValidationIssue {
    const path = pathOf(error.instancePath);
    const { keyword, params, schema } = error;
    switch (keyword) {
      case "type":
        return typeIssue(path, listOf(schema).map(String), () => typeWords(schema));
      case "enum":
        return valueIssue(path, listOf(schema), () => allowedWords(listOf(schema)));
      case "const":
        return valueIssue(path, [schema], () => allowedWords([schema]));
      case "required":
      case "dependentRequired":
      case "dependencies":
        return this.#missing(error, [...path, String(params["missingProperty"])]);
      case "additionalProperties":
        return unexpectedIssue([...path, String(params["additionalProperty"])]);
      case "unevaluatedProperties": {
        // What belongs to a form that does not fit yet is not known to any form.
        return unexpectedIssue([...path, String(params["unevaluatedProperty"])], false);
      }
      case "propertyNames": {
        const words = "another name: its schema does not accept this one";
        return partIssue([...path, String(params["propertyName"])], () => words);
      }
      case "anyOf":
      case "oneOf":
        return this.#union(error, path);
      default:
        return partIssue(path, () => errorWords(error), keyword !== "unevaluatedItems");
    }
  }

  #missing({ parentSchema, params }: AjvError, path: Path): ValidationIssue {
    const properties: unknown = parentSchema?.["properties"];
    const key = String(params["missingProperty"]);
    const isKnown = isRecord(properties) && Object.hasOwn(properties, key);
    const schema = isKnown ? properties[key] : undefined;
    const words = (): string => wordsOf(schema, this.#schema);
    const values = allowedBy(schema);
    return values === undefined ? typeIssue(path, [], words) : valueIssue(path, values, words);
  }

  #union({ keyword, params, schema, parentSchema }: AjvError, path: Path): ValidationIssue {
    if (Array.isArray(params["passingSchemas"])) {
      return partIssue(path, () => "a value that fits exactly one of its forms");
    }
    this.#places ??= placesIn(this.#schema);
    const place = this.#places.get(parentSchema) ?? [];
    const options = listOf(schema).map((_form, index) =>
      this.#optionAt([...place, keyword, String(index)]),
    );
    const words = (): string => wordsOf({ anyOf: schema }, this.#schema);
    return { type: "union", path, expected: words, options };
  }
}

/** Errors that come after those which led to them. */
const SUMMARIES: ReadonlySet<string> = new Set(["anyOf", "oneOf", "contains"]);

/** What is wrong with a key stands in the `propertyNames` error that follows. */
function isOfName({ propertyName, keyword }: AjvError): boolean {
  return propertyName !== undefined && keyword !== "propertyNames";
}

function pathOf(pointer: string): Path {
  return pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

/** The values to which a schema confines a part. */
function allowedBy(schema: unknown): readonly unknown[] | undefined {
  if (!isRecord(schema)) return undefined;
  if ("const" in schema) return [schema["const"]];
  return Array.isArray(schema["enum"]) ? listOf(schema["enum"]) : undefined;
}

/** The schema is plain JSON: each of its objects stands in one place. */
function placesIn(schema: JsonObject): ReadonlyMap<unknown, Path> {
  const places = new Map<unknown, Path>();
  const note = (part: unknown, path: Path): void => {
    if (typeof part !== "object" || part === null) return;
    places.set(part, path);
    for (const [key, below] of Object.entries<unknown>({ ...part })) note(below, [...path, key]);
  };
  note(schema, []);
  return places;
}

const BOUNDED_SIZES: ReadonlyMap<
  string,
  readonly ["text" | "list" | "object", "at least" | "at most"]
> = new Map([
  ["minLength", ["text", "at least"]],
  ["maxLength", ["text", "at most"]],
  ["minItems", ["list", "at least"]],
  ["maxItems", ["list", "at most"]],
  ["minProperties", ["object", "at least"]],
  ["maxProperties", ["object", "at most"]],
]);

const COMPARISONS: ReadonlyMap<string, ">=" | ">" | "<=" | "<"> = new Map([
  ["minimum", ">="],
  ["exclusiveMinimum", ">"],
  ["maximum", "<="],
  ["exclusiveMaximum", "<"],
]);

const FIXED_WORDS: ReadonlyMap<string, string> = new Map([
  ["uniqueItems", "a list without equal items"],
  ["not", "another value: its schema rules this one out"],
  ["false schema", NO_SUCH_PARAMETER],
]);

/** What would have fitted, in words. */
function errorWords({ keyword, params, schema, parentSchema, message = "" }: AjvError): string {
  const size = BOUNDED_SIZES.get(keyword);
  if (size !== undefined) return sizeWords(...size, params["limit"]);
  const comparison = COMPARISONS.get(keyword);
  if (comparison !== undefined)
    return rangeWords(numberWords(parentSchema), comparison, params["limit"]);
  if (keyword === "multipleOf") return `a multiple of ${String(schema)}`;
  if (keyword === "pattern") return patternWords(schema);
  if (keyword === "format") return formatWords(schema);
  return FIXED_WORDS.get(keyword) ?? `a value that fits its schema (${oneLine(message)})`;
}

function numberWords(schema: unknown): string {
  return isRecord(schema) && schema["type"] === "integer" ? "an integer" : "a number";
}
