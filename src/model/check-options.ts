// Checks options by a table with one row per option. Options without a row are unknown.

import { checkKeys, mismatch } from "../kernel/argument-checks.ts";
import { adviseOnOption } from "../kernel/option-names.ts";
import { isRecord } from "../kernel/json.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";

/** A check for each option, called with defined values. */
export type OptionChecks<Options> = {
  readonly [Name in keyof Options]-?: (field: string, value: Options[Name] & ({} | null)) => void;
};

/**
 * Checks each defined option, in the order of the table. `others`: options that are checked
 * elsewhere. Throws `invalid_argument`, or the error of a check.
 */
export function checkOptions<Options extends object>(
  field: string,
  options: Options,
  checks: OptionChecks<Options>,
  others: readonly string[] = [],
): void {
  checkKeys(field, options, [...Object.keys(checks), ...others], adviseOnOption);
  for (const name in checks) {
    const value = options[name];
    if (value !== undefined) checks[name](`${field}.${name}`, value);
  }
}

/** Creates a check that throws `invalid_argument` unless the value fits. */
export function mustBe(
  expected: string,
  fits: (value: unknown) => boolean,
  advice: string,
): (field: string, value: unknown) => void {
  return (field, value) => {
    if (!fits(value)) throw mismatch(field, expected, value, advice);
  };
}

/** Creates a check for a function. */
export function mustBeFunction(
  expected: string,
  advice: string,
): (field: string, value: unknown) => void {
  return mustBe(expected, (value) => typeof value === "function", advice);
}

/** Creates a check for a whole number from 1. */
export function mustBeWhole(advice: string): (field: string, value: unknown) => void {
  return mustBe(
    "a whole number from 1 up",
    (value) => Number.isSafeInteger(value) && Number(value) > 0,
    advice,
  );
}

export const checkTimeout = mustBeWhole("Leave it out for ten minutes.");

export const checkHeaders = mustBe(
  "names and values that HTTP allows",
  isHeaderRecord,
  "Correct them.",
);

const KINDS: readonly unknown[] = ["image", "audio", "file"] satisfies AttachmentKind[];

export const checkAccepts = mustBe(
  "an array of image, audio and file",
  (value) => Array.isArray(value) && value.every((kind) => KINDS.includes(kind)),
  "List the inputs of the model besides text; an empty array for none.",
);

/** Returns true if HTTP allows these names and values. */
export function isHeaderRecord(headers: unknown): boolean {
  try {
    return isRecord(headers) && Reflect.construct(Headers, [headers]) instanceof Headers;
  } catch {
    return false;
  }
}
