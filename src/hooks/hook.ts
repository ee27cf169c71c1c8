// Hooks: user code that observes a run, changes it at given points, or wraps its calls. Created and
// checked here.
//
// There are five kinds. Observers receive events; transformers return a patch at one point; wraps
// surround a model call or a tool call; processors receive each completed step.

import {
  checkCreated,
  registerCreated,
  copyToolNames,
  mismatch,
  checkBoolean,
  checkFunction,
  checkKeys,
  nameFunction,
} from "../kernel/argument-checks.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { ModelReply, ModelRequest } from "../model/model.ts";
import { type EspalierEvent, type EventType, isEventType } from "../protocol/event.ts";
import type { CallId } from "../protocol/ids.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { AllowedPatch, HookContext, PointInput, TransformPoint } from "./hook-points.ts";
import { getHookPoints } from "./patch-contract.ts";

/**
 * Context of an observer call. The event itself contains the ids.
 *
 * `Context` is the type of the run's context that the observer requires.
 *
 * @example
 * ```ts
 * const bill = observe(
 *   "run.ended",
 *   (event, { context }: ObserverContext<{ customerId: string }>) =>
 *     console.log(context.customerId, event.usage.total.costUsd),
 * );
 * ```
 */
export interface ObserverContext<out Context = unknown> {
  /** Name of the hook. */
  readonly hookName: string;
  /**
   * Value that was passed as `context` when the run was started. `undefined` if none was passed.
   */
  readonly context: Context;
}

/**
 * Model call that a `wrapModelCall` hook wraps.
 *
 * @example
 * ```ts
 * const tagged = wrapModelCall(({ context }: ModelCall<{ userId: string }>, next) => {
 *   console.log(`${context.context.userId} calls a model in step ${context.stepNumber}`);
 *   return next();
 * });
 * ```
 */
export interface ModelCall<out Context = unknown> {
  /** Request to the model. Read-only. */
  readonly request: ModelRequest;
  /** Context of the hook call. */
  readonly context: HookContext<Context>;
}

/**
 * Tool call that a `wrapToolCall` hook wraps.
 *
 * @example
 * ```ts
 * const logged = wrapToolCall(({ toolName, callId, context }: WrappedToolCall, next) => {
 *   console.log(context.agentPath, toolName, callId);
 *   return next();
 * });
 * ```
 */
export interface WrappedToolCall<out Context = unknown> {
  /** Tool name. */
  readonly toolName: string;
  /** Id of the tool call. */
  readonly callId: CallId;
  /** Validated arguments of the call. Read-only. */
  readonly arguments: JsonValue;
  /** Context of the hook call. */
  readonly context: HookContext<Context>;
}

/**
 * Handler types of all points, by point.
 *
 * A handler receives the input with the changes of earlier hooks, and returns the fields that it
 * changes, or nothing. It may be asynchronous, and should end when `context.signal` aborts.
 *
 * The agent fails if the handler throws (`hook_failed`), does not settle in time (`hook_timeout`),
 * or returns an invalid field (`invalid_hook_result`).
 *
 * @example
 * ```ts
 * const addHint: TransformHandlers<unknown>["subagentStart"] = ({ task }) => ({
 *   task: `${task}\nCite your sources.`,
 * });
 * const hinted = transform("subagentStart", addHint);
 * ```
 */
// A lookup instead of a computed type, so that editors check a handler's result against its point.
export type TransformHandlers<Context> = {
  readonly [P in TransformPoint]: (
    input: PointInput[P],
    context: HookContext<Context>,
  ) => TransformReturn<AllowedPatch<P>>;
};

/** Return value of a handler: the fields that it changes, or nothing. May be a promise. */
// oxlint-disable-next-line typescript/no-invalid-void-type -- a handler without a return statement is fine
export type TransformReturn<Patch> = Patch | undefined | void | Promise<Patch | undefined | void>;

/** Hook that {@link observe} creates. */
export interface ObserverHook<in Context = unknown> extends HookBasics {
  /** Discriminant of the hook kinds. */
  readonly kind: "observe";
  /** Observed event types. */
  readonly types: readonly EventType[];
  /** Listener that receives each event. */
  readonly listen: (event: EspalierEvent, context: ObserverContext<Context>) => unknown;
}

