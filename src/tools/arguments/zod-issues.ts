// Translates what zod has against a value: each issue becomes a rule of JSON Schema that a part breaks.

import { z } from "zod";

import type { JsonValue } from "../../kernel/json.ts";
import { ruleWords, withNote } from "./schema-words.ts";
import { brokenRule, valueAt, type Issues, type Path } from "./validation-issue.ts";

type ZodIssue = z.core.$ZodRawIssue;

/** The ends of the keywords that bound a size. */
const SIZES = new Map(Object.entries({ string: "Length", array: "Items" }));

/** Returns what one issue of zod says of `input`. `above`: the path of the union that has the issue. */
export function zodIssues(issue: ZodIssue, input: JsonValue, above: Path = []): Issues {
  const path = [...above, ...(issue.path ?? []).map(String)];
  const rule = (keyword: string, limit?: unknown, allowed = limit): Issues => {
    const words = (): string =>
      ruleWords(keyword, limit, isInteger(issue) ? "an integer" : "a number");
    const expected = (): string => withNote(words(), ownMessage(issue));
    return [brokenRule(path, keyword, allowed, { expected })];
  };
  switch (issue.code) {
    case "invalid_type": {
      const type = isInteger(issue) ? "integer" : issue.expected;
      // After a transform or a coercion of zod's own, the issue is not about the written value.
      const isWritten = Object.is(valueAt(input, path) ?? issue.input, issue.input);
      return rule("type", type, isWritten ? type : []);
    }
    case "invalid_union": {
      if (issue.errors.length === 0) return rule(issue.options ? "enum" : "oneOf", issue.options);
      const options = issue.inst instanceof z.core.$ZodUnion ? issue.inst._zod.def.options : [];
      const forms = options.map((option) => {
        // The errors that zod lists do not name their schemas.
        const form = option._zod.run({ value: issue.input, issues: [] }, { async: true });
        return "then" in form ? [] : form.issues.flatMap((one) => zodIssues(one, input, path));
      });
      return [brokenRule(path, "anyOf", [], { forms })];
    }
    case "unrecognized_keys": {
      const known = issue.inst instanceof z.core.$ZodObject ? issue.inst._zod.def.shape : undefined;
      return issue.keys.flatMap((key) =>
        brokenRule([...path, key], "additionalProperties", [], { known }),
      );
    }
    case "too_small":
    case "too_big": {
      const [side, bound] =
        issue.code === "too_small" ? ["in", issue.minimum] : ["ax", issue.maximum];
      const size = SIZES.get(issue.origin) ?? "imum";
      if (issue.exact === true) return rule(`exact${size}`, bound);
      return rule(`${issue.inclusive === false ? "exclusiveM" : "m"}${side}${size}`, bound);
    }
    case "invalid_format": {
      const { format, prefix, suffix, includes, pattern } = issue;
      const isPattern = format === "regex" || format === "template_literal";
      const part = prefix ?? suffix ?? includes;
      if (part !== undefined) return rule(format, part);
      return isPattern ? rule("pattern", pattern) : rule("format", format);
    }
    case "not_multiple_of":
      return rule("multipleOf", issue.divisor);
    case "invalid_value":
      return rule("enum", issue.values);
    default:
      return rule(issue.code);
  }
}

function isInteger({ code, expected, inst, schema }: ZodIssue): boolean {
  const owner = code === "invalid_type" ? inst : schema;
  return expected === "int" || (owner instanceof z.ZodNumber && owner.isInt);
}

/** Returns the message of the schema's author, or nothing if there is none. */
function ownMessage(issue: ZodIssue): string {
  const isOwn = [issue.inst, issue.schema].some((owner) => owner?._zod.def.error !== undefined);
  if (!isOwn && issue.code !== "custom") return "";
  const { message } = z.core.util.finalizeIssue(issue, undefined, z.config());
  return message === "Invalid input" ? "" : message;
}
