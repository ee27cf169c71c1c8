// How often in a row an agent has made the very same call: the sign of a loop that leads nowhere (R74). Pure.

import { canonicalJson } from "../kernel/json.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";

/**
 * The calls right before this one that are the same: same tool, same arguments, whatever the order of their keys. `earlier`: those of
 * the same reply, in order. A different call in between ends the row; a call that was not executed does not count.
 */
export function identicalCallsBefore(
  steps: readonly StepRecord[],
  earlier: readonly ToolCall[],
  call: ToolCall,
): number {
  let count = 0;
  for (const made of earlier.toReversed()) {
    if (!isSame(made, call)) return count;
    count += 1;
  }
  for (const { tools } of steps.toReversed()) {
    for (const { call: made, type } of tools.executions.toReversed()) {
      if (type === "not_executed") continue;
      if (!isSame(made, call)) return count;
      count += 1;
    }
  }
  return count;
}

function isSame(left: ToolCall, right: ToolCall): boolean {
  if (left.toolName !== right.toolName) return false;
  return (
    left.argumentsText === right.argumentsText ||
    canonicalText(left.argumentsText) === canonicalText(right.argumentsText)
  );
}

/** Equal for equal values; what is no JSON stands for itself. */
function canonicalText(text: string): string {
  try {
    return canonicalJson(JSON.parse(text.trim() === "" ? "{}" : text));
  } catch {
    return text;
  }
}
