// Regular expressions in JSON Schemas. Patterns of the user's own schemas run on RegExp, as in zod
// schemas. Patterns of an MCP server are neither compiled nor run: the server validates.

import { isRecord, type JsonObject, type JsonValue } from "../../kernel/json.ts";

/** Compiles a pattern for Ajv. */
type PatternEngine = (pattern: string) => { readonly test: (text: string) => boolean };

/**
 * Reads a pattern as Unicode. If only the older rules of JavaScript allow the pattern, those apply.
 * Not if it escapes a letter without a meaning in JavaScript, which shows that it comes from
 * another language.
 */
export const REGEXP_ENGINE = addEngineCode((pattern) => {
  try {
    return new RegExp(pattern, "u");
  } catch (cause) {
    if (/\\[^\W\d_bBcdDfnrsStuvwWx]/.test(pattern.replaceAll("\\\\", ""))) throw cause;
    return new RegExp(pattern);
  }
});

/** Runs no pattern. A `$ref` into a default or an enum can still lead Ajv to one. */
export const NO_ENGINE = addEngineCode(() => ({ test: () => true }));

function addEngineCode(engine: PatternEngine): PatternEngine & { readonly code: string } {
  return Object.assign(engine, { code: "new RegExp" });
}

/** Keywords with schemas by name. */
const NAMED = new Set(["properties", "$defs", "definitions", "dependentSchemas", "dependencies"]);
/** Keywords with values, which can look like schemas. */
const VALUES = new Set(["const", "enum", "default", "examples", "required", "dependentRequired"]);
/** Keywords that a value violates more easily the more lenient their sub-schema is. */
const DECIDING = new Set(["not", "if", "oneOf", "contains"]);
const UNEVALUATED = new Set(["unevaluatedProperties", "unevaluatedItems"]);

/**
 * Returns the schema without its patterns. Every value that matches the schema must match the
 * result, so the keywords that depend on a pattern are removed as well.
 */
export function removePatterns(schema: JsonObject): JsonObject {
  return hasPatternMention(schema, /"pattern(?:Properties)?":/) ? loosen(schema) : schema;
}

function loosen(schema: JsonObject): JsonObject {
  const entries = Object.entries(schema).filter(([key, part]) => {
    if (key === "pattern" || key === "patternProperties" || UNEVALUATED.has(key)) return false;
    if (key === "additionalProperties") return !Object.hasOwn(schema, "patternProperties");
    return !(DECIDING.has(key) && hasPatternMention(part));
  });
  return Object.fromEntries(entries.map(([key, part]) => [key, loosenPart(key, part)]));
}

function loosenPart(key: string, part: JsonValue): JsonValue {
  if (VALUES.has(key)) return part;
  if (Array.isArray(part)) return part.map((item: JsonValue) => loosenPart("", item));
  if (!isRecord(part)) return part;
  if (!NAMED.has(key)) return loosen(part);
  return Object.fromEntries(
    Object.entries(part).map(([name, item]) => [name, loosenPart("", item)]),
  );
}

/** Returns true if a schema contains a pattern, or a reference that may lead to one. */
function hasPatternMention(
  part: JsonValue,
  mention = /"(?:pattern|patternProperties|\$\w*[rR]ef)":/,
) {
  return mention.test(JSON.stringify(part));
}
