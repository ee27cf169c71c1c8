// Entry `espalier/hooks`: makes hooks, and says what each is given and may change.

export {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
  type HookBasics,
  type HookOptions,
  type ModelCall,
  type ModelWrapHook,
  type ObserverContext,
  type ObserverHook,
  type ProcessorHook,
  type ToolWrapHook,
  type TransformHandlers,
  type TransformHook,
  type TransformOptions,
  type TransformReturn,
  type WrappedToolCall,
  type WrapToolOptions,
} from "./hooks/hook.ts";
export type {
  AllowedPatch,
  HookContext,
  PointInput,
  PointPatch,
  TransformPoint,
} from "./hooks/hook-points.ts";
