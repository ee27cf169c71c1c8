// Runs hooks: chains and processors in sequence, wraps nested, observers without awaiting them.

import { invoke, addAbortHandler, runTimed, type TimedBounds } from "../kernel/cancel-signal.ts";
import { getErrorMessage } from "../kernel/error.ts";
import { deepFreeze, isPlainObject, type JsonValue } from "../kernel/json.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import {
  createHookResultError,
  createHookFailedError,
  type HookPlace,
  createHookTimeoutError,
} from "./hook-error.ts";
import type { HookContext, PointInput, PointPatch, TransformPoint } from "./hook-points.ts";
import type { Chain, Named } from "./hook-set.ts";
import type { ObserverHook, ProcessorHook, TransformHook } from "./hook.ts";
import { getPatchContract, isFinal, mergePatches } from "./patch-contract.ts";
import { copyForeignJson } from "../kernel/json-copy.ts";

/** Result of a chain of transform hooks. */
export interface ChainResult<P extends TransformPoint> {
  /**
   * The merged changes, without fields if there were none. Frozen, and independent of the hooks'
   * objects.
   */
  readonly patch: PointPatch[P];
  /** The hooks that changed something, in order, with the fields that they changed. */
  readonly changedBy: readonly HookChange[];
}

/** Changes by one hook of a chain, by name. */
export interface HookChange {
  readonly hook: string;
  readonly fields: readonly string[];
}

/**
 * Runs the hooks of a chain in order. Each hook receives a frozen copy of the input with the
 * changes of earlier hooks. Frozen values are not copied, so pass frozen lists. `refuse`, `deny`
 * and `continueWith` end the chain.
 *
 * Rejects with the first error and skips later hooks: `hook_failed` if a hook threw, `hook_timeout`
 * if it did not settle in time, `invalid_hook_result` if its point does not allow its result.
 */
export async function runChain<P extends TransformPoint>(
  point: P,
  chain: Chain<P>,
  input: PointInput[P],
  bounds: HookBounds,
): Promise<ChainResult<P>> {
  let patch = getPatchContract(point).schema.parse({});
  const changedBy: HookChange[] = [];
  for (const { name, hook } of chain) {
    const shown = showChanges(input, patch);
    const returned = await callHook({ point, hook: name }, bounds, (context) =>
      hook.handle(shown, context),
    );
    const changes = readPatch(point, { name, hook }, shown, returned);
    const fields = Object.keys(changes);
    if (fields.length === 0) continue;
    patch = mergePatches(patch, changes);
    changedBy.push({ hook: name, fields });
    if (isFinal(changes)) break;
  }
  return deepFreeze({ patch, changedBy });
}

/** Returns the input for the next hook. Changes of fields that the input lacks are not included. */
function showChanges<P extends TransformPoint>(
  input: PointInput[P],
  patch: PointPatch[P],
): PointInput[P] {
  const visible = Object.entries<unknown>({ ...patch }).filter(([field]) => field in input);
  const shown: PointInput[P] = { ...input, ...Object.fromEntries(visible) };
  const isFrozen = Object.values<unknown>({ ...shown }).every(Object.isFrozen);
  return deepFreeze(isFrozen ? shown : structuredClone(shown));
}

/**
 * Runs the processors over one step, which must be frozen, in sequence. Rejects with `hook_failed`
 * or `hook_timeout` of the first that fails, and skips later ones.
 */
export async function runProcessors(
  processors: readonly Named<ProcessorHook>[],
  step: StepRecord,
  bounds: HookBounds,
): Promise<void> {
  for (const { name, hook } of processors) {
    await callHook({ point: "processStep", hook: name }, bounds, (context) =>
      hook.process(step, context),
    );
  }
}

/** A hook around a model call or a tool call. */
export interface Wrap<Call, Result> {
  readonly kind: string;
  readonly wrap: (call: Call, next: () => Promise<Result>) => Result | PromiseLike<Result>;
}

/**
 * Runs `inner` inside the wraps. The first wrap is the outermost. `createCall` creates the argument
 * of each wrap, with its own name.
 *
 * `inner` runs once for each call of `next` by the innermost wrap, or never. An error of `inner` is
 * rethrown unchanged unless a wrap catches it. An error of a wrap becomes `hook_failed`. A wrap
 * that has settled cannot call `next` any more. Wraps that exceed the time limit without a `next`
 * in flight are abandoned with `hook_timeout`.
 */