/** Hook that {@link transform} creates. */
export interface TransformHook<P extends TransformPoint> extends HookBasics {
  /** Discriminant of the hook kinds. */
  readonly kind: "transform";
  /** Point at which the hook runs. */
  readonly point: P;
  /** Calls the handler. */
  handle(input: PointInput[P], context: HookContext): unknown;
  /** True if an unknown field in the returned value is an error. */
  readonly strict: boolean;
  /** Tools that the hook applies to. `undefined` if it applies to all. */
  readonly tools: readonly string[] | undefined;
}

/** Hook that {@link wrapModelCall} creates. */
export interface ModelWrapHook<in Context = unknown> extends HookBasics {
  /** Discriminant of the hook kinds. */
  readonly kind: "wrapModelCall";
  /** Function around the model call. */
  readonly wrap: (call: ModelCall<Context>, next: () => Promise<ModelReply>) => Promise<ModelReply>;
}

/** Hook that {@link wrapToolCall} creates. */
export interface ToolWrapHook<in Context = unknown> extends HookBasics {
  /** Discriminant of the hook kinds. */
  readonly kind: "wrapToolCall";
  /** Function around the tool call. */
  readonly wrap: (call: WrappedToolCall<Context>, next: () => Promise<unknown>) => unknown;
  /** Tools that the hook applies to. `undefined` if it applies to all. */
  readonly tools: readonly string[] | undefined;
}

/** Hook that {@link processStep} creates. */
export interface ProcessorHook<in Context = unknown> extends HookBasics {
  /** Discriminant of the hook kinds. */
  readonly kind: "processStep";
  /** Function that receives each completed step. */
  readonly process: (step: StepRecord, context: HookContext<Context>) => unknown;
}

/**
 * Hook of an orchestrator or a role. Create it with `observe`, `transform`, `wrapModelCall`,
 * `wrapToolCall` or `processStep`; its fields are internal.
 *
 * `Context` is the type of the run's context that the hook requires.
 *
 * @example
 * ```ts
 * const hooks: readonly Hook[] = [
 *   observe("run.ended", (event) => console.log(event.status)),
 *   transform("beforeTool", () => ({ deny: "Read-only mode." }), { tools: ["write"] }),
 * ];
 * const guarded = new Orchestrator({ hooks });
 * ```
 */
export type Hook<Context = unknown> =
  | ObserverHook<Context>
  | TransformHook<TransformPoint>
  | ModelWrapHook<Context>
  | ToolWrapHook<Context>
  | ProcessorHook<Context>;

/**
 * Creates a hook that receives events of the given types, of the run and of every agent.
 *
 * An observer cannot change anything, and is never awaited. If it throws, one process warning is
 * emitted.
 *
 * @throws EspalierError `invalid_argument` if an event type or the listener is invalid.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const logEnds = observe(["tool.ended", "tool.rejected"], (event, { hookName }) =>
 *   console.log(hookName, event.agentPath, event.toolName, event.outcome),
 * );
 * const logged = new Orchestrator({ hooks: [logEnds] });
 * ```
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
  const eventTypes = checkEventTypes("observe.types", types);
  return registerHook({
    kind: "observe",
    ...readHookOptions(["observe", "listener"], listener, options),
    types: eventTypes,
    listen: (event, context) => listener(event, context),
  });
}

/**
 * Creates a hook that can change values at one point of a run.
 *
 * {@link PointInput} contains the input of each point, and {@link PointPatch} the fields that the
 * handler may return.
 *
 * @throws EspalierError `invalid_argument` if the point or the handler is invalid, or `tools` is
 * set at a point without a tool.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const protect = transform(
 *   "beforeTool",
 *   ({ arguments: input }) =>
 *     JSON.stringify(input).includes("/etc/") ? { deny: "/etc is off limits." } : undefined,
 *   { tools: ["writeFile"], priority: 10 },
 * );
 * ```
 */
