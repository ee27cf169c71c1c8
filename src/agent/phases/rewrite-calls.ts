// The hooks before tool calls: they may change the arguments of a call, or deny it, before anything looks at it (C44).

import type { JsonValue } from "../../kernel/json.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { argumentsOf } from "../../tools/bind-call.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { Deferral, OpenStep } from "../agent-state.ts";
import { heard, askHooks, type HookQuestion } from "../consult-hooks.ts";

/** A call with the arguments that it is to have. */
export interface Rewritten {
  readonly call: ToolCall;
  readonly argumentsText: string;
  /** What the hooks before it came to, besides other arguments. */
  readonly change:
    | { readonly type: "denied"; readonly reason: string; readonly by: string }
    | { readonly type: "failed"; readonly error: ErrorRecord }
    | { readonly type: "cancelled" }
    | undefined;
}

/** Asks the hooks of all calls at once; at once itself if there are none. Calls that were put off have been through it (R28). */
export function rewriteCalls(
  agent: AgentRuntime,
  step: OpenStep,
  calls: readonly ToolCall[],
): readonly Rewritten[] | Promise<readonly Rewritten[]> {
  const deferrals = new Map(step.deferrals.map((deferral) => [deferral.callId, deferral]));
  const asked = calls.map((call) => ask(agent, step, call, deferrals.get(call.callId)));
  return asked.some(({ answer }) => answer !== undefined)
    ? heardOut(agent, asked)
    : asked.map(({ rewritten }) => rewritten);
}

async function heardOut(
  agent: AgentRuntime,
  asked: readonly Asked[],
): Promise<readonly Rewritten[]> {
  const answers = await Promise.all(asked.map(async ({ answer }) => await answer));
  return asked.map(({ rewritten, question }, index) => {
    const answer = answers[index];
    if (answer === undefined || question === undefined) return rewritten;
    return applied(agent, rewritten, question, answer);
  });
}

type BeforeTool = HookQuestion<"beforeTool">;
type Said = Parameters<typeof heard<"beforeTool">>[2];

interface Asked {
  readonly rewritten: Rewritten;
  readonly question?: BeforeTool;
  readonly answer?: ReturnType<typeof askHooks<"beforeTool">>;
}

function ask(
  agent: AgentRuntime,
  step: OpenStep,
  call: ToolCall,
  deferral: Deferral | undefined,
): Asked {
  const { callId, toolName } = call;
  const { argumentsText } = deferral ?? call;
  const rewritten: Rewritten = { call, argumentsText, change: undefined };
  const { hooks } = agent;
  const isHooked = hooks.points.has("beforeTool") && hooks.chain("beforeTool", toolName).length > 0;
  const isHidden = step.hiddenTools.some((hidden) => hidden.toolName === toolName);
  const isKnown = agent.tools.find(toolName) !== undefined && !isHidden;
  const input = isHooked && isKnown ? parsed(argumentsText) : undefined;
  if (deferral !== undefined || input === undefined) return { rewritten };
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
