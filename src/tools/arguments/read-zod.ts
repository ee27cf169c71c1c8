// Reads arguments with the zod schema of their tool.

import type { z } from "zod";

import { copyJson, type JsonValue } from "../../kernel/json.ts";
import { thrownWords } from "./schema-words.ts";
import { partIssue, type Reading, type ValidationIssue } from "./validation-issue.ts";
import { issuesOf } from "./zod-issues.ts";

/** Parses a copy of `input`, so that nothing that a tool does to what it gets shows in what is logged. Never throws. */
function readWithZod(schema: z.core.$ZodType, input: JsonValue): Reading {
  try {
    // Not `safeParse`: it loses hold of what an asynchronous check returns, and a rejection of that would end the process.
    const parsed = schema._zod.run({ value: copyJson(input), issues: [] }, { async: true });
    if (parsed instanceof Promise) {
      parsed.catch(() => undefined);
      return unfit([partIssue([], () => "arguments that need no asynchronous check")]);
    }
    if (parsed.issues.length === 0) return { type: "fits", value: parsed.value };
    return unfit(parsed.issues.flatMap((issue) => issuesOf(issue, input, readWithZod)));
  } catch (cause) {
    // A check of the user's that throws has not accepted the input either.
    return unfit([partIssue([], () => thrownWords("a value", cause))]);
  }
}

/** Reads by one schema. */
export function zodReader(schema: z.core.$ZodType): (input: JsonValue) => Reading {
  return (input) => readWithZod(schema, input);
}

function unfit(issues: readonly ValidationIssue[]): Reading {
  return { type: "issues", issues };
}
