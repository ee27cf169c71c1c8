// Converts the issues of zod: each becomes a violated rule of JSON Schema.

import { z } from "zod";

import { isRecord } from "../../kernel/json.ts";
import type { Issues, Path } from "./validation-issue.ts";

/** Converts an issue of zod. `above`: the path of the union that contains the issue. */
export function convertZodIssue(issue: z.core.$ZodRawIssue, above: Path = []): Issues {
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
