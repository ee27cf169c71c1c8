import { checkName } from "../kernel/check.ts";

/** What a model may call a tool by: what every provider takes, but for the one name that objects treat in their own way. */
const TOOL_NAME = /^(?!__proto__$)[A-Za-z0-9_-]{1,64}$/;

/** Throws `invalid_definition` unless `name` can be the name of a tool: letters, digits, `_` and `-`, at most 64. */
export function checkToolName(field: string, name: unknown): void {
  checkName(field, name, TOOL_NAME);
}
