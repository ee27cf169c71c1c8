// How often in a row an agent has made the very same call: the sign of a loop that leads nowhere (R74). Pure.

import { parseJson, sameJson } from "../kernel/json.ts";
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
  for (const made of lastFirst(earlier)) {
    if (!isSame(made, call)) return count;
    count += 1;
  }
  for (const { tools } of lastFirst(steps)) {
    for (const { call: made, type } of lastFirst(tools.executions)) {
      if (type === "not_executed") continue;
      if (!isSame(made, call)) return count;
      count += 1;
    }
  }
  return count;
}

/** From the end, and no further than it is asked: mostly the first is another call already. */
function* lastFirst<T>(list: readonly T[]): Generator<T, void, undefined> {
  for (let index = list.length - 1; index >= 0; index -= 1) {
    const one = list[index];
    if (one !== undefined) yield one;
  }
}

function isSame(left: ToolCall, right: ToolCall): boolean {
  if (left.toolName !== right.toolName) return false;
  if (left.argumentsText === right.argumentsText) return true;
  try {
    return sameJson(valueOf(left), valueOf(right));
  } catch {
    return false; // What is no JSON, or nested beyond reason, is the same only word for word.
  }
}

function valueOf({ argumentsText }: ToolCall): unknown {
  return parseJson(argumentsText.trim() === "" ? "{}" : argumentsText);
}
