// Settings of a tool, and of all tools of a role, checked and frozen. A tool's own value takes
// precedence over its role's, which takes precedence over the default.

import {
  checkBoolean,
  checkCount,
  checkFields,
  adviseDefault,
  type FieldChecks,
  mismatch,
  NO_LIMIT_ADVICE,
} from "../kernel/argument-checks.ts";
import { omitUndefined } from "../kernel/json.ts";

/**
 * Settings of a tool, or of all tools of a role as `toolDefaults`. A tool's own setting takes
 * precedence.
 *
 * @example
 * ```ts
 * const toolDefaults: ToolSettings = { timeoutMs: 10_000, maxRetries: 1, maxIdenticalCalls: 5 };
 * ```
 */
export interface ToolSettings {
  /**
   * Maximum duration of a call in milliseconds, including the wrappers of the tool.
   *
   * @default no limit but the time of the agent
   */
  readonly timeoutMs?: number;
  /**
   * Number of corrected calls in a row that the model may make after invalid arguments or a
   * `ToolRetryError`.
   *
   * @default 2
   */
  readonly maxRetries?: number;
  /**
   * Maximum number of UTF-16 code units of a result, or of an error message, that the model reads.
   * A notice with the real and the shown size follows. The record of the step keeps the whole
   * result.
   *
   * The surrounding words of a failure, at most 2,000 code units, are not cut. The result of a
   * delegation stays valid JSON: its texts are shortened.
   *
   * @default 50_000
   */
  readonly maxResultCharacters?: number;
  /**
   * The treatment of a result that exceeds `maxResultCharacters`. `"truncate"` cuts it,
   * `"summarize"` has the agent's own model shorten it, in a call that counts toward the budget.
   *
   * @default "truncate"
   */
  readonly longResultPolicy?: "truncate" | "summarize";
  /**
   * Number of identical calls in a row that run without a question. The next one needs an approval,
   * and is refused without an approver. Use `"unlimited"` for polling.
   *
   * @default 2
   */
  readonly maxIdenticalCalls?: number | "unlimited";
}

/**
 * Settings of all tools of a role. A tool's own setting takes precedence.
 *
 * @example
 * ```ts
 * const toolDefaults: ToolDefaults = { needsApproval: true, timeoutMs: 30_000 };
 * ```
 */
export interface ToolDefaults extends ToolSettings {
  /**
   * Requires an approval for each call of a tool that does not set `needsApproval` itself.
   *
   * @default false
   */
  readonly needsApproval?: boolean;
}

/** The settings of one tool's calls, with the defaults filled in. */
export interface EffectiveSettings extends Required<Omit<ToolDefaults, "timeoutMs">> {
  /** Maximum duration of a call in milliseconds. `undefined` for the time of the agent. */
  readonly timeoutMs: number | undefined;
}

/** The settings of a tool if neither the tool nor its role sets them. */
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

/** Throws `invalid_argument` unless `value` is a finite number above 0. */
export function checkSpan(
  field: string,
  value: unknown,
  advice = "Set the time in milliseconds.",
): void {
  if (typeof value === "number" && Number.isFinite(value) && value > 0) return;
  throw mismatch(field, "a number of milliseconds above 0", value, advice);
}

const CHECKS: Readonly<Record<keyof ToolSettings, FieldChecks[string]>> = {
  timeoutMs: (field, ms) => checkSpan(field, ms, NO_LIMIT_ADVICE),
  maxRetries: (field, count) =>
    checkCount(field, count, adviseDefault(DEFAULT_TOOL_SETTINGS.maxRetries)),
  maxResultCharacters: (field, count) =>
    checkCount(field, count, adviseDefault(DEFAULT_TOOL_SETTINGS.maxResultCharacters)),
  longResultPolicy: (field, value) => {
    if (value === "truncate" || value === "summarize") return;
    throw mismatch(field, '"truncate" or "summarize"', value, "Choose one.");
  },
  maxIdenticalCalls: (field, count) => {
    if (count !== "unlimited") checkCount(field, count, IDENTICAL_CALLS_ADVICE);
  },
};

/**
 * Returns a checked and frozen copy of a tool's settings. Throws `invalid_argument`.
 */
export function checkToolSettings(field: string, settings: ToolSettings): ToolSettings {
  checkFields(field, settings, CHECKS);
  return Object.freeze({ ...settings });
}

/**
 * Returns a checked and frozen copy of a role's settings. Throws `invalid_argument`.
 */
export function checkToolDefaults(field: string, settings: ToolDefaults): ToolDefaults {
  checkFields(field, settings, { ...CHECKS, needsApproval: checkBoolean });
  return Object.freeze(omitUndefined({ ...settings }));
}
