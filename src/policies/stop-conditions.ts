// Stop conditions: plain functions over read-only facts that give a reason or nothing. The loop asks them after every step.

import { checkName } from "../kernel/check.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { StopReason } from "../protocol/stop.ts";
import type { Usage } from "../protocol/usage.ts";

/** What a stop condition may look at. */
export interface StopFacts {
  /** Steps of this execution, oldest first; the last one has just completed. */
  readonly steps: readonly StepRecord[];
  /** What the agent itself has consumed. */
  readonly usage: Usage;
  readonly elapsedMs: number;
}

/**
 * Called once after every step, in the order of the role's list. Gives the reason to stop, with a code of your choice, or nothing.
 * Must be pure and keep no state of its own: the same condition serves many runs at once. If it throws, the run fails.
 */
export type StopCondition = (facts: StopFacts) => StopReason | undefined;

/** Stops after a step in which the tool of this name was called; earlier steps do not count (R54). */
export function toolWasCalled(toolName: string): StopCondition {
  checkName("toolWasCalled(toolName)", toolName, /./);
  return ({ steps }) => {
    const last = steps.at(-1);
    if (last === undefined || !last.tools.calls.some((call) => call.toolName === toolName))
      return undefined;
    return {
      code: "tool_called",
      message: `The tool ${toolName} was called.`,
      data: { toolName, step: last.number },
    };
  };
}
