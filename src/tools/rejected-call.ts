// Rejected calls, with their texts for the model.

import { getErrorMessage } from "../kernel/error.ts";
import { completeSentence } from "../kernel/sentence.ts";
import type { ToolFailureCode } from "../protocol/tool-failure.ts";
import { describeProblems, type ArgumentProblem } from "./arguments/argument-problems.ts";
import type { Tool } from "./tool.ts";

/** A call that does not run: it is invalid, or it was denied. */
export interface RejectedCall {
  readonly type: "rejected";
  /** `undefined` if the tool is unknown, or was not looked up. */
  readonly tool: Tool | undefined;
  readonly code: ToolFailureCode;
  readonly text: string;
  /** The guards or the hook that denied it, by name. */
  readonly by?: string;
  /** The reason of the denial. */
  readonly reason?: string;
}

/** Returns the text of a denied call. */
export function describeDenial(toolName: string, reason: string): string {
  return `Not executed: ${toolName} was denied. ${completeSentence(reason)} Do without it, or answer with what you have.`;
}

/** Creates a call that guards or a hook denied. `by`: their names. */
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

/** Creates the refusal of an approved call whose arguments may have changed during the pause. */
export function rejectUnverifiedCall(tool: Tool): RejectedCall {
  const reason = "Its arguments could not be verified after the pause.";
  const text = `Not executed: the arguments of ${tool.name} could not be verified after a pause. Call it again if you still need it.`;
  return { type: "rejected", tool, code: "blocked", text, reason };
}

/** Creates a call of an unknown tool. `names`: the tools that the model was offered. */
export function rejectUnknownTool(names: readonly string[], name: string): RejectedCall {
  const known =
    names.length === 0
      ? "You have no tools; answer in text."
      : `Your tools are: ${names.join(", ")}.`;
  const text = `There is no tool named ${JSON.stringify(name)}. ${known}`;
  return { type: "rejected", tool: undefined, code: "unknown_tool", text };
}

/** Advice for arguments that are not JSON. */
export const JSON_ADVICE = "Call it again with one JSON object.";

/** Creates a call whose arguments are not JSON. */
export function rejectInvalidJson(tool: Tool, cause: unknown): RejectedCall {
  const text = `The arguments of ${tool.name} are not valid JSON (${getErrorMessage(cause)}). ${JSON_ADVICE}`;
  return { type: "rejected", tool, code: "invalid_json", text };
}

/** Creates a call whose arguments do not match the schema. */
export function rejectArguments(tool: Tool, problems: readonly ArgumentProblem[]): RejectedCall {
  const text = describeProblems(tool.name, problems);
  return { type: "rejected", tool, code: "invalid_arguments", text };
}
