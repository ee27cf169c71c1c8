// What the steps of an agent say of its tools: how often each ran, and what went wrong.

import type { StepRecord } from "../../protocol/step-record.ts";
import type { ToolErrorRecord } from "../../protocol/tool-error-record.ts";
import { TOOL_FAILURES, isToolFailureCode } from "../../protocol/tool-failure.ts";

const NOT_RUN: ReadonlySet<string> = new Set([
  "unknown_tool",
  "invalid_json",
  "invalid_arguments",
  "not_executed",
]);

/** How often each tool ran, by name. */
export function toolsUsed(steps: readonly StepRecord[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  const executions = steps.flatMap((step) => step.tools.executions);
  for (const { call, type, errorCode, causeCode, arguments: given } of executions) {
    if (type === "refused" || NOT_RUN.has(causeCode ?? errorCode ?? "")) continue;
    // A call for elsewhere fails as well if nobody executes it: it was given no arguments then.
    if (errorCode === "tool_error" && given === undefined) continue;
    counts.set(call.toolName, (counts.get(call.toolName) ?? 0) + 1);
  }
  return Object.fromEntries(counts);
}

/** The calls that went wrong, in order: those that count against the error budget. */
export function toolErrors(steps: readonly StepRecord[]): readonly ToolErrorRecord[] {
  return steps.flatMap(({ number: stepNumber, tools }) =>
    tools.executions.flatMap(({ call, text: message, errorCode: code, severity }) => {
      if (code === undefined || severity === undefined || !isToolFailureCode(code)) return [];
      const { counts } = TOOL_FAILURES[code];
      const { callId, toolName } = call;
      return counts === "nothing"
        ? []
        : [{ callId, toolName, stepNumber, code, severity, message }];
    }),
  );
}
