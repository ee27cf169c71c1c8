// Translates what zod has against a value: each issue becomes a rule of JSON Schema that a part breaks.

import { z } from "zod";

import { isRecord } from "../../kernel/json.ts";
import type { Issues, Path } from "./validation-issue.ts";

type ZodIssue = z.core.$ZodRawIssue;

/** Returns an issue of zod as issues of ours. `above`: the path of the union that has the issue. */
export function zodIssues(issue: ZodIssue, above: Path = []): Issues {
  const { code, input, inst } = issue;
  const path = [...above, ...(issue.path ?? []).map(String)];
  const isWorded = [inst, issue.schema].some((owner) => owner?._zod.def.error !== undefined);
  const note = (): string => messageOf(issue);
  const broken = { path, refused: input, ...(isWorded ? { note } : {}) };
  const rule = (keyword: string, limit?: unknown): Issues => [{ ...broken, keyword, limit }];
  switch (code) {
    case "invalid_type": {
      const isInteger = issue.expected === "int" || (inst instanceof z.ZodNumber && inst.isInt);
      return [{ ...broken, keyword: "type", types: [isInteger ? "integer" : issue.expected] }];
    }
    case "invalid_union": {
      if (issue.options !== undefined) {
        const refused = isRecord(input) ? input[String(issue.discriminator)] : undefined;
        return [{ ...broken, keyword: "enum", values: [issue.options].flat(), refused }];
      }
      if (issue.errors.length === 0) return rule("oneOf");
      const options = inst instanceof z.core.$ZodUnion ? inst._zod.def.options : [];
      const forms = options.map((option) => (): Issues => {
        // The errors that zod lists do not name their schemas.
        const form = option._zod.run({ value: input, issues: [] }, { async: true });
        return "then" in form ? [] : form.issues.flatMap((one) => zodIssues(one, path));
      });
      return [{ path, keyword: "anyOf", refused: input, forms }];
    }
    case "unrecognized_keys": {
      const known = inst instanceof z.core.$ZodObject ? inst._zod.def.shape : undefined;
      const keyword = "additionalProperties";
      return issue.keys.map((key) => ({ path: [...path, key], keyword, known }));
    }
    case "too_small":
    case "too_big": {
      const [side, limit] = code === "too_small" ? ["in", issue.minimum] : ["ax", issue.maximum];
      if (issue.exact === true) return rule("length", String(limit));
      const size = ["string", "array", "set"].includes(issue.origin) ? "Length" : "imum";
      return rule(`${issue.inclusive === false ? "exclusiveM" : "m"}${side}${size}`, String(limit));
    }
    case "invalid_format": {
      const { format, prefix, suffix, includes, pattern } = issue;
      const part = prefix ?? suffix ?? includes;
      if (part !== undefined) return rule(format, part);
      const isPattern = format === "regex" || format === "template_literal";
      return isPattern ? rule("pattern", pattern) : rule("format", format);
    }
    case "not_multiple_of":
      return rule("multipleOf", String(issue.divisor));
    case "invalid_value":
      return [{ ...broken, keyword: "enum", values: issue.values }];
    case "invalid_key":
      return rule("propertyNames");
    default:
      return [{ ...broken, keyword: "custom", note }];
  }
}

/** Returns the message of the schema's author, or that of zod. Empty if it says nothing. */
function messageOf(issue: ZodIssue): string {
  const { message } = z.core.util.finalizeIssue(issue, undefined, z.config());
  return message === "Invalid input" ? "" : message;
}
