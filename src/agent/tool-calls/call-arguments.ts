// The arguments of a call as others are shown them: guards see what the tool gets, and so does the approver, where that can be handed back.

import {
  canonicalJson,
  copyJson,
  deepFreeze,
  soundCopy,
  type JsonValue,
} from "../../kernel/json.ts";
import { argumentsOf, MOST_LEVELS, rebindCall, type BoundCall } from "../../tools/bind-call.ts";
import type { OpenCall } from "./open-call.ts";

type CheckedCall = Exclude<BoundCall, { readonly type: "rejected" }>;

/** What the tool gets, so that no default and no transform goes past a guard; as it was written, if that is no JSON. Frozen. */
export function usedArguments({ value, input }: CheckedCall): JsonValue {
  const used = jsonOf(value);
  return deepFreeze(used === undefined ? copyJson(input) : used);
}

/** A copy of what is JSON: nothing that refers to itself, that must not be looked at, or that is nested beyond reason. */
function jsonOf(value: unknown): JsonValue | undefined {
  try {
    return soundCopy(value, MOST_LEVELS);
  } catch {
    return undefined;
  }
}

/** The same for a question, whose arguments run when it is approved: as written, if the schema would make something else of them then. */
export function askedArguments(bound: CheckedCall): JsonValue {
  const used = usedArguments(bound);
  const again = rebindCall(bound.tool, used);
  if (again.type === "rejected" || jsonOf(again.value) === undefined) return bound.input;
  return canonicalJson(usedArguments(again)) === canonicalJson(used) ? used : bound.input;
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
