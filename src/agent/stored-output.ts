// Checks a stored typed result against the role of this process: the role may have another `output`
// than the one that parsed the result.

import { isJsonObject, sameJson, type JsonValue } from "../kernel/json.ts";
import { shownJson } from "../kernel/shown-json.ts";
import { problemsOf, type ArgumentProblem } from "../tools/arguments/argument-problems.ts";
import {
  brokenRule,
  isList,
  valueAt,
  type Path,
  type ValidationIssue,
} from "../tools/arguments/validation-issue.ts";
import type { AgentRole } from "./agent-role.ts";
import type { OutputParse } from "./agent-state.ts";
import { hashOutputSchema, wrapResult } from "./finish-tool.ts";

/**
 * Returns the fields of a stored result that the role does not allow. Empty if the schema is the one
 * that parsed the result, or if it makes the stored value of what the model wrote, or leaves the
 * stored value as it is.
 */
export function findOutputProblems(
  { output: schema, finish }: Pick<AgentRole, "output" | "finish">,
  output: JsonValue,
  parse: OutputParse | undefined,
): readonly ArgumentProblem[] {
  if (schema === undefined || finish === undefined) return NO_OUTPUT;
  if (parse?.schemaHash === hashOutputSchema(schema)) return [];
  const again = finish.bind(parse?.written ?? output);
  const attempts = [again, finish.bind(output), finish.bind(wrapResult(output))];
  if (attempts.some((bound) => bound.type === "valid" && sameJson(bound.use, output))) return [];
  if (again.type === "invalid") return again.problems;
  return problemsOf(output, output, findDifferences(output, again.use));
}

/** The problem of any result of a role without one. */
export const NO_OUTPUT: readonly ArgumentProblem[] = [
  { parameter: "", expected: "nothing, since the role has no output", received: "a result" },
];

/** Returns the parts of a stored value that differ from those of the expected value. */
function findDifferences(
  stored: JsonValue | undefined,
  expected: JsonValue | undefined,
  path: Path = [],
): readonly ValidationIssue[] {
  if (expected === undefined) return [brokenRule(path, "additionalProperties")];
  if (sameJson(stored, expected)) return [];
  const isSameKind =
    (isJsonObject(stored) && isJsonObject(expected)) ||
    (stored !== undefined && isList(stored) && isList(expected));
  if (!isSameKind) return [brokenRule(path, "", [], { expected: () => shownJson(expected) })];
  const keys = new Set([...Object.keys(expected), ...Object.keys(stored)]);
  return [...keys].flatMap((key) =>
    findDifferences(valueAt(stored, [key]), valueAt(expected, [key]), [...path, key]),
  );
}
