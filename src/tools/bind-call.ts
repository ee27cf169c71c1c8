// From a call as the model wrote it to a call that can run, or to a text with which the model can mend it.

import { messageOf } from "../kernel/error.ts";
import { parseJson, unsoundness, type JsonValue } from "../kernel/json.ts";
import { asSentence } from "../kernel/sentence.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { ToolFailureCode } from "../protocol/tool-failure.ts";
import { problemsText } from "./arguments/argument-problems.ts";
import type {
  Bound,
  DelegationTool,
  ExternalTool,
  FinishTool,
  FunctionTool,
  Tool,
} from "./tool.ts";
import type { ToolSet } from "./tool-set.ts";

/** A call that may run, with the tool that serves it. */
export type BoundCall =
  | BoundTo<"function", FunctionTool>
  | BoundTo<"external", ExternalTool>
  | BoundTo<"delegation", DelegationTool>
  | BoundTo<"finish", FinishTool>
  | RejectedCall;

/** A call that runs in this process. */
export type OwnCall = Extract<BoundCall, { readonly type: "function" | "delegation" }>;

interface BoundTo<Type extends string, T extends { bind(input: JsonValue): Bound<unknown> }> {
  readonly type: Type;
  readonly tool: T;
  readonly use: ReturnType<T["bind"]> extends Bound<infer Use> ? Use : never;
  /** The arguments after coercion. */
  readonly input: JsonValue;
  /** The same as the tool gets them: with the defaults and transforms of its schema. */
  readonly value: unknown;
}

/** A call that does not run: as the model wrote it, or because something forbids it. */
export interface RejectedCall {
  readonly type: "rejected";
  /** Undefined if there is no such tool, or nobody has looked. */
  readonly tool: Tool | undefined;
  readonly code: ToolFailureCode;
  readonly text: string;
  /** Who denied it: guards and the hook, by name (R87). */
  readonly by?: string;
  /** Why, in their words. */
  readonly reason?: string;
}

/** What the model reads of a call before which its agent was told to end. */
export const UNBEGUN_TEXT = "Not executed: the agent was told to end before this call could begin.";

/** What the model reads of a call that somebody or something denied. */
export function deniedText(toolName: string, reason: string): string {
  return `Not executed: ${toolName} was denied. ${asSentence(reason)} Do without it, or answer with what you have.`;
}

/** A call that guards or a hook denied; `by`: their names. */
export function deniedCall(
  tool: Tool,
  { by, reason }: { readonly by: string; readonly reason: string },
): RejectedCall {
  return {
    type: "rejected",
    tool,
    code: "blocked",
    text: deniedText(tool.name, reason),
    by,
    reason,
  };
}

/** Finds the tool, parses the arguments and checks them. `offered`: the tools that the model was shown, if not all. Pure. */
export function bindCall(
  tools: ToolSet,
  call: ToolCall,
  offered: readonly string[] = tools.names,
): BoundCall {
  const tool = tools.find(call.toolName);
  if (tool === undefined) return unknownTool(offered, call.toolName);
  let input: JsonValue;
  try {
    input = argumentsOf(call.argumentsText);
  } catch (cause) {
    return { type: "rejected", tool, code: "invalid_json", text: invalidJson(call, cause) };
  }
  return rebindCall(tool, input);
}

/** The call with other arguments, checked like those that the model wrote (C44). */
export function rebindCall(
  tool: FunctionTool | DelegationTool,
  input: JsonValue,
): OwnCall | RejectedCall;
export function rebindCall(tool: Tool, input: JsonValue): BoundCall;
export function rebindCall(tool: Tool, input: JsonValue): BoundCall {
  switch (tool.kind) {
    case "function": {
      const bound = tool.bind(input);
      return bound.type === "valid" ? { ...bound, type: "function", tool } : misfit(tool, bound);
    }
    case "external": {
      const bound = tool.bind(input);
      return bound.type === "valid" ? { ...bound, type: "external", tool } : misfit(tool, bound);
    }
    case "delegation": {
      const bound = tool.bind(input);
      return bound.type === "valid" ? { ...bound, type: "delegation", tool } : misfit(tool, bound);
    }
    case "finish": {
      const bound = tool.bind(input);
      return bound.type === "valid" ? { ...bound, type: "finish", tool } : misfit(tool, bound);
    }
  }
}

/** Deeper arguments are no use to anybody, and could make code that walks them run out of stack. */
export const MOST_LEVELS = 200;

/** The arguments as a value; no text at all means no arguments. Throws a `SyntaxError` for what is no JSON, or nested beyond reason. */
export function argumentsOf(text: string): JsonValue {
  const input = text.trim() === "" ? {} : parseJson(text);
  const reason = unsoundness(input, MOST_LEVELS);
  if (reason !== undefined) throw new SyntaxError(reason);
  return input;
}

function unknownTool(names: readonly string[], name: string): RejectedCall {
  const known =
    names.length === 0
      ? "You have no tools; answer in text."
      : `Your tools are: ${names.join(", ")}.`;
  const text = `There is no tool named ${JSON.stringify(name)}. ${known}`;
  return { type: "rejected", tool: undefined, code: "unknown_tool", text };
}

/** What the model is asked to do about arguments that are no JSON. */
export const JSON_ADVICE = "Call it again with one JSON object.";

function invalidJson(call: ToolCall, cause: unknown): string {
  return `The arguments of ${call.toolName} are not valid JSON (${messageOf(cause)}). ${JSON_ADVICE}`;
}

function misfit(
  tool: Tool,
  { problems }: Extract<Bound<unknown>, { readonly type: "invalid" }>,
): RejectedCall {
  const text = problemsText(tool.name, problems);
  return { type: "rejected", tool, code: "invalid_arguments", text };
}
