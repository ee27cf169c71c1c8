// Checks the arguments of an answer against the schema that the model was shown, without the role.

import { isRecord, parseJson, type JsonObject } from "../../kernel/json.ts";
import type { ArgumentProblem } from "../../tools/arguments/argument-problems.ts";
import { jsonSchemaInput, objectSchema } from "../../tools/arguments/json-schema-input.ts";

/**
 * Returns the problems of the arguments. `toolsText` contains the tools of the model request. Returns
 * none if the schema cannot be used: the process that has the role decides.
 */
export function findArgumentProblems(
  toolsText: string,
  toolName: string,
  input: JsonObject,
): readonly ArgumentProblem[] {
  const field = `${toolName}.input`;
  let schema: ReturnType<typeof jsonSchemaInput>;
  try {
    const parsed = parseJson(toolsText);
    const tools: readonly unknown[] = Array.isArray(parsed) ? parsed : [];
    const tool = tools.find((one) => isRecord(one) && one["name"] === toolName);
    if (!isRecord(tool)) return [];
    schema = jsonSchemaInput(field, objectSchema(field, tool["inputSchema"]), false);
  } catch {
    return [];
  }
  const checked = schema.check(input);
  return checked.type === "valid" ? [] : checked.problems;
}
