// Hooks: code of the user's own that watches a run, changes it at given points, or goes around its calls. Made here, checked here.
// A hook is one of five kinds (C15, C16): observers see events; transformers give a patch at one point; wraps go around a model call
// or a tool call; processors look at each completed step.

import { checkMade, copyToolNames, misdefinition } from "../kernel/check.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { ModelReply, ModelRequest } from "../model/model.ts";
import type { EspalierEvent, EventType } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import {
  checkEventTypes,
  hookBasics,
  type HookBasics,
  type HookOptions,
  transformBasics,
  type TransformOptions,
  type WrapToolOptions,
} from "./hook-options.ts";
import type { AllowedPatch, HookContext, PointInput, TransformPoint } from "./hook-points.ts";
import { HOOK_POINTS } from "./patch-contract.ts";

/** What an observer knows besides the event, which says where it belongs. `Context`: what it asks of the run's context. */
export interface ObserverContext<out Context = unknown> {
  /** The name of the hook that is called. */
  readonly hookName: string;
  /** The context of the run: the very value that was given with it; undefined: none was. */
  readonly context: Context;
}

/** One model call, as a wrap sees it. */
export interface ModelCall<out Context = unknown> {
  /** Read-only. */
  readonly request: ModelRequest;
  readonly context: HookContext<Context>;
}

/** One tool call, as a wrap sees it. */
export interface WrappedToolCall<out Context = unknown> {
  /** The name of the tool. */
  readonly toolName: string;
  readonly callId: CallId;
  /** Read-only. */
  readonly arguments: JsonValue;
  readonly context: HookContext<Context>;
}

/**
 * The handler of each point. Called once each time, after the hooks before it and with their changes in `input`, which is frozen. Returns the
 * fields that it changes, or nothing. May be asynchronous; should end when `context.signal` is aborted. If it throws, does not settle in time, or
 * returns a field that the point does not allow, its agent fails (at `userInput`: before anything was asked of a model).
 */
// Looked up, not computed, so that the result of a handler is checked against its point while it is written.
export type TransformHandlers<Context> = {
  readonly [P in TransformPoint]: (
    input: PointInput[P],
    context: HookContext<Context>,
  ) => TransformReturn<AllowedPatch<P>>;
};

/** What a handler gives: the fields that it changes, or nothing. */
// oxlint-disable-next-line typescript/no-invalid-void-type -- a handler without a return statement is fine
export type TransformReturn<Patch> = Patch | undefined | void | Promise<Patch | undefined | void>;

/** Made by {@link observe}. */
export interface ObserverHook<in Context = unknown> extends HookBasics {
  /** Which kind of hook it is. */
  readonly kind: "observe";
  readonly types: readonly EventType[];
  readonly listen: (event: EspalierEvent, context: ObserverContext<Context>) => unknown;
}

/** Made by {@link transform}. */
export interface TransformHook<P extends TransformPoint> extends HookBasics {
  /** Which kind of hook it is. */
  readonly kind: "transform";
  /** The point at which it is called. */
  readonly point: P;
  handle(input: PointInput[P], context: HookContext): unknown;
  /** Whether a field that the point does not have is an error. */
  readonly strict: boolean;
  /** The tools at whose calls it is called; undefined: all. */
  readonly tools: readonly string[] | undefined;
}

/** Made by {@link wrapModelCall}. */
export interface ModelWrapHook<in Context = unknown> extends HookBasics {
  /** Which kind of hook it is. */
  readonly kind: "wrapModelCall";
  readonly wrap: (call: ModelCall<Context>, next: () => Promise<ModelReply>) => Promise<ModelReply>;
}

/** Made by {@link wrapToolCall}. */
export interface ToolWrapHook<in Context = unknown> extends HookBasics {
  /** Which kind of hook it is. */
  readonly kind: "wrapToolCall";
  readonly wrap: (call: WrappedToolCall<Context>, next: () => Promise<unknown>) => unknown;
  /** The tools whose calls it is around; undefined: all. */
  readonly tools: readonly string[] | undefined;
}

/** Made by {@link processStep}. */
export interface ProcessorHook<in Context = unknown> extends HookBasics {
  /** Which kind of hook it is. */
  readonly kind: "processStep";
  readonly process: (step: StepRecord, context: HookContext<Context>) => unknown;
}

/**
 * Anything that can be registered as a hook. Made by its constructors only; what is in it is not for use. `Context`: what it asks of the
 * context of a run.
 */
