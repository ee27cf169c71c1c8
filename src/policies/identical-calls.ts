// How often in a row an agent has made the very same call: the sign of a loop without progress (R74). Pure.

import { parseJson, sameJson } from "../kernel/json.ts";
import { mendedJson } from "../kernel/mend-json.ts";
import type { ToolCall } from "../protocol/message.ts";
import type { StepRecord } from "../protocol/step-record.ts";

/** A call among all calls of its reply. */
export interface CallInReply {
  readonly calls: readonly ToolCall[];
  readonly index: number;
  /** What `identicalCallsBefore` gave for the call right before it, if that is known: a long row is then not counted anew. */
  readonly countBefore?: number | undefined;
}

/**
 * The calls right before this one that are the same: same tool, same arguments, whatever the order of their keys. Those of the same
 * reply come first, then those of `steps`. A different call in between ends the row; a call that was not executed does not count.
 */
export function identicalCallsBefore(
  steps: readonly StepRecord[],
  { calls, index, countBefore }: CallInReply,
): number {
  const call = calls[index];
  if (call === undefined) return 0;
  let count = 0;
  for (let place = index - 1; place >= 0; place -= 1) {
    const made = calls[place];
    if (made === undefined || !isSameCall(made, call)) return count;
    if (countBefore !== undefined) return countBefore + 1;
    count += 1;
  }
  for (let place = steps.length - 1; place >= 0; place -= 1) {
    for (const { call: made, type } of steps[place]?.tools.executions.toReversed() ?? []) {
      if (type === "not_executed") continue;
      if (!isSameCall(made, call)) return count;
      count += 1;
    }
  }
  return count;
}

function isSameCall(left: ToolCall, right: ToolCall): boolean {
  if (left.toolName !== right.toolName) return false;
  if (left.argumentsText === right.argumentsText) return true;
  try {
    return sameJson(valueOf(left), valueOf(right));
  } catch {
    return false; // What is no JSON, or nested beyond reason, is the same only word for word.
  }
}

function valueOf({ argumentsText }: ToolCall): unknown {
  try {
    return parseJson(argumentsText.trim() === "" ? "{}" : argumentsText);
  } catch (cause) {
    const meant = mendedJson(argumentsText);
    if (meant === undefined) throw cause;
    return meant;
  }
}
