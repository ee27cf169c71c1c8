// From a call as the model wrote it to a call that can run, or to a text with which the model can mend it.

import type { z } from "zod";

import { messageOf } from "../kernel/error.ts";
import type { StopCode } from "../protocol/stop.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { Bound, DelegationTool, FinishTool, FunctionTool } from "./tool.ts";
import type { ToolSet } from "./tool-set.ts";

/** A call that may run, with the tool that serves it. */
export type BoundCall =
  | { readonly type: "function"; readonly tool: FunctionTool; readonly use: UseOf<FunctionTool> }
  | {
      readonly type: "delegation";
      readonly tool: DelegationTool;
      readonly use: UseOf<DelegationTool>;
    }
  | { readonly type: "finish"; readonly tool: FinishTool; readonly use: UseOf<FinishTool> }
  | {
      readonly type: "rejected";
      readonly outcome: "failed" | "refused";
      readonly code: RejectionCode;
      readonly text: string;
    };

/** Why a call does not run: as the model wrote it, or because a limit forbids it. */
export type RejectionCode = "unknown_tool" | "invalid_json" | "invalid_arguments" | StopCode;

type UseOf<T extends { bind(input: unknown): Bound<unknown> }> =
  ReturnType<T["bind"]> extends Bound<infer Use> ? Use : never;

/** Finds the tool, parses the arguments and checks them. Pure. */
export function bindCall(tools: ToolSet, call: ToolCall): BoundCall {
  const tool = tools.find(call.toolName);
  if (tool === undefined) return rejected("unknown_tool", unknownTool(tools, call.toolName));
  let input: unknown;
  try {
    input = call.argumentsText.trim() === "" ? {} : JSON.parse(call.argumentsText);
  } catch (cause) {
    return rejected("invalid_json", invalidJson(call, cause));
  }
  switch (tool.kind) {
    case "function": {
      const bound = tool.bind(input);
      return bound.type === "valid"
        ? { type: "function", tool, use: bound.use }
        : misfit(call, bound.issues);
    }
    case "delegation": {
      const bound = tool.bind(input);
      return bound.type === "valid"
        ? { type: "delegation", tool, use: bound.use }
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

function rejected(code: RejectionCode, text: string): BoundCall {
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

function misfit(call: ToolCall, issues: readonly z.core.$ZodIssue[]): BoundCall {
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
