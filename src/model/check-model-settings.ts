// Checks and copies model settings and tool choices of options and definitions, once, so that later
// changes by the user have no effect.

import { checkKeys, mismatch, describeReceived } from "../kernel/argument-checks.ts";
import { deepFreeze, omitUndefined, isRecord } from "../kernel/json.ts";
import {
  ModelSettingsSchema,
  ToolChoiceSchema,
  type ModelSettings,
  type ToolChoice,
} from "../protocol/model-settings.ts";

export const SETTING_NAMES = [
  "reasoning",
  "verbosity",
  "seed",
  "stopSequences",
  "topP",
  "parallelToolCalls",
] as const satisfies readonly (keyof ModelSettings)[];

/** Expected values of the settings that are not enums. */
const EXPECTED: Readonly<Record<string, string>> = {
  seed: "a whole number",
  stopSequences: "an array of 1 to 4 non-empty strings",
  topP: "a number over 0, up to 1",
  parallelToolCalls: "true or false",
};

/** Throws `invalid_argument` if a setting is invalid. `field` is the user's name for the settings. */
export function checkModelSettings(field: string, settings: ModelSettings): void {
  const { reasoning } = settings;
  if (reasoning !== undefined) checkKeys(`${field}.reasoning`, reasoning, ["effort", "summary"]);
  const present = pickGivenSettings(settings);
  if (Object.keys(present).length === 0) return;
  const [issue] = ModelSettingsSchema().safeParse(present).error?.issues ?? [];
  if (issue === undefined) return;
  const [setting = ""] = issue.path.map(String);
  const path = setting === "reasoning" ? issue.path : [setting];
  const words = issue.code === "invalid_value" ? issue.values.map(describeReceived).join(", ") : "";
  const got = path.reduce<unknown>((at, key) => (isRecord(at) ? at[String(key)] : at), present);
  throw mismatch(
    [field, ...path].join("."),
    EXPECTED[setting] ?? `one of ${words}`,
    got,
    "Leave it out for the provider's default.",
  );
}

/** Returns a frozen copy of the defined settings. */
export function copyModelSettings(settings: ModelSettings): ModelSettings {
  return deepFreeze(structuredClone(pickGivenSettings(settings)));
}

/** Returns the defined settings, and the defined parts of `reasoning`. */
function pickGivenSettings(settings: ModelSettings): ModelSettings {
  const { verbosity, seed, stopSequences, topP, parallelToolCalls } = settings;
  const { effort, summary } = settings.reasoning ?? {};
  const reasoning = settings.reasoning && omitUndefined({ effort, summary });
  return omitUndefined({ reasoning, verbosity, seed, stopSequences, topP, parallelToolCalls });
}

/** Returns the choice, frozen. Throws `invalid_argument` unless it names tools of `toolNames`. */
export function checkToolChoice(
  field: string,
  input: ToolChoice,
  toolNames: readonly string[],
): ToolChoice {
  const parsed = ToolChoiceSchema().safeParse(input);
  const advice =
    toolNames.length === 0 ? "It has no tools." : `Its tools are: ${toolNames.join(", ")}.`;
  if (!parsed.success) {
    const expected = '"auto", "none", "required", { toolName: … } or { toolNames: […] }';
    throw mismatch(field, expected, input, advice);
  }
  const choice = parsed.data;
  if (typeof choice === "string") return choice;
  const names = "toolName" in choice ? [choice.toolName] : choice.toolNames;
  const unknown = names.find((name) => !toolNames.includes(name));
  if (unknown !== undefined) throw mismatch(field, "the name of one of its tools", unknown, advice);
  return deepFreeze(choice);
}

/** Highest temperature that a provider accepts. The lowest is 0. */
export const MAX_TEMPERATURE = 2;
