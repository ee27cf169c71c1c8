// Calls that do not run, and what the model reads of them.

import { getErrorMessage } from "../kernel/error.ts";
import { completeSentence } from "../kernel/sentence.ts";
import type { ToolFailureCode } from "../protocol/tool-failure-code.ts";
import { describeProblems, type ArgumentProblem } from "./arguments/argument-problems.ts";
import type { Tool } from "./tool.ts";

/** A call that does not run: as the model wrote it, or because something forbids it. */
export interface RejectedCall {
  readonly type: "rejected";
  /** Undefined if there is no such tool, or none was looked for. */
  readonly tool: Tool | undefined;
  readonly code: ToolFailureCode;
  readonly text: string;
  /** Who denied it: guards and the hook, by name. */
  readonly by?: string;
  /** Why, in their words. */
  readonly reason?: string;
}

/** What the model reads of a call before which its agent had to end. */
export const UNBEGUN_TEXT = "Not executed: the agent was stopped before this call could begin.";

/** What the model reads of a call that was denied. */
export function describeDenial(toolName: string, reason: string): string {
  return `Not executed: ${toolName} was denied. ${completeSentence(reason)} Do without it, or answer with what you have.`;
}

/** A call that guards or a hook denied; `by`: their names. */
export function rejectDeniedCall(
  tool: Tool,
  { by, reason }: { readonly by: string; readonly reason: string },
): RejectedCall {
  return {
    type: "rejected",
    tool,
    code: "blocked",
    text: describeDenial(tool.name, reason),
    by,
    reason,
  };
}

/** Returns the refusal of an approved call whose arguments may have been altered during the pause. */
export function rejectUnverifiedCall(tool: Tool): RejectedCall {
  const reason = "Its arguments could not be verified after the pause.";
  const text = `Not executed: the arguments of ${tool.name} could not be verified after a pause. Call it again if you still need it.`;
  return { type: "rejected", tool, code: "blocked", text, reason };
}

/** A call of a tool that there is not. `names`: the tools that the model was shown. */
export function rejectUnknownTool(names: readonly string[], name: string): RejectedCall {
  const known =
    names.length === 0
      ? "You have no tools; answer in text."
      : `Your tools are: ${names.join(", ")}.`;
  const text = `There is no tool named ${JSON.stringify(name)}. ${known}`;
  return { type: "rejected", tool: undefined, code: "unknown_tool", text };
}

/** What the model is asked to do about arguments that are no JSON. */
export const JSON_ADVICE = "Call it again with one JSON object.";

/** A call whose arguments are no JSON. */
export function rejectInvalidJson(tool: Tool, cause: unknown): RejectedCall {
  const text = `The arguments of ${tool.name} are not valid JSON (${getErrorMessage(cause)}). ${JSON_ADVICE}`;
  return { type: "rejected", tool, code: "invalid_json", text };
}

/** A call whose arguments do not fit its tool. */
export function rejectArguments(tool: Tool, problems: readonly ArgumentProblem[]): RejectedCall {
  const text = describeProblems(tool.name, problems);
  return { type: "rejected", tool, code: "invalid_arguments", text };
}