export function runInsideWraps<Call extends object, Result>(
  wraps: readonly Named<Wrap<Call, Result>>[],
  createCall: (hookName: string) => Call,
  inner: () => Promise<Result>,
  bounds: TimedBounds,
): Promise<Result> {
  const { clock, timeoutMs, signal } = bounds;
  return new Promise((resolve, reject) => {
    let inFlight = 0;
    let isOver = false;
    let stopTimer = DO_NOTHING;
    const watch = (): void => {
      if (isOver || signal.aborted) return;
      stopTimer = clock.setTimer(timeoutMs, () => {
        isOver = true;
        reject(createHookTimeoutError(describeWraps(wraps), timeoutMs));
      });
    };
    const runInner = async (): Promise<Result> => {
      if (isOver) throw createLateCallError(describeWraps(wraps));
      stopTimer();
      inFlight += 1;
      try {
        return await inner();
      } finally {
        inFlight -= 1;
        if (inFlight === 0) watch();
      }
    };
    watch();
    const leave = (): void => stopTimer();
    const stopListening = signal.aborted ? DO_NOTHING : addAbortHandler(signal, leave);
    const outermost = wraps.reduceRight<() => Promise<Result>>(
      (next, wrap) => () => runWrap(wrap, createCall, next),
      runInner,
    );
    outermost()
      .then(resolve, reject)
      .finally(() => {
        isOver = true;
        stopTimer();
        stopListening();
      });
  });
}

const DO_NOTHING = (): void => undefined;

/** Returns the names of all wraps, since it is unknown which of the wraps hangs. */
function describeWraps(wraps: readonly Named<{ readonly kind: string }>[]): HookPlace {
  return { point: wraps[0]?.hook.kind ?? "", hook: wraps.map(({ name }) => name).join(", ") };
}

/** Runs one wrap around `next`. */
async function runWrap<Call extends object, Result>(
  { name, hook }: Named<Wrap<Call, Result>>,
  createCall: (hookName: string) => Call,
  next: () => Promise<Result>,
): Promise<Result> {
  const place = { point: hook.kind, hook: name };
  let hasSettled = false;
  const innerErrors = new Set<unknown>();
  const follow = async (): Promise<Result> => {
    if (hasSettled) throw createLateCallError(place);
    try {
      return await next();
    } catch (cause) {
      innerErrors.add(cause);
      throw cause;
    }
  };
  const ask = (): Promise<Result> => {
    const result = follow();
    result.catch(() => undefined); // A wrap may start `next` without awaiting it.
    return result;
  };
  try {
    return await hook.wrap(Object.freeze(createCall(name)), ask);
  } catch (cause) {
    throw innerErrors.has(cause) ? cause : createHookFailedError(place, cause);
  } finally {
    hasSettled = true;
  }
}

function createLateCallError(place: HookPlace): Error {
  return createHookResultError(place, {
    expected: "call next only before it settles",
    got: "a call of next after that",
    advice: "Await the result of next.",
  });
}

/**
 * Passes an event to the observers, in order, without awaiting them. `context` is the context of
 * the run. The first error of each observer becomes a warning.
 */
export function notify(
  observers: readonly Named<ObserverHook>[],
  event: EspalierEvent,
  context: unknown,
): void {
  for (const { name, hook } of observers) {
    const shown = Object.freeze({ hookName: name, context });
    invoke(() => hook.listen(event, shown)).catch((cause: unknown) => {
      const problem = `The hook "${name}" threw at ${event.type} (${getErrorMessage(cause)})`;
      warnOnce(hook, `${problem}; the run continues.`);
    });
  }
}

/** Time limits and context of hooks. `timeoutMs` limits each hook. */
export interface HookBounds extends TimedBounds {
  /**
   * Creates the context of the hook with this name. Its signal is replaced by another that is also
   * aborted at the hook's time limit.
   */
  readonly createContext: (hookName: string) => HookContext;
}

/**
 * Calls one hook within its time limits. Rejects with `hook_failed` or `hook_timeout` when they
 * expire. A later outcome is dropped.
 */
async function callHook(
  place: HookPlace,
  bounds: HookBounds,
  call: (context: HookContext) => unknown,
): Promise<unknown> {
  const { timeoutMs, graceMs } = bounds;
  const outcome = await runTimed<unknown>(
    (signal) => call(Object.freeze({ ...bounds.createContext(place.hook), signal })),
    bounds,
  );
  switch (outcome.type) {
    case "returned":
      return outcome.value;
    case "threw":
      throw createHookFailedError(place, outcome.error);
    case "timed_out":
      throw createHookTimeoutError(place, timeoutMs);
    case "abandoned":
      throw createHookTimeoutError(place, graceMs, true);
  }
}

/**
 * Returns the patch of a hook, copied and frozen. `returned` is the hook's return value, `shown`
 * its input. An absent value is an empty patch. Throws `invalid_hook_result` if the point does not
 * allow it.
 */
function readPatch<P extends TransformPoint>(
  point: P,
  named: Named<TransformHook<P>>,
  shown: PointInput[P],
  returned: unknown,
): PointPatch[P] {
  const place = { point, hook: named.name };
  const { fields, schema, fitted } = getPatchContract(point);
  const parts: [string, JsonValue][] = [];
  for (const field of readPatchFields(place, fields, returned)) {
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
function readPatchFields(
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
