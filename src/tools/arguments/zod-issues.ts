// Translates what zod has against a value: each issue becomes a rule of JSON Schema that a part breaks.

import { z } from "zod";

import { isRecord } from "../../kernel/json.ts";
import { RULE_WORDS } from "./schema-words.ts";
import type { Issues, Path } from "./validation-issue.ts";

type ZodIssue = z.core.$ZodRawIssue;

/** The ends of the keywords that bound a size. */
const SIZES = new Map(Object.entries({ string: "Length", array: "Items" }));

/** Returns an issue of zod as issues of ours. `above`: the path of the union that has the issue. */
export function zodIssues(issue: ZodIssue, above: Path = []): Issues {
  const path = [...above, ...(issue.path ?? []).map(String)];
  const isInteger = expectsInteger(issue);
  const rule = (
    keyword: string,
    allowed: readonly unknown[] = [],
    refused: unknown = issue.input,
  ): Issues => {
    const note = (): string => ownMessage(issue, RULE_WORDS.has(keyword));
    return [{ path, keyword, allowed, refused, isInteger, note }];
  };
  switch (issue.code) {
    case "invalid_type":
      return rule("type", [isInteger ? "integer" : issue.expected]);
    case "invalid_union": {
      const { errors, discriminator, input } = issue;
      const tag = isRecord(input) ? input[String(discriminator)] : undefined;
      if (issue.options !== undefined) return rule("enum", [issue.options].flat(), tag);
      if (errors.length === 0) return rule("oneOf");
      const options = issue.inst instanceof z.core.$ZodUnion ? issue.inst._zod.def.options : [];
      const forms = options.map((option) => (): Issues => {
        // The errors that zod lists do not name their schemas.
        const form = option._zod.run({ value: issue.input, issues: [] }, { async: true });
        return "then" in form ? [] : form.issues.flatMap((one) => zodIssues(one, path));
      });
      return [{ path, keyword: "anyOf", allowed: [], refused: issue.input, forms }];
    }
    case "unrecognized_keys": {
      const known = issue.inst instanceof z.core.$ZodObject ? issue.inst._zod.def.shape : undefined;
      const unknown = { keyword: "additionalProperties", allowed: [], known };
      return issue.keys.map((key) => ({ ...unknown, path: [...path, key] }));
    }
    case "too_small":
    case "too_big": {
      const [side, bound] =
        issue.code === "too_small" ? ["in", issue.minimum] : ["ax", issue.maximum];
      const size = SIZES.get(issue.origin) ?? "imum";
      if (issue.exact === true) return rule(`exact${size}`, [bound]);
      return rule(`${issue.inclusive === false ? "exclusiveM" : "m"}${side}${size}`, [bound]);
    }
    case "invalid_format": {
      const { format, prefix, suffix, includes, pattern } = issue;
      const part = prefix ?? suffix ?? includes;
      if (part !== undefined) return rule(format, [part]);
      const isPattern = format === "regex" || format === "template_literal";
      return isPattern ? rule("pattern", [pattern]) : rule("format", [format]);
    }
    case "not_multiple_of":
      return rule("multipleOf", [issue.divisor]);
    case "invalid_value":
      return rule("enum", issue.values);
    case "invalid_key":
      return rule("propertyNames");
    default:
      return rule(issue.code);
  }
}

function expectsInteger({ code, expected, inst, schema }: ZodIssue): boolean {
  const owner = code === "invalid_type" ? inst : schema;
  return expected === "int" || (owner instanceof z.ZodNumber && owner.isInt);
}

/** Returns the message of the schema's author, or that of zod for a rule without words of ours. */
function ownMessage(issue: ZodIssue, hasWords: boolean): string {
  const isOwn = [issue.inst, issue.schema].some((owner) => owner?._zod.def.error !== undefined);
  if (hasWords && !isOwn && issue.code !== "custom") return "";
  const { message } = z.core.util.finalizeIssue(issue, undefined, z.config());
  return message === "Invalid input" ? "" : message;
}
