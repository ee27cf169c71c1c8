import { checkName, misdefinition } from "../kernel/check.ts";

/** What a model may call a tool by: what every provider takes. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws `invalid_definition` unless `name` can be the name of a tool: letters, digits, `_` and `-`, at most 64. */
export function checkToolName(field: string, name: unknown): void {
  checkName(field, name, TOOL_NAME, "letters, digits, _ and -, at most 64");
  if (name !== "__proto__") return;
  // Objects treat this one in their own way.
  throw misdefinition(field, "any other name", name, "Choose another name.");
}
