// Explains why a zod schema cannot be the input of a tool.

import { z } from "zod";

import { mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";

/** Returns the error for a value that is not a zod schema, or one of an unsupported zod. */
export function createZodSchemaError(field: string, value: unknown, advice: string): EspalierError {
  if (!isZodLike(value)) return mismatch(field, "a zod object schema", value, advice);
  if ("_zod" in value)
    return mismatch(
      field,
      "a zod object schema of zod 4, from the same copy of zod that espalier uses",
      value,
      'Import z from "zod", not from "zod/mini" or "zod/v3".',
    );
  return createEarlyZodError(field, "a schema of zod 3");
}

function createEarlyZodError(field: string, got: string): EspalierError {
  const expected = "a zod object schema of zod 4";
  return new EspalierError({
    code: "invalid_argument",
    message: `Expected ${field} to be ${expected}, got ${got}. Install zod 4 (npm install zod@4), and import z from "zod".`,
    data: { field, expected, got },
  });
}

/** Returns true if the value is a schema of zod 3, or contains one. */
function hasEarlyZod(value: unknown, seen = new Set<unknown>()): boolean {
  if (typeof value !== "object" || value === null || seen.has(value)) return false;
  seen.add(value);
  if (!isZodLike(value)) return Object.values(value).some((part) => hasEarlyZod(part, seen));
  return !(value instanceof z.core.$ZodType) || hasEarlyZod(value._zod.def, seen);
}

/** Returns true for a schema of any zod: also of another version, another copy or `zod/mini`. */
export function isZodLike(value: unknown): value is object {
  if (!isRecord(value)) return false;
  return "_zod" in value || ("_def" in value && typeof value["parse"] === "function");
}

/** Path of a part in the JSON Schema: `["properties", "when"]`. */
export type SchemaPath = readonly (string | number)[];

/** A part of a schema that no model can fill in. */
export class UnusablePart extends TypeError {
  readonly path: SchemaPath;
  readonly type: string;

  constructor(path: SchemaPath, reason: string, type: string) {
    super(reason);
    this.path = path;
    this.type = type;
  }
}

/**
 * Returns the error for a schema that zod could not convert to JSON Schema. `cause`: the error of
 * zod.
 */
export function createUnusableSchemaError(
  field: string,
  input: z.ZodType,
  cause: unknown,
): EspalierError {
  if (hasEarlyZod(input)) return createEarlyZodError(field, "one with a part of zod 3");
  const unusable = cause instanceof UnusablePart ? cause : findUnusablePart(input);
  const part = unusable ?? new UnusablePart([], getErrorMessage(cause), "unknown");
  const place = `${field}${formatSchemaPath(part.path)}`;
  return new EspalierError({
    code: "invalid_argument",
    message: `Expected ${place} to be a schema that JSON Schema can express, got another one: ${part.message}. ${PLAIN_TYPES[part.type] ?? "Use plain types."}`,
    data: { field: place },
    cause,
  });
}

/** Advice for types that JSON lacks. */
const PLAIN_TYPES: Readonly<Record<string, string>> = {
  date: "Use z.iso.datetime(): models write dates as text, and new Date(text) makes a Date of it.",
  bigint: "Use z.int(), or z.string() for numbers that are longer.",
  map: "Use z.record(…).",
  set: "Use z.array(…).",
};

/**
 * Returns the first part that zod cannot express as JSON Schema. `undefined` with older versions of
 * zod, which do not report its path.
 */
function findUnusablePart(input: z.ZodType): UnusablePart | undefined {
  let part: UnusablePart | undefined;
  try {
    z.toJSONSchema(input, {
      io: "input",
      unrepresentable: ({ zodSchema, path, message }) => {
        part ??= new UnusablePart(path, message, zodSchema._zod.def.type);
        return "any";
      },
    });
  } catch {
    // The conversion failed before, for another reason.
  }
  return part;
}

/**
 * Formats a path: `["properties", "visits", "items", "properties", "when"]` is `.visits[].when`.
 */
function formatSchemaPath([word, ...rest]: SchemaPath): string {
  if (word === undefined) return "";
  const [name, ...below] = rest;
  if (word === "properties" && name !== undefined) return `.${name}${formatSchemaPath(below)}`;
  return `${word === "items" ? "[]" : ""}${formatSchemaPath(rest)}`;
}
