// Difference between two values that share parts, such as a state and its successor. Shared objects
// are not compared, so the cost is that of the change.
// A key that holds `undefined` counts as absent.

import { deepFreeze, isRecord, type JsonValue } from "./json.ts";

/**
 * `set` replaces the value. `keys` contains the changed parts of an object, `gone` the removed
 * keys. `keep` is the number of leading items that stay, followed by `append`.
 */
export type JsonDelta =
  | { readonly set: JsonValue }
  | {
      readonly keys: { readonly [key: string]: JsonDelta };
      readonly gone?: readonly string[];
    }
  | { readonly keep: number; readonly append: readonly JsonValue[] };

/**
 * Returns the change from one value to the other, or `undefined` if they are equal. Both must be
 * plain JSON, except for keys that hold `undefined`.
 */
export function diffJson(before: unknown, after: unknown): JsonDelta | undefined {
  if (Object.is(before, after)) return undefined;
  if (Array.isArray(before) && Array.isArray(after)) return diffLists(before, after);
  if (isRecord(before) && isRecord(after)) return diffObjects(before, after);
  return { set: toPlain(after) };
}

function diffLists(before: readonly unknown[], after: readonly unknown[]): JsonDelta | undefined {
  const most = Math.min(before.length, after.length);
  let keep = 0;
  while (keep < most && Object.is(before[keep], after[keep])) keep += 1;
  if (keep === before.length && keep === after.length) return undefined;
  return { keep, append: after.slice(keep).map(toPlain) };
}

function diffObjects(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): JsonDelta | undefined {
  const keys: Record<string, JsonDelta> = {};
  let isChanged = false;
  for (const key of Object.keys(after)) {
    const part = after[key];
    if (part === undefined) continue;
    const delta = before[key] === undefined ? { set: toPlain(part) } : diffJson(before[key], part);
    if (delta === undefined) continue;
    keys[key] = delta;
    isChanged = true;
  }
  const gone: string[] = [];
  for (const key of Object.keys(before))
    if (before[key] !== undefined && after[key] === undefined) gone.push(key);
  if (gone.length > 0) return { keys, gone };
  return isChanged ? { keys } : undefined;
}

/**
 * Returns the value after the change. Throws a `TypeError` if the delta was made for another value.
 */
export function applyJsonDelta(before: unknown, delta: JsonDelta): unknown {
  return deepFreeze(applyDelta(before, delta, false));
}

/**
 * Returns the value after the change, and changes the old value in place unless it is frozen. So
 * the cost is that of the change, even in long lists. Requires the only owner of both the value and
 * the delta, since the result reuses parts of both. Throws like `applyJsonDelta`.
 */
export function applyDeltaInPlace(before: unknown, delta: JsonDelta): unknown {
  return applyDelta(before, delta, true);
}

function applyDelta(before: unknown, delta: JsonDelta, isOwner: boolean): unknown {
  if ("set" in delta) return delta.set;
  if ("keep" in delta) {
    if (!isReadonlyList(before) || before.length < delta.keep)
      throw new TypeError(`Expected an array of at least ${delta.keep} items`);
    const list = isOwner && isOwnList(before) ? before : before.slice(0, delta.keep);
    list.length = delta.keep;
    for (const item of delta.append) list.push(item);
    return list;
  }
  if (!isRecord(before)) throw new TypeError("Expected an object");
  const after: Record<string, unknown> = isOwner && isOwnObject(before) ? before : { ...before };
  for (const key of delta.gone ?? []) delete after[key];
  for (const [key, part] of Object.entries(delta.keys))
    after[key] = applyDelta(after[key], part, isOwner);
  return after;
}

function isReadonlyList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function isOwnList(list: readonly unknown[]): list is unknown[] {
  return !Object.isFrozen(list);
}

function isOwnObject(value: Readonly<Record<string, unknown>>): value is Record<string, unknown> {
  return !Object.isFrozen(value);
}

/**
 * Returns the value typed as JSON. Not copied, because it is written at once and states are frozen.
 */
function toPlain(value: unknown): JsonValue {
  if (isPlainValue(value)) return value;
  throw new TypeError(`A ${typeof value} is not JSON`);
}

function isPlainValue(value: unknown): value is JsonValue {
  return value !== undefined && typeof value !== "function" && typeof value !== "symbol";
}
