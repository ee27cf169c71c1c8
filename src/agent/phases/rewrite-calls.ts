// The hooks before tool calls: they may change the arguments of a call, or deny it, before anything looks at it (C44).

import type { CallId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { spanOf } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { parsedArguments } from "../../tools/bind-call.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { isWholeReply, type OpenStep } from "../agent-state.ts";
import { heard, askHooks, type Hooked, type HookQuestion } from "../consult.ts";

/** What the hooks before a call made of it. */
export interface HookedCall {
  readonly argumentsText: string;
  /** As `BoundCall.unmended`. */
  readonly unmended?: RejectedCall | undefined;
  /** What they came to, besides other arguments. */
  readonly change:
    | { readonly type: "denied"; readonly reason: string; readonly by: string }
    | { readonly type: "failed"; readonly error: ErrorRecord }
    | { readonly type: "cancelled" }
    | undefined;
}

/** Asks the hooks of all calls at once. Calls that were put off have been through it (R28). */
export async function rewriteCalls(
  agent: AgentRuntime,
  step: OpenStep,
  calls: readonly ToolCall[],
) {
  const askedAtMs = agent.run.clock.nowMs();
  const asked = calls.flatMap((call) => ask(agent, step, call) ?? []);
  const answers = asked.length > 0 ? await Promise.all(asked.map(({ answer }) => answer)) : [];
  const hooked = new Map<CallId, HookedCall>();
  const failures: ErrorRecord[] = [];
  for (const [index, one] of asked.entries()) {
    const answer = answers[index];
    if (answer === undefined) continue;
    const hookedCall = applied(agent, one, answer);
    hooked.set(one.call.callId, hookedCall);
    if (hookedCall.change?.type === "failed") failures.push(hookedCall.change.error);
  }
  return { calls: hooked, spans: spanOf("hooks", askedAtMs, agent.run.clock.nowMs()), failures };
}

type BeforeTool = HookQuestion<"beforeTool">;
type Said = Hooked<"beforeTool">;

interface Asked {
  readonly call: ToolCall;
  readonly unmended: RejectedCall | undefined;
  readonly question: BeforeTool;
  readonly answer: Promise<Said>;
}

/** Asks the hooks of a call; undefined: there is nothing to ask about, or no hook. */
function ask(agent: AgentRuntime, step: OpenStep, call: ToolCall): Asked | undefined {
  const { callId, toolName, argumentsText } = call;
  const isHooked = agent.hooks.chain("beforeTool", toolName).length > 0;
  const isHidden = step.hiddenTools.some((hidden) => hidden.toolName === toolName);
  const tool = isHidden ? undefined : agent.tools.find(toolName);
  const isPutOff = step.deferrals.some((deferral) => deferral.callId === callId);
  // Hooks see arguments that are JSON, perhaps without a small slip. What is none is shown to the model as it is.
  if (!isHooked || tool === undefined || isPutOff) return undefined;
  const parsed = parsedArguments(tool, argumentsText, isWholeReply(step));
  if ("code" in parsed) return undefined;
  const { input, unmended } = parsed;
  const question: BeforeTool = {
    point: "beforeTool",
    stepNumber: step.number,
    position: { stepId: step.stepId, callId },
    input: { toolName, callId, arguments: input },
    toolName,
  };
  const answer = askHooks(agent, question);
  return answer === undefined ? undefined : { call, unmended, question, answer };
}

function applied(
  agent: AgentRuntime,
  { call: { argumentsText }, unmended, question }: Asked,
  said: Said,
): HookedCall {
  if (said.type !== "returned") return { argumentsText, change: said };
  const { patch, changedBy } = said.value;
  const { arguments: after, deny } = patch;
  const change = after === undefined ? {} : { before: question.input.arguments, after };
  heard(agent, question, said, change);
  const by = changedBy.at(-1)?.hook ?? "";
  return {
    argumentsText: after === undefined ? argumentsText : JSON.stringify(after),
    unmended,
    change: deny === undefined ? undefined : { type: "denied", reason: deny, by },
  };
}
