// The arguments of a call as others are shown them: guards and approvers see the value that the tool gets, if that is JSON.

import { copyJson, deepFreeze, soundCopy, type JsonValue } from "../../kernel/json.ts";
import { argumentsOf, MOST_LEVELS, type BoundCall } from "../../tools/bind-call.ts";
import type { OpenCall } from "./open-call.ts";

/** A call whose arguments fit its tool. */
export type CheckedCall = Exclude<BoundCall, { readonly type: "rejected" }>;

/** What the tool gets, so that no default and no transform goes past a guard; as it was written, if that is no JSON. Frozen. */
export function usedArguments({ value, input }: CheckedCall): JsonValue {
  const used = parsedJson(value);
  return deepFreeze(used === undefined ? copyJson(input) : used);
}

/** Returns a copy of a value that is JSON. Returns `undefined` for other values, such as a `Date`. */
export function parsedJson(value: unknown): JsonValue | undefined {
  try {
    return soundCopy(value, MOST_LEVELS);
  } catch {
    return undefined;
  }
}

/** The arguments with which the call was made, as hooks and answers left them; the text itself, if it is no JSON. */
export function writtenArguments({ bound, planned: { argumentsText } }: OpenCall): JsonValue {
  return "input" in bound ? bound.input : (readArguments(argumentsText) ?? argumentsText);
}

/** The arguments of a call that has not been looked at yet; undefined: they are no JSON. */
export function readArguments(argumentsText: string): JsonValue | undefined {
  try {
    return argumentsOf(argumentsText);
  } catch {
    return undefined;
  }
}
