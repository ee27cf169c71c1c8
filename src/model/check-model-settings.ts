// How a model is to answer, as an option or a definition says it: checked once, and copied, so that it cannot change later.

import { checkKeys, misdefinition, mismatch } from "../kernel/check.ts";
import { deepFreeze } from "../kernel/json.ts";
import {
  ToolChoiceSchema,
  type ModelSettings,
  type ToolChoice,
} from "../protocol/model-settings.ts";

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const SUMMARIES = ["auto", "concise", "detailed"];
const VERBOSITIES = ["low", "medium", "high"];
const DEFAULT = "Leave it out for the provider's default.";

export const SETTING_NAMES = [
  "reasoning",
  "verbosity",
  "seed",
  "stop",
  "topP",
  "parallelToolCalls",
] as const satisfies readonly (keyof ModelSettings)[];

/** Throws `invalid_option` if a setting cannot be meant. `field` is what the user calls them. */
export function checkModelSettings(field: string, settings: ModelSettings): void {
  const { reasoning, verbosity, seed, stop, topP, parallelToolCalls } = settings;
  if (reasoning !== undefined) {
    checkKeys(`${field}.reasoning`, reasoning, ["effort", "summary"]);
    checkWord(`${field}.reasoning.effort`, reasoning.effort, EFFORTS);
    checkWord(`${field}.reasoning.summary`, reasoning.summary, SUMMARIES);
  }
  checkWord(`${field}.verbosity`, verbosity, VERBOSITIES);
  if (seed !== undefined && !Number.isSafeInteger(seed))
    throw mismatch(`${field}.seed`, "a whole number", seed, DEFAULT);
  if (stop !== undefined && !isListOfTexts(stop))
    throw mismatch(`${field}.stop`, "a list of texts that are not empty", stop, DEFAULT);
  if (topP !== undefined && !(typeof topP === "number" && topP > 0 && topP <= 1))
    throw mismatch(`${field}.topP`, "a number over 0, up to 1", topP, DEFAULT);
  if (parallelToolCalls !== undefined && typeof parallelToolCalls !== "boolean")
    throw mismatch(`${field}.parallelToolCalls`, "true or false", parallelToolCalls, DEFAULT);
}

/** Those of `settings` that are given, frozen. */
export function copyModelSettings(settings: ModelSettings): ModelSettings {
  const { reasoning, stop } = settings;
  const given = SETTING_NAMES.filter((name) => settings[name] !== undefined);
  return Object.freeze({
    ...Object.fromEntries(given.map((name) => [name, settings[name]])),
    ...(reasoning === undefined ? {} : { reasoning: Object.freeze({ ...reasoning }) }),
    ...(stop === undefined ? {} : { stop: Object.freeze([...stop]) }),
  });
}

/** The choice, frozen. Throws `invalid_definition` unless it is one among tools with these names. */
export function toolChoiceAmong(
  field: string,
  given: ToolChoice,
  toolNames: readonly string[],
): ToolChoice {
  const parsed = ToolChoiceSchema.safeParse(given);
  const advice =
    toolNames.length === 0 ? "It has no tools." : `Its tools are: ${toolNames.join(", ")}.`;
  if (!parsed.success) {
    const expected = '"auto", "none", "required", { tool: … } or { oneOf: […] }';
    throw misdefinition(field, expected, given, advice);
  }
  const choice = parsed.data;
  if (typeof choice === "string") return choice;
  const names = "tool" in choice ? [choice.tool] : choice.oneOf;
  const unknown = names.find((name) => !toolNames.includes(name));
  if (unknown !== undefined)
    throw misdefinition(field, "the name of one of its tools", unknown, advice);
  return deepFreeze(choice);
}

function checkWord(field: string, value: unknown, words: readonly string[]): void {
  if (value === undefined || (typeof value === "string" && words.includes(value))) return;
  const expected = words.map((word) => JSON.stringify(word)).join(", ");
  throw mismatch(field, `one of ${expected}`, value, DEFAULT);
}

function isListOfTexts(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((text) => typeof text === "string" && text !== "")
  );
}
