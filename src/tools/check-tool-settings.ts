// Settings of tools as a definition gives them: checked and frozen.

import {
  checkAmount,
  checkCount,
  checkKeys,
  defaultAdvice,
  misdefinition,
  mismatch,
} from "../kernel/check.ts";

import { DEFAULT_TOOL_SETTINGS, type ToolDefaults, type ToolSettings } from "./tool-settings.ts";

const IDENTICAL_CALLS_ADVICE = `Leave it out for the default, ${DEFAULT_TOOL_SETTINGS.maxIdenticalCalls}, or say "unlimited".`;

export const SETTING_FIELDS = [
  "timeoutMs",
  "maxRetries",
  "maxResultCharacters",
  "longResults",
  "maxIdenticalCalls",
] as const;

/** The settings of a definition, checked and frozen. Throws `invalid_option` or `invalid_definition`. */
export function toolSettings(field: string, given: ToolSettings): ToolSettings {
  checkKeys(field, given, SETTING_FIELDS);
  const { timeoutMs, maxRetries, maxResultCharacters, longResults, maxIdenticalCalls } = given;
  if (timeoutMs !== undefined) checkAmount(`${field}.timeoutMs`, timeoutMs);
  if (timeoutMs === 0)
    throw mismatch(`${field}.timeoutMs`, "more than 0", timeoutMs, "A call needs some time.");
  if (maxRetries !== undefined)
    checkCount(`${field}.maxRetries`, maxRetries, defaultAdvice(DEFAULT_TOOL_SETTINGS.maxRetries));
  if (maxResultCharacters !== undefined)
    checkCount(
      `${field}.maxResultCharacters`,
      maxResultCharacters,
      defaultAdvice(DEFAULT_TOOL_SETTINGS.maxResultCharacters),
    );
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
