// Runs the hooks before tool calls. They may change the arguments of a call or deny it, before
// other code reads the call.

import type { CallId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { toSpans } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { parseArguments } from "../../tools/bind-call.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { isWholeReply, type OpenStep } from "../agent-state.ts";
import { askHooks, recordHooks, type HookQuestion } from "../run-user-code.ts";

/** A call after its hooks. */
export interface HookedCall {
  readonly argumentsText: string;
  /** As `BoundCall.unrepaired`. */
  readonly unrepaired?: RejectedCall | undefined;
  /** The result of the hooks, apart from changed arguments. */
  readonly change:
    | { readonly type: "denied"; readonly reason: string; readonly by: string }
    | { readonly type: "failed"; readonly error: ErrorRecord }
    | { readonly type: "cancelled" }
    | undefined;
}

/**
 * Runs the hooks of all calls at once, except calls that were deferred and have already passed
 * them.
 */
export async function rewriteCalls(
  agent: AgentRuntime,
  step: OpenStep,
  calls: readonly ToolCall[],
) {
  const { clock } = agent.run;
  const askedAtMs = clock.nowMs();
  const hooked = new Map<CallId, HookedCall>();
  const failures: ErrorRecord[] = [];
  const rewritten = await Promise.all(calls.map((call) => rewriteCall(agent, step, call)));
  for (const [index, { callId }] of calls.entries()) {
    const call = rewritten[index]?.();
    if (call !== undefined) hooked.set(callId, call);
    if (call?.change?.type === "failed") failures.push(call.change.error);
  }
  return { calls: hooked, spans: toSpans("hooks", askedAtMs, clock.nowMs()), failures };
}

/**
 * Runs the hooks of a call, and returns a function that records their changes. `undefined` without
 * hooks, or if the call cannot be passed to them.
 */
async function rewriteCall(
  agent: AgentRuntime,
  step: OpenStep,
  { callId, toolName, argumentsText }: ToolCall,
): Promise<(() => HookedCall) | undefined> {
  const isHooked = agent.hooks.chain("beforeTool", toolName).length > 0;
  const isHidden = step.hiddenTools.some((hidden) => hidden.toolName === toolName);
  const tool = isHidden ? undefined : agent.tools.find(toolName);
  const isPutOff = step.deferrals.some((deferral) => deferral.callId === callId);
  // Hooks receive only arguments that are JSON, possibly after a small repair. The model gets other
  // arguments back as errors.
  if (!isHooked || tool === undefined || isPutOff) return undefined;
  const parsed = parseArguments(tool, argumentsText, isWholeReply(step));
  if ("code" in parsed) return undefined;
  const { input, unrepaired } = parsed;
  const question: HookQuestion<"beforeTool"> = {
    point: "beforeTool",
    stepNumber: step.number,
    position: { stepId: step.stepId, callId },
    input: { toolName, callId, arguments: input },
    toolName,
  };
  const hooked = await askHooks(agent, question);
  if (hooked === undefined) return undefined;
  return () => {
    if (hooked.type !== "returned") return { argumentsText, change: hooked };
    const { patch, changedBy } = hooked.value;
    const { arguments: after, deny } = patch;
    recordHooks(agent, question, hooked, after === undefined ? {} : { before: input, after });
    const by = changedBy.at(-1)?.hook ?? "";
    return {
      argumentsText: after === undefined ? argumentsText : JSON.stringify(after),
      unrepaired,
      change: deny === undefined ? undefined : { type: "denied", reason: deny, by },
    };
  };
}
