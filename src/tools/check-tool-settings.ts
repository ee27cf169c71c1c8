// Settings of tools as a definition gives them: checked and frozen.

import {
  checkCount,
  checkFields,
  defaultAdvice,
  misdefinition,
  mismatch,
  type FieldChecks,
} from "../kernel/check.ts";
import { defined } from "../kernel/json.ts";

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

const CHECKS: Readonly<Record<keyof ToolSettings, FieldChecks[string]>> = {
  timeoutMs: (field, ms) => checkSpan(field, ms, "Leave it out for no limit of its own."),
  maxRetries: (field, count) =>
    checkCount(field, count, defaultAdvice(DEFAULT_TOOL_SETTINGS.maxRetries)),
  maxResultCharacters: (field, count) =>
    checkCount(field, count, defaultAdvice(DEFAULT_TOOL_SETTINGS.maxResultCharacters)),
  longResults: (field, value) => {
    if (value === "truncate" || value === "summarize") return;
    throw misdefinition(field, '"truncate" or "summarize"', value, "Choose one.");
  },
  maxIdenticalCalls: (field, count) => {
    if (count !== "unlimited") checkCount(field, count, IDENTICAL_CALLS_ADVICE);
  },
};

/** The settings of a definition, checked and frozen. Throws `invalid_option` or `invalid_definition`. */
export function toolSettings(field: string, given: ToolSettings): ToolSettings {
  checkFields(field, given, CHECKS);
  return Object.freeze({ ...given });
}

/** The same for all tools of a role. */
export function toolDefaults(field: string, given: ToolDefaults): ToolDefaults {
  checkFields(field, given, { ...CHECKS, needsApproval: checkApproval });
  return Object.freeze(defined({ ...given }));
}

function checkApproval(field: string, value: unknown): void {
  if (typeof value !== "boolean") throw misdefinition(field, "true or false", value, "Say which.");
}
