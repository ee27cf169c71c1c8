// The hooks of an agent by the place where they run, in call order. Compiled once. All empty lists
// are the same object.

import type { EventType } from "../protocol/event.ts";
import type {
  Hook,
  ModelWrapHook,
  ObserverHook,
  ProcessorHook,
  ToolWrapHook,
  TransformHook,
} from "./hook.ts";
import type { TransformPoint } from "./hook-points.ts";

/** A hook with its name: its own, that of its function, or one by place, such as `beforeTool#2`. */
export interface Named<H> {
  readonly name: string;
  readonly hook: H;
}

/** Transformers at a point. */
export type Chain<P extends TransformPoint> = readonly Named<TransformHook<P>>[];

/** Compiled hooks. Every list is frozen and in order: higher priority first, then as registered. */
export interface HookSet {
  /** Points with transformers. Check this first: most agents have none. */
  readonly points: ReadonlySet<TransformPoint>;
  /**
   * Returns the hooks of a point. `toolName`: the tool of the point. Hooks for other tools are
   * excluded. If it is absent, so are all hooks that are limited to tools.
   */
  chain<P extends TransformPoint>(point: P, toolName?: string): Chain<P>;
  readonly modelWraps: readonly Named<ModelWrapHook>[];
  readonly hasToolWraps: boolean;
  toolWraps(toolName: string): readonly Named<ToolWrapHook>[];
  readonly processors: readonly Named<ProcessorHook>[];
  observers(type: EventType): readonly Named<ObserverHook>[];
}

/** Compiles hooks from a list in order of registration. */
export function compileHooks(hooks: readonly Hook[]): HookSet {
  const ordered = nameHooks(hooks).toSorted(
    (left, right) => right.hook.priority - left.hook.priority,
  );
  const observers = filterByKind(ordered, "observe");
  const toolWraps = filterByKind(ordered, "wrapToolCall");
  const transformers = filterByKind(ordered, "transform");
  return Object.freeze({
    points: new Set(transformers.map(({ hook }) => hook.point)),
    chain<P extends TransformPoint>(point: P, toolName?: string): Chain<P> {
      const isAtPoint = (entry: Named<Hook>): entry is Named<TransformHook<P>> =>
        entry.hook.kind === "transform" && entry.hook.point === point;
      return filterByTool(transformers.filter(isAtPoint), toolName);
    },
    modelWraps: filterByKind(ordered, "wrapModelCall"),
    hasToolWraps: toolWraps.length > 0,
    toolWraps: (toolName: string) => filterByTool(toolWraps, toolName),
    processors: filterByKind(ordered, "processStep"),
    observers: (type: EventType) => observers.filter(({ hook }) => hook.types.includes(type)),
  });
}

/** The set of an agent without hooks. */
export const NO_HOOKS: HookSet = compileHooks([]);

/**
 * Names hooks without a name by their place, for example `beforeTool#2`: the second in order of
 * registration.
 */
function nameHooks(hooks: readonly Hook[]): readonly Named<Hook>[] {
  const counts = new Map<string, number>();
  return hooks.map((hook) => {
    const trigger = hook.kind === "transform" ? hook.point : hook.kind;
    const count = (counts.get(trigger) ?? 0) + 1;
    counts.set(trigger, count);
    return Object.freeze({ name: hook.name ?? `${trigger}#${count}`, hook });
  });
}

function filterByTool<H extends { readonly tools: readonly string[] | undefined }>(
  list: readonly Named<H>[],
  toolName: string | undefined,
): readonly Named<H>[] {
  return list.filter(
    ({ hook: { tools } }) =>
      tools === undefined || (toolName !== undefined && tools.includes(toolName)),
  );
}

/** Returns the hooks of this kind. */
function filterByKind<Kind extends Hook["kind"]>(
  list: readonly Named<Hook>[],
  kind: Kind,
): readonly Named<Extract<Hook, { readonly kind: Kind }>>[] {
  type OfKind = Extract<Hook, { readonly kind: Kind }>;
  return list.filter((entry): entry is Named<OfKind> => entry.hook.kind === kind);
}
