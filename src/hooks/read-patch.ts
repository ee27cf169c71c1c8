// Converts the return value of a hook, which may be anything, to a patch, or to an error that names
// point, hook and field.

import { getErrorMessage } from "../kernel/error.ts";
import { deepFreeze, isPlainObject, type JsonValue } from "../kernel/json.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { TransformHook } from "./hook.ts";
import { createHookResultError, type HookPlace } from "./hook-error.ts";
import type { PointInput, PointPatch, TransformPoint } from "./hook-points.ts";
import type { Named } from "./hook-set.ts";
import { copyForeignJson } from "../kernel/json-copy.ts";
import { getPatchContract } from "./patch-contract.ts";

/**
 * Returns the patch of a hook, copied and frozen. `returned` is the hook's return value, `shown`
 * its input. An absent value is an empty patch. Throws `invalid_hook_result` if the point does not
 * allow it.
 */
export function readPatch<P extends TransformPoint>(
  point: P,
  named: Named<TransformHook<P>>,
  shown: PointInput[P],
  returned: unknown,
): PointPatch[P] {
  const place = { point, hook: named.name };
  const { fields, schema, fitted } = getPatchContract(point);
  const parts: [string, JsonValue][] = [];
  for (const field of listFields(place, fields, returned)) {
    if (!fields.includes(field)) refuseField(place, named.hook, { field, fields });
    else parts.push(...readField(place, returned, field));
  }
  const parsed = schema.safeParse(Object.fromEntries(parts));
  // Cloned, because zod freezes lists without their items.
  if (parsed.success) {
    const patch = structuredClone(parsed.data);
    return deepFreeze(fitted === undefined ? patch : fitted(patch, shown, place));
  }
  const [issue] = parsed.error.issues;
  const [field = "", ...path] = issue?.path.map(String) ?? [];
  throw createHookResultError(place, {
    field,
    expected: `return a patch whose ${field} fits`,
    got: `one that does not${path.length === 0 ? "" : ` at ${path.join(".")}`}: ${issue?.message}`,
    advice: "Correct it, or leave it out.",
  });
}

/** Returns the field names of a returned value. An absent value has none. */
function listFields(
  place: HookPlace,
  fields: readonly string[],
  returned: unknown,
): readonly string[] {
  if (returned === undefined) return [];
  const expected = `return nothing or an object of ${fields.join(", ")}`;
  const advice = "Return nothing to change nothing.";
  try {
    if (isPlainObject(returned)) return Object.keys(returned);
  } catch (cause) {
    const got = `an object that cannot be read: ${getErrorMessage(cause)}`;
    throw createHookResultError(place, { expected, got, advice, cause });
  }
  throw createHookResultError(place, {
    expected,
    got: returned === null ? "null" : typeof returned,
    advice,
  });
}

/** Returns the name and a copy of a field, or nothing if the field is undefined. */
function readField(
  place: HookPlace,
  returned: unknown,
  field: string,
): readonly [string, JsonValue][] {
  try {
    const value: unknown = isPlainObject(returned) ? Reflect.get(returned, field) : undefined;
    return value === undefined ? [] : [[field, copyForeignJson(value)]];
  } catch (cause) {
    throw createHookResultError(place, {
      field,
      expected: `return a patch whose ${field} is JSON`,
      got: `one that is not: ${getErrorMessage(cause)}`,
      advice: "Return plain data.",
      cause,
    });
  }
}

function refuseField(
  place: HookPlace,
  hook: { readonly strict: boolean },
  { field, fields }: { readonly field: string; readonly fields: readonly string[] },
): void {
  const expected = `change ${fields.join(", ")} only`;
  const breach = { field, expected, got: `a change of ${field}`, advice: "Leave it out." };
  if (hook.strict) throw createHookResultError(place, breach);
  const problem = `The hook "${place.hook}" may not change ${field} at ${place.point}`;
  warnOnce(hook, `${problem}; the change was dropped.`);
}
