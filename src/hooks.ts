// Entry `espalier/hooks`: makes hooks, and says what each is given and may change.

export {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
  type ModelCall,
  type ModelWrapHook,
  type ObserverContext,
  type ObserverHook,
  type ProcessorHook,
  type ToolWrapHook,
  type TransformHandlers,
  type TransformHook,
  type TransformReturn,
  type WrappedToolCall,
} from "./hooks/hook.ts";
export type {
  HookBasics,
  HookOptions,
  TransformOptions,
  WrapToolOptions,
} from "./hooks/hook.ts";
export type {
  AllowedPatch,
  HookContext,
  PointInput,
  PointPatch,
  TransformPoint,
} from "./hooks/hook-points.ts";
