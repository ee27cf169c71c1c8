// OwnUse: what one agent has used of its budget by itself, without its subagents.

import type { EspalierEvent } from "../protocol/event.ts";
import type { Usage } from "../protocol/usage.ts";
import type { AxisAmounts } from "./viewer-data.ts";

/** Amounts by axis of the ledger. Changed in place by its `AgentFold`. */
export class OwnUse {
  #amounts: Record<string, number> = {};
  /** Tool calls of completed steps. */
  #completedCalls = 0;

  /** Takes an event of the agent. */
  take(event: EspalierEvent): void {
    switch (event.type) {
      case "budget.settled":
        this.#add(event.usage);
        return;
      case "tool.started":
        // Tool calls are charged without an event of their own: exact once their step completes.
        if (event.kind !== "finish") this.#add({ toolCalls: 1 });
        return;
      case "step.completed":
        // Calls that a guard or a person denied are charged, too, and never start.
        this.#setCompletedCalls(this.#completedCalls + event.usage.toolCalls);
        return;
      case "agent.ended":
        this.#amounts = {};
        this.#add(event.usage.own);
        this.#setCompletedCalls(event.usage.own.toolCalls);
        return;
      default:
    }
  }

  /** Returns the amounts on the limited axes. Time passes for an agent as for its subagents. */
  within(budget: AxisAmounts, left: AxisAmounts = budget): AxisAmounts {
    const used: Record<string, number> = {};
    for (const [axis, limit] of Object.entries(budget))
      used[axis] =
        axis === "wallTimeMs"
          ? Math.max(0, limit - (left[axis] ?? limit))
          : (this.#amounts[axis] ?? 0);
    return used;
  }

  #setCompletedCalls(count: number): void {
    this.#completedCalls = count;
    this.#amounts["toolCalls"] = count;
  }

  /** A cost may be unknown. */
  #add(usage: Partial<Usage>): void {
    const more: Readonly<Record<string, number | null>> = { ...usage };
    for (const [axis, amount] of Object.entries(more))
      this.#amounts[axis] = (this.#amounts[axis] ?? 0) + (amount ?? 0);
  }
}
