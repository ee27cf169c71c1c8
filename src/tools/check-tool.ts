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
    const help = isPromiseLike(value) ? "Await it." : "Make it with defineTool({ … }).";
    throw misdefinition(field, "a tool", value, help);
  }
  const { kind } = value;
  if (kinds.some((known) => known === kind)) return;
  const expected = kinds.map((known) => JSON.stringify(known)).join(" or ");
  throw misdefinition(`${field}.kind`, expected, kind, advice);
}

function isTool(value: unknown): value is { readonly kind: unknown } {
  if (!isRecord(value)) return false;
  return typeof value["name"] === "string" && typeof value["bind"] === "function";
}
