// The hooks before tool calls: they may change the arguments of a call, or deny it, before anything looks at it (C44).

import type { JsonValue } from "../../kernel/json.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { spanOf, type TimeSpan } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { argumentsOf } from "../../tools/bind-call.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { OpenStep } from "../agent-state.ts";
import { heard, askHooks, type HookQuestion } from "../consult-hooks.ts";
import { asWritten, type Rewritten } from "./plan-calls.ts";

/** Calls as hooks left them, what that took of the time, and the hooks that broke. */
export interface HookedCalls {
  readonly rewritten: readonly Rewritten[];
  readonly spans: readonly TimeSpan[];
  readonly failures: readonly ErrorRecord[];
}

/** Asks the hooks of all calls at once. Calls that were put off have been through it (R28). */
export async function rewriteCalls(
  agent: AgentRuntime,
  step: OpenStep,
  calls: readonly ToolCall[],
): Promise<HookedCalls> {
  const askedAtMs = agent.run.clock.nowMs();
  const asked = calls.map((call) => ask(agent, step, call));
  const isAsked = asked.some(({ answer }) => answer !== undefined);
  const answers = isAsked ? await Promise.all(asked.map(async ({ answer }) => await answer)) : [];
  const rewritten = asked.map((one, index) => {
    const answer = answers[index];
    if (answer === undefined || one.question === undefined) return one.rewritten;
    return applied(agent, one.rewritten, one.question, answer);
  });
  return {
    rewritten,
    spans: spanOf("hooks", askedAtMs, agent.run.clock.nowMs()),
    failures: rewritten.flatMap(({ change }) => (change?.type === "failed" ? [change.error] : [])),
  };
}

type BeforeTool = HookQuestion<"beforeTool">;
type Said = Parameters<typeof heard<"beforeTool">>[2];

interface Asked {
  readonly rewritten: Rewritten;
  readonly question?: BeforeTool;
  readonly answer?: ReturnType<typeof askHooks<"beforeTool">>;
}

function ask(agent: AgentRuntime, step: OpenStep, call: ToolCall): Asked {
  const { callId, toolName } = call;
  const rewritten = asWritten(step, call);
  const { argumentsText } = rewritten;
  const isHooked = agent.hooks.chain("beforeTool", toolName).length > 0;
  const isHidden = step.hiddenTools.some((hidden) => hidden.toolName === toolName);
  const isKnown = agent.tools.find(toolName) !== undefined && !isHidden;
  const input = isHooked && isKnown ? parsed(argumentsText) : undefined;
  const isPutOff = step.deferrals.some((deferral) => deferral.callId === callId);
  if (isPutOff || input === undefined) return { rewritten };
  const question: BeforeTool = {
    point: "beforeTool",
    stepNumber: step.number,
    place: { stepId: step.stepId, callId },
    input: { toolName, callId, arguments: input },
    toolName,
  };
  return { rewritten, question, answer: askHooks(agent, question) };
}

function applied(
  agent: AgentRuntime,
  rewritten: Rewritten,
  question: BeforeTool,
  said: Said,
): Rewritten {
  const after = said.type === "returned" ? said.value.patch.arguments : undefined;
  const change = after === undefined ? {} : { before: question.input.arguments, after };
  const hooked = heard(agent, question, said, change);
  if (hooked.type !== "patched") return { ...rewritten, change: hooked };
  const { deny } = hooked.patch;
  const by = hooked.changedBy.at(-1)?.hook ?? "";
  return {
    ...rewritten,
    ...(after === undefined ? {} : { argumentsText: JSON.stringify(after) }),
    change: deny === undefined ? undefined : { type: "denied", reason: deny, by },
  };
}

/** Hooks see arguments that are JSON. What is none is told to the model as it is. */
function parsed(text: string): JsonValue | undefined {
  try {
    return argumentsOf(text);
  } catch {
    return undefined;
  }
}
