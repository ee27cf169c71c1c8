import { isPromiseLike } from "../kernel/cancel-signal.ts";
import { checkName, mismatch } from "../kernel/argument-checks.ts";
import { isRecord } from "../kernel/json.ts";
import type { Tool } from "./tool.ts";

/**
 * Throws `invalid_argument` unless `value` is a tool of these kinds. `advice` explains the
 * restriction.
 */
export function checkTool(
  field: string,
  value: unknown,
  kinds: readonly Tool["kind"][],
  advice: string,
): void {
  if (!isTool(value)) {
    throw mismatch(field, "a tool", value, adviseOnNonTool(field, value));
  }
  const { kind } = value;
  if (kinds.some((known) => known === kind)) return;
  const expected = kinds.map((known) => JSON.stringify(known)).join(" or ");
  throw mismatch(`${field}.kind`, expected, kind, advice);
}

/** Returns true if `value` looks like a tool of some kind. */
export function isTool(value: unknown): value is { readonly kind: unknown } {
  if (!isRecord(value)) return false;
  return typeof value["name"] === "string" && typeof value["bind"] === "function";
}

/**
 * Returns true for an object with a list of tools, such as an MCP server. A role has such a list
 * too, but is not a toolset.
 */
export function isToolset(value: unknown): boolean {
  return isRecord(value) && Array.isArray(value["tools"]) && !isAgentRole(value);
}

/** Returns true if `defineAgent` created the value. */
export function isAgentRole(value: unknown): boolean {
  return isRecord(value) && "hasOutput" in value;
}

/**
 * Returns advice for a value that is not a tool. A toolset can be spread into a list; elsewhere one
 * tool is expected.
 */
function adviseOnNonTool(field: string, value: unknown): string {
  if (isPromiseLike(value)) return "Await it.";
  if (isAgentRole(value)) return "Put roles into subagents.";
  const isInList = field.endsWith("]");
  if (isToolset(value)) return isInList ? "Spread its tools: ...server.tools." : TOOLSET_ADVICE;
  if (Array.isArray(value)) return isInList ? "Spread it: ...tools." : TOOLSET_ADVICE;
  return "Create it with defineTool({ … }).";
}

const TOOLSET_ADVICE = "Apply it to each of its tools.";

/** Tool names that every provider accepts. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Throws `invalid_argument` unless `name` is a valid tool name: letters, digits, `_` and `-`, at
 * most 64.
 */
export function checkToolName(field: string, name: unknown): void {
  checkName(field, name, TOOL_NAME, "letters, digits, _ and -, at most 64");
  if (name !== "__proto__") return;
  // This key has a special meaning in objects.
  throw mismatch(field, "any other name", name, "Choose another name.");
}
