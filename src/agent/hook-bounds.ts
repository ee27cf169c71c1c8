import { checkText } from "../kernel/check.ts";
import type { HookBounds } from "../hooks/call-hook.ts";
import type { WrapBounds } from "../hooks/run-chain.ts";
import type { HookContext } from "../hooks/hook-points.ts";
import type { EffectPlace } from "./effects.ts";
import type { LocalEffectsOptions } from "./local-options.ts";

/** The agent that hooks serve. */
export type HookedAgent = Pick<
  LocalEffectsOptions,
  "identity" | "roleName" | "metadata" | "signal" | "raise" | "clock" | "hookTimeoutMs" | "graceMs"
>;

/** How long the hooks at a place may take, and what they may know. */
export function hookBounds(
  options: HookedAgent,
  place: Pick<EffectPlace, "stepNumber">,
): HookBounds<HookContext> {
  const { signal, clock, hookTimeoutMs: timeoutMs, graceMs } = options;
  return {
    signal,
    clock,
    timeoutMs,
    graceMs,
    contextFor: (hookName) => hookContext(options, place, hookName),
  };
}

/** How long wraps may keep a call to themselves. */
export function wrapBounds({
  clock,
  signal,
  hookTimeoutMs,
}: Pick<HookedAgent, "clock" | "signal" | "hookTimeoutMs">): WrapBounds {
  return { clock, signal, timeoutMs: hookTimeoutMs };
}

/** What a hook may know and do at a place of an execution. */
export function hookContext(
  options: HookedAgent,
  { stepNumber }: Pick<EffectPlace, "stepNumber">,
  hookName: string,
): HookContext {
  const { runId, agentId, agentPath, depth, executionId } = options.identity;
  return Object.freeze({
    runId,
    agentId,
    agentPath,
    depth,
    executionId,
    role: options.roleName,
    stepNumber,
    hookName,
    metadata: options.metadata,
    signal: options.signal,
    requestStop: (message: string) => {
      checkText("message", message);
      const reason = { code: "stop_requested", message, data: {} };
      options.raise({ source: "hook", reason, name: hookName });
    },
  });
}