export type Hook<Context = unknown> =
  | ObserverHook<Context>
  | TransformHook<TransformPoint>
  | ModelWrapHook<Context>
  | ToolWrapHook<Context>
  | ProcessorHook<Context>;

const made = new WeakSet<object>();

/**
 * A hook that is shown events of the given types: of the run as a whole and of every agent. It cannot change anything; it is not waited
 * for, and what it throws is given once as a warning.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function observe<T extends EventType, Context = unknown>(
  types: T | readonly T[],
  listener: (event: EspalierEvent<T>, context: ObserverContext<Context>) => unknown,
  options?: HookOptions,
): Hook<Context>;
export function observe(
  types: EventType | readonly EventType[],
  listener: (event: EspalierEvent, context: ObserverContext) => unknown,
  options: HookOptions = {},
): Hook {
  const given = checkEventTypes("observe.types", types);
  return registerHook({
    kind: "observe",
    ...hookBasics(["observe", "listener"], listener, options),
    types: given,
    listen: (event, context) => listener(event, context),
  });
}

/**
 * A hook that may change something at one point: what, is in the point's patch. See {@link TransformHandlers} for when it is called.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function transform<P extends TransformPoint>(
  point: P,
  handler: TransformHandlers<unknown>[P],
  options?: TransformOptions<P>,
): Hook;
export function transform<P extends TransformPoint, Context>(
  point: P,
  handler: (
    input: PointInput[P],
    context: HookContext<Context>,
  ) => TransformReturn<AllowedPatch<P>>,
  options?: TransformOptions<P>,
): Hook<Context>;
export function transform<P extends TransformPoint>(
  point: P,
  handler: TransformHandlers<unknown>[P],
  options: TransformOptions<P> = {},
): Hook {
  if (!HOOK_POINTS.includes(point)) {
    const expected = `one of ${HOOK_POINTS.join(", ")}`;
    throw misdefinition("transform.point", expected, point, "For events, use observe().");
  }
  const hook: TransformHook<P> = {
    kind: "transform",
    ...transformBasics(point, handler, options),
    point,
    handle: (input, context) => handler(input, context),
  };
  return registerHook(hook);
}

/**
 * A hook around every model call, retries of the provider's included: `next` makes the call, and may be called again, or not at all, in
 * which case the model is not asked and the reply that the hook gives is used. If it throws, the call has failed.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function wrapModelCall<Context = unknown>(
  wrap: ModelWrapHook<Context>["wrap"],
  options: HookOptions = {},
): Hook<Context> {
  return registerHook({
    kind: "wrapModelCall",
    ...hookBasics(["wrapModelCall", "wrap"], wrap, options),
    wrap,
  });
}

/**
 * A hook around the calls of function tools that were admitted; delegations, external calls and `Finish` are none of its business.
 * `next` runs the tool and gives its result; not called, the tool does not run and what the hook gives is the result. What it
 * throws is the failure of the call: the model reads it, and the run continues. It has no time of its own, and ends with its agent.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function wrapToolCall<Context = unknown>(
  wrap: ToolWrapHook<Context>["wrap"],
  options: WrapToolOptions = {},
): Hook<Context> {
  return registerHook({
    kind: "wrapToolCall",
    ...hookBasics(["wrapToolCall", "wrap"], wrap, options, ["tools"]),
    tools: copyToolNames("wrapToolCall.options.tools", options.tools),
    wrap,
  });
}

/**
 * A hook that is called after every completed step with its record, which is frozen; processors run in order, one at a time. If it throws, the
 * run fails, later processors are not called, and the step is kept. A step that an error or a stop cut off is not completed: the
 * events and the result have it.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function processStep<Context = unknown>(
  process: (step: StepRecord, context: HookContext<Context>) => unknown,
  options: HookOptions = {},
): Hook<Context> {
  return registerHook({
    kind: "processStep",
    ...hookBasics(["processStep", "process"], process, options),
    process,
  });
}

/** Throws `invalid_definition` unless `hooks` is a list of what the constructors made. */
export function checkHooks(field: string, hooks: unknown): void {
  const advice = "Create it with observe(), transform(), wrapModelCall() or a similar function.";
  checkMade(field, hooks, { made, what: "a hook", advice });
}

function registerHook<Context>(hook: Hook<Context>): Hook<Context> {
  made.add(hook);
  return Object.freeze(hook);
}
