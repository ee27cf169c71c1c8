// From a call as the model wrote it to a call that can run, or to a text with which the model can mend it.

import type { z } from "zod";

import { messageOf } from "../kernel/error.ts";
import { parseJson, unsoundness, type JsonValue } from "../kernel/json.ts";
import type { StopCode } from "../protocol/stop.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { Bound, DelegationTool, ExternalTool, FinishTool, FunctionTool } from "./tool.ts";
import type { ToolSet } from "./tool-set.ts";

/** A call that may run, with the tool that serves it. */
export type BoundCall =
  | {
      readonly type: "function";
      readonly tool: FunctionTool;
      readonly use: UseOf<FunctionTool>;
      readonly input: JsonValue;
    }
  | { readonly type: "external"; readonly tool: ExternalTool; readonly input: JsonValue }
  | {
      readonly type: "delegation";
      readonly tool: DelegationTool;
      readonly use: UseOf<DelegationTool>;
      readonly input: JsonValue;
    }
  | { readonly type: "finish"; readonly tool: FinishTool; readonly use: UseOf<FinishTool> }
  | {
      readonly type: "rejected";
      readonly outcome: "failed" | "refused" | "not_executed";
      readonly code: RejectionCode;
      readonly text: string;
      /** The hook that denied it (R87). */
      readonly by?: string;
    };

/** Why a call does not run: as the model wrote it, or because a limit forbids it. */
export type RejectionCode =
  | "unknown_tool"
  | "invalid_json"
  | "invalid_arguments"
  | "approval_check_failed"
  | "blocked"
  | "denied"
  | "not_executed"
  | "skipped"
  | StopCode;

type UseOf<T extends { bind(input: unknown): Bound<unknown> }> =
  ReturnType<T["bind"]> extends Bound<infer Use> ? Use : never;

/** What the model reads of a call that somebody or something denied. */
export function deniedText(toolName: string, reason: string): string {
  return `Not executed: ${toolName} was denied. ${reason} Do without it, or answer with what you have.`;
}

/** Finds the tool, parses the arguments and checks them. Pure. */
export function bindCall(tools: ToolSet, call: ToolCall): BoundCall {
  const tool = tools.find(call.toolName);
  if (tool === undefined) return rejected("unknown_tool", unknownTool(tools, call.toolName));
  let input: JsonValue;
  try {
    input = argumentsOf(call.argumentsText);
  } catch (cause) {
    return rejected("invalid_json", invalidJson(call, cause));
  }
  switch (tool.kind) {
    case "function":
      return rebindCall(tool, call, input);
    case "external": {
      const bound = tool.bind(input);
      return bound.type === "valid"
        ? { type: "external", tool, input }
        : misfit(call, bound.issues);
    }
    case "delegation": {
      const bound = tool.bind(input);
      return bound.type === "valid"
        ? { type: "delegation", tool, use: bound.use, input }
        : misfit(call, bound.issues);
    }
    case "finish": {
      const bound = tool.bind(input);
      return bound.type === "valid"
        ? { type: "finish", tool, use: bound.use }
        : misfit(call, bound.issues);
    }
  }
}

/** The call with other arguments, checked like those that the model wrote (C44). */
export function rebindCall(
  tool: FunctionTool,
  call: ToolCall,
  input: JsonValue,
): Extract<BoundCall, { readonly type: "function" | "rejected" }> {
  const bound = tool.bind(input);
  return bound.type === "valid"
    ? { type: "function", tool, use: bound.use, input }
    : misfit(call, bound.issues);
}

/** Deeper arguments are no use to anybody, and could make code that walks them run out of stack. */
const MOST_LEVELS = 200;

/** The arguments as a value; no text at all means no arguments. Throws a `SyntaxError` for what is no JSON, or nested beyond reason. */
export function argumentsOf(text: string): JsonValue {
  const input = text.trim() === "" ? {} : parseJson(text);
  const reason = unsoundness(input, MOST_LEVELS);
  if (reason !== undefined) throw new SyntaxError(reason);
  return input;
}

type Rejected = Extract<BoundCall, { readonly type: "rejected" }>;

function rejected(code: RejectionCode, text: string): Rejected {
  return { type: "rejected", outcome: "failed", code, text };
}

function unknownTool(tools: ToolSet, name: string): string {
  const known =
    tools.names.length === 0
      ? "You have no tools; answer in text."
      : `Your tools are: ${tools.names.join(", ")}.`;
  return `There is no tool named ${JSON.stringify(name)}. ${known}`;
}

function invalidJson(call: ToolCall, cause: unknown): string {
  return `The arguments of ${call.toolName} are not valid JSON (${messageOf(cause)}). Call it again with one JSON object.`;
}

function misfit(call: ToolCall, issues: readonly z.core.$ZodIssue[]): Rejected {
  const lines = issues.map(
    (issue) =>
      `- ${issue.path.length === 0 ? "arguments" : issue.path.join(".")}: ${issue.message}`,
  );
  const text = [
    `The arguments of ${call.toolName} do not fit its schema:`,
    ...lines,
    "Correct them and call it again.",
  ];
  return rejected("invalid_arguments", text.join("\n"));
}
