// Settings of tools as a definition gives them: checked and frozen.

import { checkCount, checkKeys, defaultAdvice, misdefinition, mismatch } from "../kernel/check.ts";

import { DEFAULT_TOOL_SETTINGS, type ToolDefaults, type ToolSettings } from "./tool-settings.ts";

const IDENTICAL_CALLS_ADVICE = `Leave it out for the default, ${DEFAULT_TOOL_SETTINGS.maxIdenticalCalls}, or say "unlimited".`;

export const SETTING_FIELDS = [
  "timeoutMs",
  "maxRetries",
  "maxResultCharacters",
  "longResults",
  "maxIdenticalCalls",
] as const;

/** Throws `invalid_option` unless `value` is a finite number above 0. */
export function checkSpan(field: string, value: unknown, advice = "Say how long it is."): void {
  if (typeof value === "number" && Number.isFinite(value) && value > 0) return;
  throw mismatch(field, "a number of milliseconds above 0", value, advice);
}

/** The settings of a definition, checked and frozen. Throws `invalid_option` or `invalid_definition`. */
export function toolSettings(field: string, given: ToolSettings): ToolSettings {
  checkKeys(field, given, SETTING_FIELDS);
  const { timeoutMs, longResults, maxIdenticalCalls } = given;
  if (timeoutMs !== undefined)
    checkSpan(`${field}.timeoutMs`, timeoutMs, "Leave it out for no limit of its own.");
  for (const name of ["maxRetries", "maxResultCharacters"] as const) {
    const count = given[name];
    if (count !== undefined)
      checkCount(`${field}.${name}`, count, defaultAdvice(DEFAULT_TOOL_SETTINGS[name]));
  }
  if (longResults !== undefined && longResults !== "truncate" && longResults !== "summarize")
    throw misdefinition(
      `${field}.longResults`,
      '"truncate" or "summarize"',
      longResults,
      "Choose one.",
    );
  if (maxIdenticalCalls !== undefined && maxIdenticalCalls !== "unlimited")
    checkCount(`${field}.maxIdenticalCalls`, maxIdenticalCalls, IDENTICAL_CALLS_ADVICE);
  return Object.freeze({ ...given });
}

/** The same for all tools of a role. */
export function toolDefaults(field: string, given: ToolDefaults): ToolDefaults {
  checkKeys(field, given, [...SETTING_FIELDS, "needsApproval"]);
  const { needsApproval, ...settings } = given;
  if (needsApproval !== undefined && typeof needsApproval !== "boolean")
    throw misdefinition(`${field}.needsApproval`, "true or false", needsApproval, "Say which.");
  return Object.freeze({
    ...toolSettings(field, settings),
    ...(needsApproval === undefined ? {} : { needsApproval }),
  });
}
