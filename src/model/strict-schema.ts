// Converts JSON Schemas to the strict form that providers can enforce: every key of an object is
// required, and no others are allowed. Optional keys may be null instead. Such nulls are removed
// before the value is used. Pure.

import { checkObject } from "../kernel/argument-checks.ts";
import {
  isJsonList,
  isJsonObject as isObject,
  sameJson,
  type JsonObject,
  type JsonValue,
} from "../kernel/json.ts";

const MAX_KEYS = 5_000;
const MAX_LEVELS = 10;
const MAX_ENUM_VALUES = 1_000;

/**
 * Returns the strict form of the JSON Schema of an object, as providers need it to enforce a
 * schema. All keys are required in it; optional ones may be `null`.
 *
 * The strict form omits keywords that it cannot express, so it may accept more values. Values are
 * therefore validated again where they are used. If a schema has no strict form, `reason` gives the
 * path and the cause, for example `.unit: a record of any keys`.
 *
 * @example
 * ```ts
 * const schema = { type: "object", properties: { city: { type: "string" } } };
 * const strict = toStrictSchema(schema);
 * const sent = strict.isStrict ? strict.schema : schema;
 * ```
 */
export function toStrictSchema(
  schema: JsonObject,
):
  | { readonly isStrict: true; readonly schema: JsonObject }
  | { readonly isStrict: false; readonly reason: string } {
  checkObject("toStrictSchema schema", schema, "Pass a JSON schema.");
  try {
    if (schema["type"] !== "object") throw new NotStrict("", "not an object schema");
    return { isStrict: true, schema: new StrictWriter().write(schema) };
  } catch (thrown) {
    if (!(thrown instanceof NotStrict)) throw thrown;
    return { isStrict: false, reason: thrown.message };
  }
}

/** Reason why a schema has no strict form. */
class NotStrict extends Error {
  constructor(path: string, reason: string) {
    super(`${path === "" ? "." : path}: ${reason}`);
  }
}

/**
 * Keywords with the same meaning in a strict schema. `pattern` and `format` are checked by value.
 */
