import { isPromiseLike } from "../kernel/cancel.ts";
import { misdefinition } from "../kernel/check.ts";
import { isRecord } from "../kernel/json.ts";
import type { Tool } from "./tool.ts";

/** Throws `invalid_definition` unless `value` is a tool of one of these kinds; `advice` says why it must be one of them. */
export function checkTool(
  field: string,
  value: unknown,
  kinds: readonly Tool["kind"][],
  advice: string,
): void {
  if (!isTool(value)) {
    throw misdefinition(field, "a tool", value, helpWith(field, value));
  }
  const { kind } = value;
  if (kinds.some((known) => known === kind)) return;
  const expected = kinds.map((known) => JSON.stringify(known)).join(" or ");
  throw misdefinition(`${field}.kind`, expected, kind, advice);
}

/** True if `value` looks like a tool of some kind. */
export function isTool(value: unknown): value is { readonly kind: unknown } {
  if (!isRecord(value)) return false;
  return typeof value["name"] === "string" && typeof value["bind"] === "function";
}

/** True for what has a list of tools, such as an MCP server. A role has one, too, and is none. */
export function isToolset(value: unknown): boolean {
  return isRecord(value) && Array.isArray(value["tools"]) && !isRole(value);
}

function isRole(value: unknown): boolean {
  return isRecord(value) && "hasOutput" in value;
}

/** What to do about something that is no tool. In a list a whole toolset can be spread, anywhere else one tool is expected. */
function helpWith(field: string, value: unknown): string {
  if (isPromiseLike(value)) return "Await it.";
  if (isRole(value)) return "A role goes into subagents.";
  const isInList = field.endsWith("]");
  if (isToolset(value)) return isInList ? "Spread its tools: ...server.tools." : ONE_OF_THEM;
  if (Array.isArray(value)) return isInList ? "Spread it: ...tools." : ONE_OF_THEM;
  return "Make it with defineTool({ … }).";
}

const ONE_OF_THEM = "Do it with each of its tools.";
