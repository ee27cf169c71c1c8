// Runs hooks: chains and processors one after the other, wraps nested, observers without waiting.

import { type AnySignal, invoke, addAbortHandler, runTimed } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { getErrorMessage } from "../kernel/error.ts";
import { deepFreeze } from "../kernel/json.ts";
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
import type { ObserverHook, ProcessorHook } from "./hook.ts";
import { getPatchContract, isFinal, mergePatches } from "./patch-contract.ts";
import { readPatch } from "./read-patch.ts";

/** Result of a chain of transform hooks. */
export interface ChainResult<P extends TransformPoint> {
  /** All changes in one; without fields if there were none. Frozen, and shares nothing with what hooks gave. */
  readonly patch: PointPatch[P];
  /** The hooks that changed something, in order, with the fields that they gave. */
  readonly changedBy: readonly HookChange[];
}

/** Changes by one hook of a chain, by name. */
export interface HookChange {
  readonly hook: string;
  readonly fields: readonly string[];
}

/**
 * Runs the hooks of a chain in order. Each gets a frozen copy of the input with the changes of the earlier ones; what is frozen
 * already is not copied, so hand in frozen lists. `refuse`, `deny` and `continueWith` end the chain.
 *
 * Rejects with the first error, and calls no later hook: `hook_failed` if a hook threw, `hook_timeout` if it did not settle in time,
 * `invalid_hook_result` if it gave what its point does not allow.
 */
export async function runChain<P extends TransformPoint>(
  point: P,
  chain: Chain<P>,
  input: PointInput[P],
  bounds: HookBounds<HookContext>,
): Promise<ChainResult<P>> {
  let patch = getPatchContract(point).schema.parse({});
  const changedBy: HookChange[] = [];
  for (const { name, hook } of chain) {
    const shown = showChanges(input, patch);
    const given = await callHook({ point, hook: name }, bounds, (context) =>
      hook.handle(shown, context),
    );
    const own = readPatch(point, { name, hook }, shown, given);
    const fields = Object.keys(own);
    if (fields.length === 0) continue;
    patch = mergePatches(patch, own);
    changedBy.push({ hook: name, fields });
    if (isFinal(own)) break;
  }
  return deepFreeze({ patch, changedBy });
}

/** The input as the next hook is shown it. Changes of what is no part of the input are not shown. */
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
 * Runs the processors over one step, which must be frozen, one after the other. Rejects with `hook_failed` or `hook_timeout` of the
 * first that goes wrong; later ones are not called.
 */
export async function runProcessors(
  processors: readonly Named<ProcessorHook>[],
  step: StepRecord,
  bounds: HookBounds<HookContext>,
): Promise<void> {
  for (const { name, hook } of processors) {
    await callHook({ point: "processStep", hook: name }, bounds, (context) =>
      hook.process(step, context),
    );
  }
}

/** A hook that goes around a model call or a tool call. */
export interface Wrap<Call, Result> {
  readonly kind: string;
  readonly wrap: (call: Call, next: () => Promise<Result>) => Result | PromiseLike<Result>;
}

/** Time limits of wraps. */
export interface WrapBounds {
  readonly clock: Clock;
  /** Aborted when the agent must end: then its grace counts. */
  readonly signal: AnySignal;
  /** Counted while no `next` is under way. */
  readonly timeoutMs: number;
}

/**
 * Runs `inner` inside the wraps; the first is the outermost. `callFor` makes what each is shown, under its own name.
 *
 * `inner` runs once for each time that the innermost wrap asks for it: never, if it does not. What `inner` throws comes out as it is
 * unless a wrap makes something of it; what a wrap throws itself is `hook_failed`. A wrap that has settled cannot ask any more. Wraps
 * that neither settle nor have `inner` under way for too long are left behind with `hook_timeout`.
 */
export function runInsideWraps<Call extends object, Result>(
  wraps: readonly Named<Wrap<Call, Result>>[],
  callFor: (hookName: string) => Call,
  inner: () => Promise<Result>,
  bounds: WrapBounds,
): Promise<Result> {
  const { clock, timeoutMs, signal } = bounds;
  return new Promise((resolve, reject) => {
    let underWay = 0;
    let isOver = false;
    let stopTimer = DO_NOTHING;
    const watch = (): void => {
      if (isOver || signal.aborted) return;
      stopTimer = clock.setTimer(timeoutMs, () => {
        isOver = true;
        reject(createHookTimeoutError(nameWraps(wraps), timeoutMs));
      });
    };
    const counted = async (): Promise<Result> => {
      if (isOver) throw createLateCallError(nameWraps(wraps));
      stopTimer();
      underWay += 1;
      try {
        return await inner();
      } finally {
        underWay -= 1;
        if (underWay === 0) watch();
      }
    };
    watch();
    const leave = (): void => stopTimer();
    const stopListening = signal.aborted ? DO_NOTHING : addAbortHandler(signal, leave);
    const outermost = wraps.reduceRight<() => Promise<Result>>(
      (next, wrap) => () => runWrap(wrap, callFor, next),
      counted,
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

/** Which of several wraps hangs is not known: all are named. */
function nameWraps(wraps: readonly Named<{ readonly kind: string }>[]): HookPlace {
  return { point: wraps[0]?.hook.kind ?? "", hook: wraps.map(({ name }) => name).join(", ") };
}

/** Runs one wrap around `next`. */
async function runWrap<Call extends object, Result>(
  { name, hook }: Named<Wrap<Call, Result>>,
  callFor: (hookName: string) => Call,
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
    result.catch(() => undefined); // A wrap may start it and look away.
    return result;
  };
  try {
    return await hook.wrap(Object.freeze(callFor(name)), ask);
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

/** Shows an event to the observers, in order, and waits for none of them. `context`: of the run. What they throw is given once as a warning for each. */
export function notify(
  observers: readonly Named<ObserverHook>[],
  event: EspalierEvent,
  context: unknown,
): void {
  for (const { name, hook } of observers) {
    const shown = Object.freeze({ hookName: name, context });
    invoke(() => hook.listen(event, shown)).catch((cause: unknown) => {
      const what = `The hook "${name}" threw at ${event.type} (${getErrorMessage(cause)})`;
      warnOnce(hook, `${what}; the run continues.`);
    });
  }
}

/** Time limits and context of hooks. */
export interface HookBounds<Context extends Pick<HookContext, "hookName" | "signal">> {
  /** Aborted when the agent must end. */
  readonly signal: AnySignal;
  readonly clock: Clock;
  /** Time limit of each hook in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Milliseconds that a hook may continue after `signal` was aborted.
   *
   * @default 5_000
   */
  readonly graceMs?: number;
  /** Makes the context of the hook of this name. Its signal is replaced by one that is aborted when the hook's time is up, too. */
  readonly contextFor: (hookName: string) => Context;
}

const DEFAULT_GRACE_MS = 5_000;

/**
 * Calls one hook and waits for it, within bounds. Rejects with `hook_failed` or `hook_timeout`, never later than the bounds say; what
 * comes after that is dropped.
 */
async function callHook<Context extends Pick<HookContext, "hookName" | "signal">>(
  place: HookPlace,
  bounds: HookBounds<Context>,
  call: (context: Context) => unknown,
): Promise<unknown> {
  const { timeoutMs, graceMs = DEFAULT_GRACE_MS } = bounds;
  const outcome = await runTimed<unknown>(
    (signal) => call(Object.freeze({ ...bounds.contextFor(place.hook), signal })),
    { ...bounds, graceMs },
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
