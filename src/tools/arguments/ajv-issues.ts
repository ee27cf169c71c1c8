// Converts the errors of Ajv, which are violated rules of JSON Schema already.

import type { ErrorObject } from "ajv";

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { lookUp, unescapeKey } from "./schema-pointer.ts";
import type { Issues, Path, ValidationIssue } from "./validation-issue.ts";

/**
 * An Ajv error with the fields that `verbose` adds. The error of a union contains the errors of its
 * forms.
 */
export type AjvError = ErrorObject<string, { [name: string]: unknown; forms?: AjvError[][] }>;

/** Parameters that name a part of the value at the path. */
const NAMES = ["missingProperty", "additionalProperty", "unevaluatedProperty", "propertyName"];

/** Keywords about the kind of a value. */
const ON_KIND = new Set(["type", "enum", "const"]);

/** Converts the errors of a value to issues. `root`: the whole schema. */
export function convertAjvErrors(errors: readonly AjvError[], root: JsonObject): Issues {
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
