// Translates the errors of Ajv: each is already a rule of JSON Schema that a part breaks.

import type { ErrorObject } from "ajv";

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { unescapeKey } from "./schema-pointer.ts";
import { allowedBy, ruleWords, wordsOf } from "./schema-words.ts";
import { brokenRule, type Issues, type ValidationIssue } from "./validation-issue.ts";

/** An Ajv error with the fields that `verbose` adds. The error of a union has the errors of its forms. */
export type AjvError = ErrorObject<string, AjvParams>;

interface AjvParams {
  readonly [name: string]: unknown;
  readonly missingProperty?: string;
  readonly additionalProperty?: string;
  readonly unevaluatedProperty?: string;
  readonly propertyName?: string;
  readonly forms?: readonly (readonly AjvError[])[];
}

/** Converts the errors of a value to issues. `root`: the whole schema. */
export function ajvIssues(errors: readonly AjvError[], root: JsonObject): Issues {
  // The error of a name is followed by one of `propertyNames`, that of `if` by those of its branch.
  const isTold = ({ keyword, propertyName }: AjvError): boolean =>
    keyword === "propertyNames" || (keyword !== "if" && propertyName === undefined);
  return errors.filter(isTold).map((error) => toIssue(error, root));
}

function toIssue(error: AjvError, root: JsonObject): ValidationIssue {
  const { instancePath, keyword, params, schema, parentSchema = {}, message } = error;
  const { missingProperty, additionalProperty, unevaluatedProperty, propertyName } = params;
  const name = missingProperty ?? additionalProperty ?? unevaluatedProperty ?? propertyName;
  const above = instancePath.split("/").slice(1).map(unescapeKey);
  const path = name === undefined ? above : [...above, name];
  const properties: unknown = parentSchema["properties"];
  const known = isRecord(properties) ? properties : {};
  if (missingProperty !== undefined) {
    const part = Object.hasOwn(known, missingProperty) ? known[missingProperty] : undefined;
    const allowed = allowedBy(part);
    const more = { known, expected: () => wordsOf(part, root) };
    return brokenRule(path, allowed === undefined ? "required" : "enum", allowed, more);
  }
  const forms = params.forms?.map((form) => ajvIssues(form, root)) ?? [];
  if (forms.length > 0) return brokenRule(path, keyword, [], { forms });
  if (keyword === "const") return brokenRule(path, "enum", [schema]);
  const noun = parentSchema["type"] === "integer" ? "an integer" : "a number";
  const limit = keyword === "pattern" ? `/${String(schema)}/` : schema;
  const expected = (): string => ruleWords(keyword, limit, noun, message);
  return brokenRule(path, keyword, schema, { known, expected });
}
