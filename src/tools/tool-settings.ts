// Settings of a tool, and of all tools of a role: checked and frozen. The own value of a tool comes before
// that of its role, which comes before the default.

import {
  checkCount,
  checkFields,
  defaultAdvice,
  type FieldChecks,
  misdefinition,
  mismatch,
} from "../kernel/check.ts";
import { defined } from "../kernel/json.ts";

/** What may be set for a tool, and as `toolDefaults` for all tools of a role. */
export interface ToolSettings {
  /** How long one call may take, wrappers of the tool included. Default: as long as its agent. */
  readonly timeoutMs?: number;
  /** How often in a row the model is asked for a corrected call before the tool is given up: N retries are allowed. Default 2. */
  readonly maxRetries?: number;
  /**
   * Most UTF-16 code units of a result that the model is shown, and of what a tool says when it fails; a notice of the real and the shown
   * size follows. Default 50,000. Of a failure, what is said around the tool's words stays (at most 2,000 more). The JSON of a delegation
   * is shortened inside, notices included, and keeps at least `outcome` and `subagent`, also where these alone are longer.
   */
  readonly maxResultCharacters?: number;
  /** What is done with a longer result: it is cut, with a notice (default), or summarised by the agent's own model, which is paid for. */
  readonly longResultPolicy?: "truncate" | "summarize";
  /** How often in a row the same call may be made. The next one is asked about, or refused without an approver. Default 2. */
  readonly maxIdenticalCalls?: number | "unlimited";
}

/** What may be set for all tools of a role; a tool's own value comes first. */
export interface ToolDefaults extends ToolSettings {
  /** Whether calls need an approval, where a tool does not say. Default false. */
  readonly needsApproval?: boolean;
}

/** What holds for the calls of one tool. */
export interface EffectiveSettings extends Required<Omit<ToolDefaults, "timeoutMs">> {
  /** Undefined: as long as its agent. */
  readonly timeoutMs: number | undefined;
}

/** What holds where neither a tool nor its role says. */
export const DEFAULT_TOOL_SETTINGS = Object.freeze({
  timeoutMs: undefined,
  maxRetries: 2,
  maxResultCharacters: 50_000,
  longResultPolicy: "truncate",
  maxIdenticalCalls: 2,
  needsApproval: false,
} satisfies EffectiveSettings);

const IDENTICAL_CALLS_ADVICE = `Leave it out for the default, ${DEFAULT_TOOL_SETTINGS.maxIdenticalCalls}, or use "unlimited".`;

export const SETTING_FIELDS = [
  "timeoutMs",
  "maxRetries",
  "maxResultCharacters",
  "longResultPolicy",
  "maxIdenticalCalls",
] as const;

/** Throws `invalid_option` unless `value` is a finite number above 0. */
export function checkSpan(
  field: string,
  value: unknown,
  advice = "Set the time in milliseconds.",
): void {
  if (typeof value === "number" && Number.isFinite(value) && value > 0) return;
  throw mismatch(field, "a number of milliseconds above 0", value, advice);
}

const CHECKS: Readonly<Record<keyof ToolSettings, FieldChecks[string]>> = {
  timeoutMs: (field, ms) => checkSpan(field, ms, "Leave it out for no limit."),
  maxRetries: (field, count) =>
    checkCount(field, count, defaultAdvice(DEFAULT_TOOL_SETTINGS.maxRetries)),
  maxResultCharacters: (field, count) =>
    checkCount(field, count, defaultAdvice(DEFAULT_TOOL_SETTINGS.maxResultCharacters)),
  longResultPolicy: (field, value) => {
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
  checkFields(field, given, { ...CHECKS, needsApproval: checkFlag });
  return Object.freeze(defined({ ...given }));
}

/** Throws `invalid_definition` unless `value` is true or false. */
export function checkFlag(field: string, value: unknown): void {
  if (typeof value !== "boolean")
    throw misdefinition(field, "true or false", value, "Set true or false.");
}
