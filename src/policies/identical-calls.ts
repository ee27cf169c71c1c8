// Counts identical consecutive calls of an agent, the sign of a loop without progress. Pure.

import { parseJson, sameJson } from "../kernel/json.ts";
import { repairJson } from "../kernel/repair-json.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";

/** A call among all calls of its reply. */
export interface CallInReply {
  readonly calls: readonly ToolCall[];
  readonly index: number;
  /**
   * Result of `countIdenticalCalls` for the preceding call, if known. Avoids counting a long row
   * again.
   */
  readonly countBefore?: number | undefined;
}

/**
 * Returns how many calls directly before this one are identical: same tool, and same arguments in
 * any key order. Counts the calls of the same reply first, then those of `steps`. A different call
 * ends the row. Calls that were not executed are skipped.
 */
export function countIdenticalCalls(
  steps: readonly StepRecord[],
  { calls, index, countBefore }: CallInReply,
): number {
  const call = calls[index];
  if (call === undefined) return 0;
  let count = 0;
  for (let place = index - 1; place >= 0; place -= 1) {
    const earlier = calls[place];
    if (earlier === undefined || !isSameCall(earlier, call)) return count;
    if (countBefore !== undefined) return countBefore + 1;
    count += 1;
  }
  for (let place = steps.length - 1; place >= 0; place -= 1) {
    for (const { call: earlier, type } of steps[place]?.tools.executions.toReversed() ?? []) {
      if (type === "not_executed") continue;
      if (!isSameCall(earlier, call)) return count;
      count += 1;
    }
  }
  return count;
}

function isSameCall(left: ToolCall, right: ToolCall): boolean {
  if (left.toolName !== right.toolName) return false;
  if (left.argumentsText === right.argumentsText) return true;
  try {
    return sameJson(parseIntendedArguments(left), parseIntendedArguments(right));
  } catch {
    return false; // Invalid or too deeply nested JSON is compared as text only.
  }
}

function parseIntendedArguments({ argumentsText }: ToolCall): unknown {
  try {
    return parseJson(argumentsText.trim() === "" ? "{}" : argumentsText);
  } catch (cause) {
    const meant = repairJson(argumentsText);
    if (meant === undefined) throw cause;
    return meant;
  }
}