const KEPT_KEYWORDS: readonly string[] = [
  "type",
  "description",
  "enum",
  "$ref",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minItems",
  "maxItems",
];
const KEPT_FORMATS: readonly unknown[] = [
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid",
];
/** Lookaround and backreferences, which providers do not support in patterns. */
const UNUSUAL_PATTERN = /\(\?[^:]|\\[1-9]|\\k/;
const DEFINITIONS: readonly string[] = ["$defs", "definitions"];
const NULL_SCHEMA = { type: "null" };

interface SchemaPlace {
  readonly path: string;
  /** Nesting level of objects and lists. */
  readonly level: number;
}

/** Writes strict schemas. Counts over a whole schema the parts that providers limit. */
class StrictWriter {
  #keys = 0;
  #enumValues = 0;

  write(root: JsonObject): JsonObject {
    const written: Record<string, JsonValue> = {
      ...this.#convertObject(root, { path: "", level: 1 }),
    };
    for (const word of DEFINITIONS) {
      const definitions = root[word];
      if (!isObject(definitions)) continue;
      const entries = Object.entries(definitions).map(([name, definition]) => {
        const strict = this.#convert(definition, { path: `.${word}.${name}`, level: 1 });
        return [name, strict] as const;
      });
      written[word] = Object.fromEntries(entries);
    }
    return written;
  }

  #convert(schema: JsonValue | undefined, place: SchemaPlace): JsonObject {
    const { path } = place;
    if (place.level > MAX_LEVELS) throw new NotStrict(path, `deeper than ${MAX_LEVELS} levels`);
    if (!isObject(schema)) throw new NotStrict(path, "anything");
    // These may be omitted only where any value is allowed.
    if ("not" in schema) throw new NotStrict(path, "a negation (not)");
    if ("patternProperties" in schema) throw new NotStrict(path, "a record of any keys");
    if ("prefixItems" in schema) throw new NotStrict(path, "a tuple");
    const { $ref: reference, allOf } = schema;
    if (reference !== undefined) return { $ref: reference };
    if (allOf !== undefined) {
      const { allOf: _parts, ...rest } = schema;
      const [only, second] = toList(allOf);
      if (second !== undefined || !isObject(only)) throw new NotStrict(path, "an intersection");
      return this.#convert({ ...rest, ...only }, place);
    }
    const branches = schema["anyOf"] ?? schema["oneOf"];
    if (branches !== undefined) {
      const { description } = schema;
      const anyOf = toList(branches).map((branch) => this.#convert(branch, place));
      return description === undefined ? { anyOf } : { description, anyOf };
    }
    const types = readTypes(schema);
    if (types.includes("object")) return this.#convertObject(schema, place);
    if (types.includes("array")) {
      const { items } = schema;
      if (items !== undefined && isJsonList(items)) throw new NotStrict(path, "a tuple");
      const at = { path: `${path}[]`, level: place.level + 1 };
      return { ...this.#convertKeywords(schema, path), items: this.#convert(items, at) };
    }
    if (types.length === 0 && schema["enum"] === undefined && schema["const"] === undefined)
      throw new NotStrict(path, "anything");
    return this.#convertKeywords(schema, path);
  }

  #convertObject(schema: JsonObject, place: SchemaPlace): JsonObject {
    const { path } = place;
    const { properties, additionalProperties: others = false } = schema;
    if (!isObject(properties) || others !== false)
      throw new NotStrict(
        path,
        isObject(properties) ? "an object that allows other keys" : "a record of any keys",
      );
    const required = filterTexts(schema["required"]);
    const entries = Object.entries(properties);
    this.#keys += entries.length;
    if (this.#keys > MAX_KEYS) throw new NotStrict(path, `more than ${MAX_KEYS} keys`);
    const missing = required.find((key) => !Object.hasOwn(properties, key));
    if (missing !== undefined) throw new NotStrict(`${path}.${missing}`, "anything");
    const written = entries.map(([key, property]): [string, JsonValue] => {
      const strict = this.#convert(property, {
        path: `${path}.${key}`,
        level: place.level + 1,
      });
      const mayBeLeftOut = !required.includes(key) && !isNullAllowed(strict);
      return [key, mayBeLeftOut ? { anyOf: [strict, NULL_SCHEMA] } : strict];
    });
    return {
      ...this.#convertKeywords(schema, path),
      properties: Object.fromEntries(written),
      required: entries.map(([key]) => key),
      additionalProperties: false,
    };
  }

  #convertKeywords(schema: JsonObject, path: string): JsonObject {
    const written: Record<string, JsonValue> = {};
    for (const [word, value] of Object.entries(schema)) {
      const isPattern = word === "pattern" && typeof value === "string";
      const isCopied =
        KEPT_KEYWORDS.includes(word) ||
        (word === "format" && KEPT_FORMATS.includes(value)) ||
        (isPattern && !UNUSUAL_PATTERN.test(value));
      if (isCopied) written[word] = value;
      if (word === "const") written["enum"] = [value];
    }
    this.#enumValues += toList(written["enum"]).length;
    if (this.#enumValues > MAX_ENUM_VALUES)
      throw new NotStrict(path, `more than ${MAX_ENUM_VALUES} enum values`);
    return written;
  }
}

/** Returns true if a strict schema accepts null. A reference counts as not accepting it. */
function isNullAllowed(schema: JsonObject): boolean {
  const { enum: values, anyOf: branches } = schema;
  if (branches !== undefined)
    return toList(branches).some((branch) => isObject(branch) && isNullAllowed(branch));
  if (values !== undefined && !toList(values).includes(null)) return false;
  const types = readTypes(schema);
  return types.includes("null") || (types.length === 0 && values !== undefined);
}

/**
 * Returns the value without nulls that represent absent keys: keys that `schema` neither requires
 * nor allows to be null. `schema` is the original of the strict schema.
 */
export function removeAddedNulls(value: JsonValue, schema: JsonObject): JsonValue {
  return new NullReader(schema).read(schema, value).value;
}

interface ReadResult {
  readonly value: JsonValue;
  /** True if the value matches the schema, as far as a strict schema can express. */
  readonly fits: boolean;
  /** Number of nulls that were removed. */
  readonly removedNulls: number;
}

/**
 * Reads a value by a schema. Each part of the value is read once per part of the schema, however
 * its unions are nested.
 */
class NullReader {
  readonly #root: JsonObject;
  readonly #known = new Map<JsonValue, Map<JsonValue, ReadResult>>();

  constructor(root: JsonObject) {
    this.#root = root;
  }

