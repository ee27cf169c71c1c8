// Difference between two values that share parts, such as a state and its successor. Shared objects
// are not compared, so the cost is that of the change.
// A key that holds `undefined` counts as absent.

import { deepFreeze, isRecord, type JsonValue } from "./json.ts";

/** `set`: another value. `keys`: parts of an object that changed, and keys that are gone. `list`: so many stay, then come these. */
export type JsonDelta =
  | { readonly set: JsonValue }
  | {
      readonly keys: { readonly [key: string]: JsonDelta };
      readonly gone?: readonly string[];
    }
  | { readonly keep: number; readonly append: readonly JsonValue[] };

/** The change from one to the other; undefined: there is none. Both must be plain JSON, but for keys that hold undefined. */
export function deltaOf(before: unknown, after: unknown): JsonDelta | undefined {
  if (Object.is(before, after)) return undefined;
  if (Array.isArray(before) && Array.isArray(after)) return listDelta(before, after);
  if (isRecord(before) && isRecord(after)) return objectDelta(before, after);
  return { set: toPlain(after) };
}

function listDelta(before: readonly unknown[], after: readonly unknown[]): JsonDelta | undefined {
  const most = Math.min(before.length, after.length);
  let keep = 0;
  while (keep < most && Object.is(before[keep], after[keep])) keep += 1;
  if (keep === before.length && keep === after.length) return undefined;
  return { keep, append: after.slice(keep).map(toPlain) };
}

function objectDelta(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): JsonDelta | undefined {
  const keys: Record<string, JsonDelta> = {};
  let isChanged = false;
  for (const key of Object.keys(after)) {
    const part = after[key];
    if (part === undefined) continue;
    const delta = before[key] === undefined ? { set: toPlain(part) } : deltaOf(before[key], part);
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

/** The value after the change. Throws a `TypeError` if the delta was made for another value. */
export function withDelta(before: unknown, delta: JsonDelta): unknown {
  return deepFreeze(applyDelta(before, delta, false));
}

/**
 * The value after the change, made of the value before where that is not frozen: the cost is that of the change, also in long lists. For
 * the only owner of the value, and the delta, parts of which it takes over. What is frozen is copied. Throws like `withDelta`.
 */
export function changedBy(before: unknown, delta: JsonDelta): unknown {
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

/** The value as JSON holds it. It is written at once, and never changed: states are frozen. */
function toPlain(value: unknown): JsonValue {
  if (isPlainValue(value)) return value;
  throw new TypeError(`A ${typeof value} is not JSON`);
}

function isPlainValue(value: unknown): value is JsonValue {
  return value !== undefined && typeof value !== "function" && typeof value !== "symbol";
}