export function transform<P extends TransformPoint>(
  point: P,
  handler: TransformHandlers<unknown>[P],
  options?: TransformOptions<P>,
): Hook;
/**
 * Creates a hook whose handler requires a run context of type `Context`.
 *
 * @example
 * ```ts
 * const addTenant = transform(
 *   "beforeModel",
 *   ({ instructions }, { context }: HookContext<{ tenant: string }>) => ({
 *     instructions: `${instructions}\nThe tenant is ${context.tenant}.`,
 *   }),
 * );
 * ```
 */
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
  const points = getHookPoints();
  if (!points.includes(point)) {
    const expected = `one of ${points.join(", ")}`;
    throw mismatch("transform.point", expected, point, "For events, use observe().");
  }
  const hook: TransformHook<P> = {
    kind: "transform",
    ...readTransformOptions(point, handler, options),
    point,
    handle: (input, context) => handler(input, context),
  };
  return registerHook(hook);
}

/**
 * Creates a hook around every model call, including its retries.
 *
 * `next()` calls the model and resolves with the reply. It may be called again, which costs budget,
 * or not at all: then the returned reply is used. If the hook throws, the model call fails.
 *
 * @throws EspalierError `invalid_argument` if `wrap` is not a function.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const timeCalls = wrapModelCall(async ({ request, context }, next) => {
 *   const startedAt = performance.now();
 *   const reply = await next();
 *   console.log(context.agentPath, request.messages.length, performance.now() - startedAt);
 *   return reply;
 * });
 * ```
 */
export function wrapModelCall<Context = unknown>(
  wrap: ModelWrapHook<Context>["wrap"],
  options: HookOptions = {},
): Hook<Context> {
  return registerHook({
    kind: "wrapModelCall",
    ...readHookOptions(["wrapModelCall", "wrap"], wrap, options),
    wrap,
  });
}

/**
 * Creates a hook around the permitted calls of function tools. Delegations, external tools and
 * `Finish` are not wrapped.
 *
 * `next()` runs the tool and resolves with its result. If it is not called, the tool does not run,
 * and the returned value is the result. If the hook throws, the call fails: the model reads the
 * error and continues. The hook has no timeout of its own.
 *
 * @throws EspalierError `invalid_argument` if `wrap` is not a function.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const results = new Map<string, unknown>();
 * const cacheSearch = wrapToolCall(
 *   async ({ arguments: input }, next) => {
 *     const key = JSON.stringify(input);
 *     if (!results.has(key)) results.set(key, await next());
 *     return results.get(key);
 *   },
 *   { tools: ["search"] },
 * );
 * ```
 */
export function wrapToolCall<Context = unknown>(
  wrap: ToolWrapHook<Context>["wrap"],
  options: WrapToolOptions = {},
): Hook<Context> {
  return registerHook({
    kind: "wrapToolCall",
    ...readHookOptions(["wrapToolCall", "wrap"], wrap, options, ["tools"]),
    tools: copyToolNames("wrapToolCall.options.tools", options.tools),
    wrap,
  });
}

/**
 * Creates a hook that receives the frozen record of every completed step. Hooks run one at a time,
 * in order.
 *
 * If the hook throws, its agent fails with `hook_failed`, later hooks are skipped, and the step is
 * kept. Steps that an error or a stop cut off are not passed to the hook; events and results
 * contain them.
 *
 * @throws EspalierError `invalid_argument` if `process` is not a function.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const audit = processStep(({ number, tools }, { agentPath }) => {
 *   for (const { call, type } of tools.executions)
 *     console.log(agentPath, number, call.toolName, type);
 * });
 * ```
 */
export function processStep<Context = unknown>(
  process: (step: StepRecord, context: HookContext<Context>) => unknown,
  options: HookOptions = {},
): Hook<Context> {
  return registerHook({
    kind: "processStep",
    ...readHookOptions(["processStep", "process"], process, options),
    process,
  });
}

/** Throws `invalid_argument` unless `hooks` is a list of hooks from the constructors. */
export function checkHooks(field: string, hooks: unknown): void {
  const advice = "Create it with observe(), transform(), wrapModelCall() or a similar function.";
  checkCreated(field, hooks, "a hook", advice);
}

function registerHook<Context>(hook: Hook<Context>): Hook<Context> {
  return registerCreated("a hook", hook);
}

