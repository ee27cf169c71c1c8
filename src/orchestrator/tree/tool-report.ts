// Statistics of an agent's tools from its steps: executed calls and failures.

import type { StepRecord } from "../../protocol/step-record.ts";
import type { ToolErrorRecord } from "../../protocol/tool-error-record.ts";
import { TOOL_FAILURES, isToolFailureCode } from "../../protocol/tool-failure.ts";

const NOT_RUN: ReadonlySet<string> = new Set([
  "unknown_tool",
  "invalid_json",
  "invalid_arguments",
  "not_executed",
]);

/** Returns the number of executed calls by tool name. */
export function countToolsUsed(steps: readonly StepRecord[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  const executions = steps.flatMap((step) => step.tools.executions);
  for (const { call, type, errorCode, causeCode, arguments: parsed } of executions) {
    if (type === "refused" || NOT_RUN.has(causeCode ?? errorCode ?? "")) continue;
    // An external call fails as well if nobody executes it: it got no arguments then.
    if (errorCode === "tool_error" && parsed === undefined) continue;
    counts.set(call.toolName, (counts.get(call.toolName) ?? 0) + 1);
  }
  return Object.fromEntries(counts);
}

/** Returns the failed calls in order: the calls that count towards the error budget. */
export function collectToolErrors(steps: readonly StepRecord[]): readonly ToolErrorRecord[] {
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