  read(schema: JsonValue | undefined, value: JsonValue): ReadResult {
    if (!isObject(schema)) return { value, fits: schema !== false, removedNulls: 0 };
    const bySchema = this.#known.get(schema) ?? new Map<JsonValue, ReadResult>();
    this.#known.set(schema, bySchema);
    const known = bySchema.get(value);
    if (known !== undefined) return known;
    // A reference to itself alone matches nothing.
    bySchema.set(value, { value, fits: false, removedNulls: 0 });
    const read = this.#readUncached(schema, value);
    bySchema.set(value, read);
    return read;
  }

  #readUncached(schema: JsonObject, value: JsonValue): ReadResult {
    const { $ref: reference, allOf } = schema;
    if (reference !== undefined) return this.read(this.#resolveReference(reference), value);
    const [only] = toList(allOf);
    if (only !== undefined) return this.read(only, value);
    const branches = schema["anyOf"] ?? schema["oneOf"];
    if (branches !== undefined) {
      const reads = toList(branches).map((branch) => this.read(branch, value));
      // The matching branch that changes the value least.
      const fitting = reads.filter(({ fits }) => fits);
      const [best] = fitting.toSorted((left, right) => left.removedNulls - right.removedNulls);
      return best ?? { value, fits: false, removedNulls: 0 };
    }
    if (!isWithinBounds(schema, value)) return { value, fits: false, removedNulls: 0 };
    if (isJsonList(value)) {
      const { items } = schema;
      const reads = value.map((item) => this.read(items, item));
      return {
        value: reads.map((read) => read.value),
        fits: reads.every(({ fits }) => fits),
        removedNulls: reads.reduce((sum, read) => sum + read.removedNulls, 0),
      };
    }
    return isObject(value)
      ? this.#readObject(schema, value)
      : { value, fits: true, removedNulls: 0 };
  }

  #readObject(schema: JsonObject, value: JsonObject): ReadResult {
    const { properties = {}, additionalProperties: others } = schema;
    const required = filterTexts(schema["required"]);
    const entries: [string, JsonValue][] = [];
    let fits = required.every((key) => Object.hasOwn(value, key));
    let removedNulls = 0;
    for (const [key, part] of Object.entries(value)) {
      const isKnown = isObject(properties) && Object.hasOwn(properties, key);
      const read = this.read(isKnown ? properties[key] : others, part);
      if (part === null && isKnown && !required.includes(key) && !read.fits) {
        removedNulls += 1;
        continue;
      }
      entries.push([key, read.value]);
      fits &&= read.fits;
      removedNulls += read.removedNulls;
    }
    return { value: Object.fromEntries(entries), fits, removedNulls };
  }

  /** Returns the part of the schema that a reference names. */
  #resolveReference(reference: JsonValue): JsonValue | undefined {
    if (typeof reference !== "string") return undefined;
    let target: JsonValue | undefined = this.#root;
    for (const word of reference.split("/").slice(1)) {
      if (!isObject(target)) return undefined;
      target = target[word.replaceAll("~1", "/").replaceAll("~0", "~")];
    }
    return target;
  }
}

/** Returns true if a value has the type and is within the bounds of a schema. Ignores its parts. */
function isWithinBounds(schema: JsonObject, value: JsonValue): boolean {
  const { enum: values, const: only } = schema;
  if (only !== undefined && !sameJson(only, value)) return false;
  if (values !== undefined && !toList(values).some((allowed) => sameJson(allowed, value)))
    return false;
  const types = readTypes(schema);
  const scalar = value === null ? "null" : typeof value;
  const type = isJsonList(value) ? "array" : scalar;
  const isOfType = types.includes(type) || (types.includes("integer") && Number.isInteger(value));
  if (types.length > 0 && !isOfType) return false;
  // An absent bound is NaN, so that every comparison is false.
  const bound = (word: string): number => Number(schema[word] ?? Number.NaN);
  if (typeof value === "number")
    return !(
      value < bound("minimum") ||
      value > bound("maximum") ||
      value <= bound("exclusiveMinimum") ||
      value >= bound("exclusiveMaximum")
    );
  if (typeof value !== "string" && !isJsonList(value)) return true;
  const unit = typeof value === "string" ? "Length" : "Items";
  return !(value.length < bound(`min${unit}`) || value.length > bound(`max${unit}`));
}

function readTypes({ type }: JsonObject): readonly JsonValue[] {
  if (type === undefined) return [];
  return isJsonList(type) ? type : [type];
}

function filterTexts(value: JsonValue | undefined): readonly string[] {
  return toList(value).filter((name) => typeof name === "string");
}

function toList(value: JsonValue | undefined): readonly JsonValue[] {
  return value !== undefined && isJsonList(value) ? value : [];
}