/**
 * Options of every hook.
 *
 * @example
 * ```ts
 * const count = observe("model.replied", () => undefined, { name: "countReplies" });
 * ```
 */
export interface HookOptions {
  /**
   * Name of the hook in events, signals and errors.
   *
   * @default the name of the function, or its place, such as `beforeTool#2`
   */
  readonly name?: string;
  /**
   * Priority. Higher values run first; equal values run in order of registration.
   *
   * @default 0
   */
  readonly priority?: number;
}

/**
 * Options of hooks that wrap tool calls.
 *
 * @example
 * ```ts
 * const once: WrapToolOptions = { name: "audit", tools: ["search"], priority: 5 };
 * const audited = wrapToolCall((_call, next) => next(), once);
 * ```
 */
export interface WrapToolOptions extends HookOptions {
  /**
   * Names of the tools that the hook applies to.
   *
   * @default all tools
   *
   * @example
   * ```ts
   * const deny = transform("beforeTool", () => ({ deny: "Not now." }), { tools: ["deploy"] });
   * ```
   */
  readonly tools?: readonly string[];
}

/**
 * Options of `transform` at point `P`. `tools` is available at `beforeTool` and `afterTool` only.
 *
 * @example
 * ```ts
 * const options: TransformOptions<"beforeTool"> = { tools: ["deploy"], priority: 10 };
 * const deny = transform("beforeTool", () => ({ deny: "Deployments are frozen." }), options);
 * ```
 */
export type TransformOptions<P extends TransformPoint> = (P extends "beforeTool" | "afterTool"
  ? WrapToolOptions
  : HookOptions) & {
  /**
   * True to reject unknown fields in the returned value with `invalid_hook_result`. False to drop
   * them with one warning.
   *
   * @default true
   */
  readonly strict?: boolean;
};

/** Common fields of all hooks. */
export interface HookBasics {
  /** Name of the hook. `undefined` if it is named by its place. */
  readonly name: string | undefined;
  /** Priority. Higher values run first. */
  readonly priority: number;
}

interface AllHookOptions extends WrapToolOptions {
  readonly strict?: boolean;
}

const TOOL_OWNERS = ["beforeTool", "afterTool", "wrapToolCall"];

/**
 * Returns the checked options of a hook at `owner`, which is a point or a kind. `part` names its
 * function, `further` the options that are checked elsewhere. Throws `invalid_argument`.
 */
function readHookOptions(
  [owner, part]: readonly [owner: string, part: string],
  work: { readonly name: unknown },
  options: AllHookOptions,
  further: readonly string[] = [],
): HookBasics {
  checkFunction(`${owner}.${part}`, work);
  const field = `${owner}.options`;
  checkKeys(field, options, ["name", "priority", ...further]);
  const { priority = 0 } = options;
  if (typeof priority !== "number" || !Number.isFinite(priority))
    throw mismatch(`${field}.priority`, "a finite number", priority, "Leave it out for 0.");
  return { name: nameFunction(`${field}.name`, options.name, work), priority };
}

/** Returns the checked options of a transform hook. */
function readTransformOptions(
  owner: string,
  work: { readonly name: unknown },
  options: AllHookOptions,
) {
  const { tools, strict = true } = options;
  const basics = readHookOptions([owner, "handler"], work, options, ["strict", "tools"]);
  const field = `${owner}.options`;
  checkBoolean(`${field}.strict`, strict);
  if (tools !== undefined && !TOOL_OWNERS.includes(owner)) {
    const expected = `left out: ${owner} is not about a tool`;
    throw mismatch(`${field}.tools`, expected, tools, `Use it with ${TOOL_OWNERS.join(", ")}.`);
  }
  return { ...basics, tools: copyToolNames(`${field}.tools`, tools), strict };
}

/** Returns the checked event types as a list. */
function checkEventTypes(field: string, types: unknown): readonly EventType[] {
  const list: readonly unknown[] = Array.isArray(types) ? types : [types];
  if (list.length === 0)
    throw mismatch(field, "at least one event type", types, "Name the events to observe.");
  return Object.freeze(
    list.map((type) => {
      if (isEventType(type)) return type;
      throw mismatch(field, "a type of event", type, 'Use a type such as "step.completed".');
    }),
  );
}
